"""Places of values in a file, where faults are noted; the keys of files; mappings with inherited keys."""

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.errors import SourceError, locate
from pytest_agentv.files.problems import (
    ASKS_NOTHING,
    BlankInput,
    Hint,
    Problem,
    UnreadKey,
    describe_value,
    near_file,
    near_word,
)
from pytest_agentv.files.source import KeyPath, LayeredSource, Origins, Source, read_yaml
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.base import mapping as as_mapping

_MISSPELT: Final = 0.75
"""Higher than the cutoff for unknown keys, because `match` is not a misspelling of `path`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A value's place in a file. All places of one load note faults in the same list."""

    source: Source
    keys: KeyPath
    problems: list[Problem]

    def at(self, *keys: str | int) -> "Place":
        return Place(self.source, self.keys + keys, self.problems)

    @property
    def path(self) -> Path:
        """The file in which the value is written."""
        return self.source.origin(self.keys)[0].path

    def error(self, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(self.path, self.line, self.key, message, hint, row=self.source.row))

    def warn(self, message: str, hint: str | None = None) -> None:
        """Note a warning. It names no row: it is shown once, not for each row of a table."""
        self.problems.append(Problem(self.path, self.line, self.key, message, hint, "warning"))

    def suggest(self, message: str, hint: str | None = None) -> None:
        """Note a likely mistake: a warning that is no error in a strict run."""
        self.problems.append(Hint(self.path, self.line, self.key, message, hint, "warning"))

    def warn_of_blank(self) -> None:
        """Warn that a case asks nothing. The warning names the row of a table, because other rows may be fine."""
        blank = BlankInput(self.path, self.line, self.key, ASKS_NOTHING, None, "warning", self.source.row)
        self.problems.append(blank)

    def unread(self, message: str, hint: str | None = None) -> None:
        """Note an unknown key: an error, unless the run makes it a warning (`agentv_unknown_keys`)."""
        self.problems.append(UnreadKey(self.path, self.line, self.key, message, hint, row=self.source.row))

    def expected(self, what: str, value: Json, hint: str | None = None) -> None:
        self.error(f"expected {what}, got {describe_value(value)}", hint)

    @property
    def line(self) -> int | None:
        """The line of the value; None in a file without lines."""
        source, keys = self.source.origin(self.keys)
        return source.line_of(keys) if source.has_lines else None

    @property
    def key(self) -> str:
        """Return `cases[3].id`, or just `id` in a JSONL file, where the line identifies the case."""
        source, keys = self.source.origin(self.keys)
        keys = keys[1:] if source.tells_case_by_line else keys
        return show_key(keys)


def show_key(keys: KeyPath) -> str:
    """Return the path of a value as text: `args[1]`, `healthcheck.url`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


@dataclass(frozen=True, slots=True)
class RenamedPlace(Place):
    """The place of a mapping with some keys that are written elsewhere in the file."""

    homes: Mapping[str, KeyPath]
    """The written places of keys, below this place."""

    def at(self, *keys: str | int) -> Place:
        if not keys:
            return self
        home = self.homes.get(str(keys[0]), keys[:1])
        return Place(self.source, (*self.keys, *home, *keys[1:]), self.problems)


def first_key(mapping: JsonObject, keys: Collection[str]) -> str | None:
    """Return the first of some synonymous keys that has a value."""
    for key in keys:
        if mapping.get(key) is not None:
            return key
    return None


def mapping_at(mapping: JsonObject, key: str, place: Place) -> JsonObject:
    """Return the mapping under a key, or an empty one without the key. Notes an error for other values."""
    value = mapping.get(key)
    if value is None or isinstance(value, dict):
        return value or {}
    place.at(key).expected("a mapping", value)
    return {}


def misspelt_key(
    missing: str, mapping: JsonObject, known: Collection[str], spellings: Collection[str] = ()
) -> str | None:
    """Return an unknown key of a mapping that looks like a missing key, or for which a spelling of it is suggested."""
    unknown = [key for key in mapping if key not in known]
    if not unknown:
        return None
    near = next(iter(difflib.get_close_matches(missing, unknown, n=1, cutoff=_MISSPELT)), None)
    return near or next((key for key in unknown if near_word(key, known) in spellings), None)


# The keys of eval files with their synonyms, and checks that files and cases share (agentv-formats 1.2, 1.3).

CASE_LIST_KEYS: Final = ("cases", "tests", "evalcases", "eval_cases")
INCLUDE: Final = "include"
OUTCOME_KEYS: Final = ("criteria", "expected_outcome", "outcome")
INPUT_KEYS: Final = ("input", "input_messages")
EXPECTED_KEYS: Final = ("expected", "expected_output", "expected_messages")
EVALUATOR_LIST_KEYS: Final = ("assert", "assertions", "evaluators")
LEGACY_EVALUATOR_KEYS: Final = ("evaluator", "grader")

NO_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("no", "n", "off", "false", "0"), "write {}: false"),
    **dict.fromkeys(
        ("null", "none", "nil", "nan", "nat", "na", "<na>", "n/a", "#n/a", "-"), "leave it empty if there is none"
    ),
}
"""What is no reason to skip a case or to expect its failure, in small letters, with what to write instead.

