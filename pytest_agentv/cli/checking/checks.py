"""Checks eval, targets and config files for all faults that collection and the start of a run would find.

It reads no variables and calls nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pytest_agentv.cli.checking.doubts import crash_of, doubts_of
from pytest_agentv.cli.checking.target_doubts import missing_code, missing_folders, unsent_guidelines
from pytest_agentv.engine.targets.choosing import DEFAULT_TARGET
from pytest_agentv.engine.targets.judging import evaluators_of, judging_fault, needs_of
from pytest_agentv.errors import AgentvError, FileError, TargetError, TargetsError, locate
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.loading.cases.cases import load_case
from pytest_agentv.loading.cases.config import load_guideline_patterns, read_config_file
from pytest_agentv.loading.cases.written import LoadContext
from pytest_agentv.loading.files.discovery import is_sidecar
from pytest_agentv.loading.files.shapes import looks_like_suite
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.files.suites import read_suite
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.loading.targets.environment import find_repo_root
from pytest_agentv.loading.targets.files import TARGETS_FILES, find_targets_file, load_targets_file
from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.kind_table import KindsOf, no_kinds
from pytest_agentv.models.options.values import UnknownKeys
from pytest_agentv.models.records import record
from pytest_agentv.providers.python.row_makers import call_row_maker
from pytest_agentv.providers.table import KINDS

FileKind: TypeAlias = Literal["eval", "targets", "config"]

_SCHEMA: Final = re.compile(rb"""^["']?\$schema["']?\s*:\s*["']?agentv-(eval|targets|config)-v""", re.MULTILINE)
_SNIFFED_BYTES: Final = 65_536
_TARGETS_NAMES: Final = frozenset(Path(name).name for name in TARGETS_FILES)


@record
class CheckSettings(Record):
    """The inputs of a check besides the files."""

    cwd: Path
    targets: Path | None = None
    """The targets file of the run; None: search for it."""
    own_evaluators: KindsOf = no_kinds
    """The kinds of evaluators that the project adds."""
    own_providers: KindsOf = no_kinds
    """The kinds of targets that the project adds."""
    unknown_keys: UnknownKeys = "error"


def kind_of(path: Path) -> FileKind | None:
    """Return the kind of a file (targets, config or eval) by its `$schema`, else by its name; None if unknown.

    Source: agentv-formats 9.3.
    """
    declared = _declared_kind(path)
    if declared is not None:
        return declared
    if path.name in _TARGETS_NAMES:
        return "targets"
    if path.name == ".agentv.yaml" or (path.parent.name == ".agentv" and path.stem == "config"):
        return "config"
    return None


class Checker:
    """Checks files. Reads files that several of them share once."""

    def __init__(self, settings: CheckSettings) -> None:
        self._settings = settings
        self._repo_root = find_repo_root(settings.cwd)
        self._contexts: dict[Path, LoadContext] = {}
        self._targets_files: dict[Path, TargetsFile | None] = {}
        self._found: dict[Problem, None] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return all distinct problems, by file in the order of the checks, then by line."""
        order = {path: index for index, path in reversed([*enumerate(problem.path for problem in self._found)])}
        return tuple(sorted(_grouped(self._found), key=lambda problem: (order[problem.path], problem.line or 0)))

    def check(self, path: Path) -> None:
        """Check an absolute path. A file that is not a targets or config file counts as an eval file."""
        match kind_of(path):
            case "targets":
                self._load_targets(path)
            case "config":
                self._note(read_config_file(path).problems)
            case _:
                self._check_suite(path.with_suffix(".jsonl") if _belongs_to_dataset(path) else path)

    def _note(self, problems: Iterable[Problem]) -> None:
        self._found.update(dict.fromkeys(problems))

    def _check_suite(self, path: Path) -> None:
        try:
            suite = read_suite(path, call_row_maker, kinds=EVALUATORS)
        except FileError as error:
            self._note(_problems_of(error, path))
            return
        self._note(suite.problems)
        cases = self._load_cases(suite)
        targets = self._find_targets(path.parent)
        if targets is not None:
            self._check_targets_of(suite, cases, targets)

    def _load_cases(self, suite: SuiteSource) -> list[EvalCase]:
        context = self._context(suite.path.parent)
        cases = []
        for entry in suite.entries:
            try:
                loaded = load_case(suite, entry, context)
            except AgentvError as error:
                self._note(_problems_of(error, suite.path, entry.line))
            except Exception as error:  # noqa: BLE001 - kinds of users may raise anything
                self._note([crash_of(error, suite.path, entry.line)])
            else:
                self._note(loaded.warnings)
                self._note(doubts_of(loaded.case))
                cases.append(loaded.case)
        return cases

    def _context(self, eval_dir: Path) -> LoadContext:
        if eval_dir not in self._contexts:
            patterns, problems = load_guideline_patterns(eval_dir, self._repo_root)
            self._note(problems)
            self._contexts[eval_dir] = LoadContext(
                self._repo_root,
                self._settings.cwd,
                patterns,
                evaluators=EVALUATORS.with_own(self._settings.own_evaluators(eval_dir)),
                unknown_keys=self._settings.unknown_keys,
            )
        return self._contexts[eval_dir]

    def _find_targets(self, eval_dir: Path) -> TargetsFile | None:
        explicit, cwd = self._settings.targets, self._settings.cwd
        try:
            return self._load_targets(find_targets_file(explicit, eval_dir, self._repo_root, cwd))
        except TargetsError as error:
            level: Literal["error", "warning"] = "warning" if explicit is None else "error"
            # A run may still get one by --agentv-targets.
            self._note(problem.replace(level=level) for problem in _problems_of(error, eval_dir))
            return None

    def _load_targets(self, path: Path) -> TargetsFile | None:
        if path not in self._targets_files:
            self._targets_files[path] = None
            kinds = KINDS.with_own(self._settings.own_providers(path.parent))
            try:
                file = self._targets_files[path] = load_targets_file(path, kinds)
                self._note((*file.warnings, *missing_code(file)))
            except FileError as error:
                self._note(_problems_of(error, path))
        return self._targets_files[path]

    def _check_targets_of(self, suite: SuiteSource, cases: Sequence[EvalCase], targets: TargetsFile) -> None:
        """Note each target that a case needs and that cannot be used, once."""
        self._note((*missing_folders(cases, targets), *unsent_guidelines(cases, targets)))
        said: set[str] = set()
        for case in cases:
            for fault in _target_faults(case, targets):
                if fault not in said:
                    said.add(fault)
                    self._note([Problem(*_target_place(suite, case), "", fault)])


