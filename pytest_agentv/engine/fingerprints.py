"""Hashes everything that affects a case's answer and score. With equal hashes, an earlier result is still valid."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cases.cases import LoadedCase
from pytest_agentv.cases.entries import SuiteSource
from pytest_agentv.engine.jobs import Overrides
from pytest_agentv.engine.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import ATOMS, Json, Plain
from pytest_agentv.model.cases import AnyEvaluator, EvalCase, affects_answers
from pytest_agentv.model.messages import FilePart
from pytest_agentv.model.secrets import Secret
from pytest_agentv.store.program_files import FileStates, ProjectFiles, command_words

_LENGTH: Final = 16
"""Hexadecimal digits of a hash."""


_NOT_KNOWN: Final = (
    "it holds a {type}, whose state is not known, so resumed runs and the cache pay for its cases again, and "
    "comparisons leave them out (the class of the object that has it may say what counts in a `__getstate__`, or in a "
    "`__repr__`)"
)


class Fingerprints:
    """Hashes targets and the grading of their answers, each once per run. Used on the event loop, like the targets."""

    def __init__(self, pool: TargetPool, root: Path, *more_roots: Path, dry_run: bool) -> None:
        """Take the root of the project, and others of its files. Hashes hold paths below a root, wherever that is."""
        self._pool = pool
        self._roots = (root, *more_roots)
        self._root_text = str(root)
        self._dry_run = dry_run
        self._states = FileStates()
        self._files: dict[Path | None, ProjectFiles] = {}
        self._made_of: dict[str | None, tuple[Path, ...]] = {}
        """The files of hashes that processes start anew for each case. This process loads code only once."""
        self._targets: dict[tuple[Path, str], str] = {}
        self._unlike_others = os.urandom(8).hex()
        """Stands for values that cannot be compared with those of other runs."""
        self._unknown: type | None = None
        """The type of such a value in the keys that were hashed last."""

    async def target_hash(self, eval_dir: Path, name: str, own: Overrides) -> str | None:
        """Return the hash of a target's definition and code; None if it cannot be resolved."""
        if self._dry_run:
            return _digest({"kind": "mock"})
        if own.answer is not None:
            return _digest({"kind": "answer"})
        if own.provider is not None:
            made = self._hash_object(own.provider, own.provider_files)
            if own.calls is None:
                return made
            asked = self._hash_target(eval_dir, name)
            return self._digest({"object": made, "asks": asked}, self._started_files(asked))
        return self._hash_target(eval_dir, name)

    async def judge_hash(self, eval_dir: Path, name: str, own: Overrides) -> str | None:
        """Return the hash of a target's judge; None if it cannot be resolved."""
        if self._dry_run:
            return _digest({"kind": "mock"})
        if own.judge is not None:
            return self._hash_object(own.judge, own.judge_files)
        try:
            target = self._pool.definition(eval_dir, name)
        except (AgentvError, OSError):
            return None
        return self._hash_target(eval_dir, target.judge_target or name)

    def judge_name(self, eval_dir: Path, name: str) -> str:
        """Return the name of the target that judges the answers of a target."""
        try:
            return self._pool.definition(eval_dir, name).judge_target or name
        except (AgentvError, OSError):
            return name

    def grading_hash(self, evaluators: Sequence[AnyEvaluator], judge_hash: str | None) -> str:
        """Return the hash of a case's evaluators: settings, prompts, scripts, code, judge. Leaves out the threshold."""
        found: dict[str, str] = {}
        started: list[Path] = []
        members = [member for evaluator in evaluators for member in evaluator.walk()]
        for folder, words in (script for member in members for script in _judge_scripts(member)):
            files = self._files_of(folder)
            paths = tuple(files.of_words(words, folder))
            found |= files.hashes(paths)
            started += paths
        codes = [self._hash_code(code) for member in members if (code := member.own_code) is not None]
        found |= {f"code {number}": code for number, code in enumerate(codes)}
        plain = [self._plain_keys(evaluator) for evaluator in evaluators]
        started += self._started_files(*(judge_hash or "").split())
        return self._digest({"evaluators": plain, "files": found, "judge": judge_hash}, started)

    def moment(self) -> int:
        """Return the present moment, for `changed_file`."""
        return self._states.moment()

    def changed_file(self, made: str | None, since: int) -> Path | None:
        """Return a program's file that is not what it was when it was hashed, or that was written since a moment.

        None: the programs that ran since the moment are those that were hashed.
        """
        paths = self._made_of.get(made)  # None for most cases
        return next((path for path in paths if self._states.is_changed(path, since)), None) if paths else None

    def _started_files(self, *hashes: str | None) -> Iterator[Path]:
        for each in hashes:
            yield from self._made_of.get(each, ())

    def _hash_target(self, eval_dir: Path, name: str) -> str | None:
        key = (eval_dir, name)
        if key not in self._targets:
            try:
                target = self._pool.definition(eval_dir, name)
            except (AgentvError, OSError):
                return None
            files = self._files_of(None if target.path is None else Path(target.path).parent)
            settings, own = self._plain_keys(target.settings), target.settings.own_code
            sources = target.settings.sources
            folder = Path(sources.folder or Path(target.path or "").parent)
            called = () if sources.callable is None else files.of_callable(sources.callable, folder)
            started = tuple(files.of_words(sources.words, folder))
            self._targets[key] = self._digest({
                "kind": target.kind,
                "settings": {key: value for key, value in settings.items() if affects_answers(target.settings, key)},
                "batching": target.provider_batching,
                "files": files.hashes([*called, *started]),
                **({} if own is None else {"code": self._hash_code(own)}),
            }, started)  # fmt: skip
        return self._targets[key]

    def _hash_code(self, code: object) -> str:
        """Return the hash of the class or the factory of a kind, with the values that made the factory another one."""
        from pytest_agentv.store.value_hashes import is_plain  # noqa: PLC0415 - only for kinds of users

        if is_plain(code):
            return self._hash_object(code)
        from pytest_agentv.store.value_hashes import hash_value  # noqa: PLC0415 - few kinds need it

        return _digest({"code": self._hash_object(code), "made of": hash_value(code, self._hash_named).digest})

    def _hash_object(self, value: object, makers: Sequence[Path] = ()) -> str:
        """Return the hash of a user object's code, as far as its files and those of its makers show it."""
        from pytest_agentv.store.value_hashes import source_files  # noqa: PLC0415 - only for code of users

        files = self._files_of(None)
        sources = (*makers, *source_files(value))
        found = files.hashes(file for source in sources for file in files.of_source(source))
        return _digest({"object": getattr(value, "__qualname__", type(value).__qualname__), "files": found})

    def _hash_value(self, value: object) -> Json:
        """Return the hash of a value that JSON cannot hold. It is that of no other run if a part of it is not known."""
        from pytest_agentv.store.value_hashes import hash_value, is_a_text  # noqa: PLC0415 - few kinds have such values

        if is_a_text(value):
            return value
        found = hash_value(value, self._hash_named)
        if found.unknown is None:
            return {"value": found.digest}
        self._unknown = found.unknown
        return {"value": self._unlike_others}

    def _hash_named(self, code: Any) -> Json:
        """Return what stands for a function, a class or a module that a value refers to."""
        return getattr(code, "__module__", None), self._hash_object(code)

    def _plain_keys(self, kind: Any) -> dict[str, Json]:
        """Return the keys of an evaluator or a target, and warn of a value that no later run can compare."""
        plain: dict[str, Json] = self._plain(kind.to_plain())
        if self._unknown is not None:
            self._warn_of(self._unknown, kind)
            self._unknown = None
        return plain

    def _warn_of(self, unknown: type, kind: Any) -> None:
        from pytest_agentv.store.value_hashes import own_files  # noqa: PLC0415 - only for code of users

        word, name = getattr(kind, "kind", "target"), f"{unknown.__module__}.{unknown.__qualname__}"
        path = next(iter(own_files(type(kind))), self._roots[0])
        problem = Problem(path, None, word, _NOT_KNOWN.format(type=name), level="warning")
        self._pool.warn_once(problem, f"unknown-{_digest([word, name])}")

    def _files_of(self, folder: Path | None) -> ProjectFiles:
        if folder not in self._files:
            self._files[folder] = ProjectFiles(*self._roots, *([] if folder is None else [folder]), states=self._states)
        return self._files[folder]

    def _digest(self, value: Json, started: Iterable[Path]) -> str:
        """Return the hash of plain data. Notes the files that processes start."""
        digest = _digest(value)
        files = tuple(dict.fromkeys(started))
        if files:
            self._made_of[digest] = files
        return digest

    def _plain(self, value: object) -> Json:
        """Return plain data that does not depend on the project's location, with secrets as hashes."""
        if isinstance(value, str):
            is_below = value.startswith(self._root_text)
            return f"<root>{value.removeprefix(self._root_text)}" if is_below else value
        if type(value) in ATOMS or isinstance(value, float):
            return value
        if isinstance(value, Mapping):
            return {str(key): self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if isinstance(value, Secret):
            return {"secret": hashlib.sha256(value.reveal().encode("utf-8", "surrogatepass")).hexdigest()}
        return self._plain(value.to_plain()) if isinstance(value, Plain) else self._hash_value(value)


def _digest(value: Json) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _judge_scripts(evaluator: AnyEvaluator) -> Iterator[tuple[Path, Sequence[str]]]:
    """Yield the words of each script that judges, with the folder that it runs in."""
    for folder, words in evaluator.scripts:
        is_shell = words[:1] == ("sh",) and len(words) > 2  # sh -lc COMMAND
        yield Path(folder or "."), command_words(words[2]) if is_shell else words


# The hashes of cases: a kept result is valid only as long as that of its case stays the same.

_RULES: Final = frozenset(
    (
        *("threshold", "threshold_source", "repeat", "repeat_source", "min_pass_rate", "min_pass_rate_source"),
        *("required", "group", "tags", "skip", "xfail"),
        *("target", "targets"),  # the target of a result has a hash of its own
    )
)
"""The fields of a case that affect how its run judges it or whom it asks, but neither its answer nor its score."""

_NONE: Final = "[]"


def _to_plain(value: object) -> Json:
    if isinstance(value, Plain):
        return value.to_plain()
    from pytest_agentv.store.value_hashes import text_of_value  # noqa: PLC0415 - few cases have such values

    return text_of_value(value) or str(value)


_to_json: Final = json.JSONEncoder(sort_keys=True, default=_to_plain).encode


class CaseHashes:
    """Hashes cases. The header of each eval file is serialized only once."""

    def __init__(self) -> None:
        self._headers: dict[Path, str] = {}

    def of(self, suite: SuiteSource, loaded: LoadedCase, case: EvalCase) -> str:
        """Return a hash of the case: its text, its file, the files it refers to, the changes of hooks."""
        written = loaded.case
        if suite.path not in self._headers:
            self._headers[suite.path] = _to_json(_without_rules(suite.header))
        parts = (part for message in written.messages for part in message.parts if isinstance(part, FilePart))
        files = [(part.is_guideline, _content(part)) for part in parts]
        files_json = _to_json(files) if files else _NONE
        expected = _to_json(written.expected_messages) if written.expected_messages else _NONE  # with texts of files
        own = loaded.value if suite.hashed_id is None else {**loaded.value, "id": suite.hashed_id}
        hashed = [_to_json(_without_rules(own)), self._headers[suite.path], files_json, expected]
        hashed += [] if written.vars is None else [_to_json(written.vars)]  # judges see all of them
        if case is not written and case != written:
            before, after = written.to_plain(), case.to_plain()
            changed = {key: after.get(key) for key in before | after if after.get(key) != before.get(key)}
            hashed += map(_to_json, filter(None, [_without_rules(changed)]))
        return hashlib.sha256(f"[{', '.join(hashed)}]".encode()).hexdigest()[:16]


def _without_rules(value: Json) -> Json:
    """Leave out the keys that do not make a kept score invalid: it is judged by the new rules without a call."""
    if not isinstance(value, dict):
        return value
    rest = {key: item for key, item in value.items() if key not in _RULES}
    execution = _without_rules(rest.pop("execution", None))
    return rest | {"execution": execution} if execution else rest


def _content(part: FilePart) -> str:
    """Return the content of a file. Returns a hash of its bytes if they are not all text.

    Decoding replaces all invalid bytes by one character, so that different bytes could become the same text.
    """
    if part.media is not None:
        return part.media.sha256
    if "\N{REPLACEMENT CHARACTER}" not in part.text:
        return part.text
    try:
        return hashlib.sha256(Path(part.resolved_path).read_bytes()).hexdigest()
    except OSError:
        return part.text