These are words for false in other YAML readers and in cells of CSV, and what Python, pandas, SQL and spreadsheets write
into a cell without a value. Such a column would skip all rows.
"""

_MARKS_WITH_ARGUMENTS: Final[Mapping[str, str]] = {
    "timeout": "timeout says nothing without seconds; write timeout_seconds: 60 at the target, or use --timeout=60",
    "skipif": "skipif says nothing without a condition; write skip: REASON",
    "parametrize": "parametrize says nothing without values; write cases in a table, with `from:`",
    "usefixtures": "usefixtures says nothing without names; write fixtures: [NAME]",
    "filterwarnings": "filterwarnings says nothing without a filter; write it in the ini file",
}
"""Marks that need arguments, which an eval file cannot give.

`skipif` would skip every case, and `timeout` would crash.
"""

_CHECKED: Final = "write the checks as a list under `assert`"
_UNTURNED: Final = "nothing turns the answer into another one: `path` judges a part of a JSON answer, `python` any part"
_REFUSED: Final[Mapping[str, str]] = {
    "assert_scoring_function": "`composite` has aggregators beside the mean",
    "default_test": "write `defaults` for keys of all cases, `assert` for their checks",
    "depends_on": "no case waits for another one: prepare what it needs in a fixture",
    "derived_metrics": "a name for several checks: `composite`",
    "env": "write ${{ NAME }} at the target in targets.yaml, and the value into .env",
    "evaluate_options": "write `repeat`, or give --agentv-workers, --agentv-timeout",
    **dict.fromkeys(LEGACY_EVALUATOR_KEYS, "write `assert`"),
    "extensions": "write a fixture, or a hook in conftest.py",
    "input": "write it in the cases, or under `defaults`",
    **dict.fromkeys(("metrics", "scorer", "scorers"), _CHECKED),
    "options": f"`repeat` is a key of the case itself; {_UNTURNED}",
    "preprocessors": _UNTURNED,
    "prompt": "write `input`",
    "prompts": "write the prompt as `input` under `defaults`, or several as `matrix: {prompt: [a.md, b.md]}`",
    "providers": "write `matrix: {target: [a, b]}`, and the providers in targets.yaml",
    "query": "write `input`, or the variable under `vars`",
    "targets": "write `matrix: {target: [a, b]}`, and the targets themselves in targets.yaml",
    "timeout_seconds": "write it at the target in targets.yaml, or give --agentv-timeout",
    "trials": "write `repeat`",
}
"""Keys that say what is asked or checked and that nobody reads, with what to write instead: errors of the case."""
FOREIGN_KEYS: Final = ("prompts", "providers")
"""The keys by which a file of promptfoo or AgentV 5 is told."""


def is_reason(value: Json) -> bool:
    """Whether the value of `skip` or `xfail` is a reason or true."""
    if isinstance(value, str):
        return (word := value.strip().lower()) != "" and word not in NO_REASONS
    return value is True


def mark_fault(name: str) -> str | None:
    """Return what to write instead of a name that cannot be a mark; None: it can."""
    if name.startswith("_"):
        return "names of marks do not begin with an underscore"
    return _MARKS_WITH_ARGUMENTS.get(name)


def is_refused(key: str, value: Json) -> bool:
    """Whether a key that nobody reads says what is asked or checked. `options` may be data of a case."""
    return _snake(key) in _REFUSED and (key != "options" or (isinstance(value, dict) and "transform" in value))


_LIST_PLACES: Final = frozenset(("execution", *EVALUATOR_LIST_KEYS))


def evaluator_lists(mapping: JsonObject) -> list[tuple[tuple[str, ...], Json]]:
    """Return the lists of evaluators of a file or a case, with their keys. The first is read."""
    found: list[tuple[tuple[str, ...], Json]] = []
    if _LIST_PLACES.isdisjoint(mapping):  # as most cases of a file with checks
        return found
    for at, each in ((("execution",), as_mapping(mapping.get("execution"))), ((), mapping)):
        keys = filter(None, (first_key(each, EVALUATOR_LIST_KEYS[:2]), first_key(each, EVALUATOR_LIST_KEYS[2:])))
        found += (((*at, key), each[key]) for key in keys)
    return found


def takes_place(case: JsonObject) -> bool:
    """Whether the evaluators of a file do not apply to a case: it skips them, or its own are called `evaluators`."""
    if case.get("skip_defaults") is True or as_mapping(case.get("execution")).get("skip_defaults") is True:
        return True
    return any(keys[-1] == "evaluators" for keys, _ in evaluator_lists(case)[:1])


# Replacements for the keys and names of other tools.

_INSTEAD: Final[Mapping[str, str]] = {
    **_REFUSED,
    "answer": "write the ideal answer as `expected`, or the variable under `vars`",
    "completion_time": "the answer is timed: write `latency` under `assert`",
    "expectations": "write the ideal answer as `expected`, facts and guidelines as sentences under `assert`",
    "provider": "write `target`, and the provider in targets.yaml",
    "redteam": "nothing makes up attacks: write them as cases",
    "reference_contexts": "no check reads it: as a variable under `vars`, prompts of `llm_judge` may use it",
    "report_evaluators": "no check judges a whole run: options such as --agentv-fail-under and --agentv-baseline do",
    **dict.fromkeys(("__prefix", "__suffix"), "write it into `input` under `case`"),
    "testing_criteria": _CHECKED,
    "transform": _UNTURNED,
}
"""Keys of a file or a case, and columns of a table."""

_CHECKS: Final = re.compile(r"__expected\d*")
NAMES: Final[Mapping[str, str]] = {
    "output": "the answer is called 'answer' here",
    "actual_output": "the answer is called 'answer' here",
    "context": "'vars' and 'case' have what promptfoo keeps in its context",
}
"""Names in Python code."""


def instead_of_key(key: str) -> str | None:
    """Return the replacement for a key or a column; None for any other."""
    if _CHECKS.fullmatch(key):
        return "write the checks once for all rows, under `case`: assert: [contains: '{{ answer }}']"
    return _INSTEAD.get(_snake(key))


def _snake(key: str) -> str:
    """Return a key of promptfoo, such as `defaultTest`, in the spelling of AgentV."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", key).lower()