def _grouped(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems. One that many rows of a table share is yielded once, with the number of rows."""
    rows: dict[Problem, list[str]] = {}
    for problem in problems:
        rows.setdefault(problem.replace(row=None), []).extend([problem.row] if problem.row else [])
    for problem, found in rows.items():
        more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        yield problem.replace(row=f"{found[0]}{more}") if found else problem


def _target_place(suite: SuiteSource, case: EvalCase) -> tuple[Path, int | None]:
    """Return file and line where the case's target is named: in the case or its file's header, else of the case."""
    entry = next(entry for entry in suite.entries if entry.line == case.line)
    written = ((entry.value, suite.case_place(entry, [])), (suite.header, suite.header_place([])))
    for mapping, place in written:
        for value, keys in ((mapping.get("execution") or {}, ("execution", "target")), (mapping, ("target",))):
            if value.get("target") is not None:
                named = place.at(*keys)
                return named.path, named.line
    return Path(case.path), case.line


def _declared_kind(path: Path) -> FileKind | None:
    try:
        if not path.is_file():  # reading a pipe would block
            return None
        with path.open("rb") as file:
            found = _SCHEMA.search(file.read(_SNIFFED_BYTES))
    except OSError:
        return None
    kinds: dict[bytes, FileKind] = {b"eval": "eval", b"targets": "targets", b"config": "config"}
    return kinds[found[1]] if found and path.suffix != ".jsonl" else None


def _belongs_to_dataset(path: Path) -> bool:
    return is_sidecar(path) and not looks_like_suite(path)


def _target_faults(case: EvalCase, targets: TargetsFile) -> Iterator[str]:
    """Yield what a run says of the targets that a case needs, with its judge."""
    needs = needs_of(evaluators_of(case))
    names = [case.target or DEFAULT_TARGET, *needs.embeddings]
    for name in names:
        try:
            target = targets.find(name)
        except TargetError as error:
            yield str(error)
            continue
        if fault := targets.kinds.fault(target.provider):
            yield f"target {name!r} ({locate(target.path or targets.path, target.line)}): {fault}"
        if name == names[0] and needs.any_answers and target.judge_target and target.judge_target not in names:
            names.append(target.judge_target)
        if name == names[0] and needs.judge:
            yield from filter(None, [judging_fault(target, targets.kinds.find(target.kind), targets.path)])


def _problems_of(error: AgentvError, path: Path, line: int | None = None) -> tuple[Problem, ...]:
    """Return the problems of an error. An error with only a text is one problem of its file, else of `path`."""
    if error.problems:
        return error.problems
    if isinstance(error, FileError):
        path, line = error.path, error.line
    return (Problem(path, line, "", str(error).removeprefix(f"{locate(path, line)}: ")),)