# Merges mappings with inherited keys: a file with its included files, a case with its `defaults`.

_MERGED: Final = frozenset({"execution", "vars", "metadata", "workspace"})
"""Mappings that are merged key by key. Other mappings are replaced as a whole."""
_ALTERNATIVES: Final = (
    EVALUATOR_LIST_KEYS,
    OUTCOME_KEYS,
    INPUT_KEYS,
    EXPECTED_KEYS,
    LEGACY_EVALUATOR_KEYS,
    ("target",),
    ("threshold",),
)
"""Synonymous keys, also within `execution`."""


class Layer(NamedTuple):
    """A mapping to inherit from, with its place."""

    value: JsonObject
    source: Source
    keys: KeyPath = ()


def inherit(own: JsonObject, elsewhere: Layer, *, deep: Collection[str] = ()) -> tuple[JsonObject, Origins]:
    """Return a mapping that inherits missing keys from another one, and the places of these. Null is a value.

    `deep` names keys whose mappings inherit in the same way.
    """
    answered = _answered(own)
    value: dict[str, Json] = dict(own)
    origins: dict[KeyPath, tuple[Source, KeyPath]] = {}
    for key, item in elsewhere.value.items():
        where = (*elsewhere.keys, key)
        if key in answered:
            continue
        if isinstance(item, dict) and key in deep and isinstance(own.get(key), dict):
            value[key], inner = inherit(own[key], Layer(item, elsewhere.source, where))
            origins |= {(key, *keys): origin for keys, origin in inner.items()}
        elif isinstance(item, dict) and key in _MERGED and isinstance(own.get(key, {}), dict):
            given = own.get(key, {})
            drop = {*given, *(answered if key == "execution" else ())}
            rest = {name: each for name, each in item.items() if name not in drop}
            value[key] = {**rest, **given}
            origins |= {(key, name): (elsewhere.source, (*where, name)) for name in rest}
            if key not in own:
                origins[key,] = elsewhere.source, where
        elif key not in own:
            value[key] = item
            origins[key,] = elsewhere.source, where
    return value, origins


def _answered(own: JsonObject) -> frozenset[str]:
    """Return the keys that a mapping has under one of their synonyms."""
    within = as_mapping(own.get("execution"))
    groups = (group for group in _ALTERNATIVES if any(key in own or key in within for key in group))
    return frozenset(key for group in groups for key in group)


# Reads the files that eval files and targets files include.

_OF_ONE_FILE: Final = frozenset(
    ("$schema", "name", "version", "description", "author", "license", "metadata", "targets", INCLUDE)
)
"""Keys about the file itself, and keys of targets files. They are not included."""


def with_includes(source: Source, header: JsonObject, chain: tuple[Path, ...] = ()) -> tuple[JsonObject, Source]:
    """Return the keys of a file and its included files, with a source of their places.

    A file's own keys win, then those of the last included file. Raises `SourceError`.
    """
    if header.get(INCLUDE) is None:
        return header, source
    value: JsonObject = header
    origins: Origins = {}
    for included in reversed([*included_files(source, header, chain)]):
        inner, inner_source = _read_included(included, (*chain, source.path))
        value, inherited = inherit(value, Layer(inner, inner_source), deep=("defaults",))
        origins = {**inherited, **origins}
    return value, LayeredSource(source, (), origins)


def included_files(source: Source, mapping: JsonObject, chain: tuple[Path, ...]) -> Iterator[Source]:
    """Yield the files that a file includes, read. Paths are relative to its folder. Raises `SourceError`."""
    written = mapping.get(INCLUDE)
    names = written if isinstance(written, list) else [written]
    for index, name in enumerate(names):
        line = source.line_of((INCLUDE, index) if isinstance(written, list) else (INCLUDE,))
        yield _read(source, name, line, (*chain, source.path))


def _read(source: Source, name: Json, line: int, chain: tuple[Path, ...]) -> Source:
    if not isinstance(name, str) or not name.strip():
        raise SourceError(source.path, f"include: expected the path of a file, got {describe_value(name)}", line)
    path = Path(os.path.normpath(source.path.parent / name))
    if path in chain:
        circle = " → ".join(locate(each, None) for each in (*chain[chain.index(path) :], path))
        raise SourceError(source.path, f"include: the files include each other: {circle}", line)
    if not path.is_file():
        hint = near_file(path, (".yaml", ".yml"))
        where = f"there is no file {locate(path, None)}"
        raise SourceError(source.path, f"include: {where}{f' ({hint})' if hint else ''}", line)
    included = read_yaml(path)
    if not isinstance(included.value, dict):
        raise SourceError(
            path, f"expected a mapping of keys to include, got {describe_value(included.value)}", included.line_of()
        )
    return included


def _read_included(source: Source, chain: tuple[Path, ...]) -> tuple[JsonObject, Source]:
    cases = next((key for key in (*CASE_LIST_KEYS, "case") if key in source.value), None)
    if cases is not None:
        message = f"{cases}: an included file holds no cases; name it under `cases` instead"
        raise SourceError(source.path, message, source.line_of((cases,)))
    value, origin = with_includes(source, source.value, chain)
    return {key: item for key, item in value.items() if key not in _OF_ONE_FILE}, origin
