"""`agentv validate`: finds the faults of files without a run."""

import io
import json
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pytest_agentv.cases.cases import load_case, read_header
from pytest_agentv.cases.discovery import is_sidecar, looks_like_suite
from pytest_agentv.cases.entries import SuiteSource
from pytest_agentv.cases.prompts import build_prompt
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import dataset_fault, read_suite
from pytest_agentv.cli.eval import (
    ArgumentParser,
    add_targets_file,
    expand,
    find_left_out,
    is_eval_by_itself,
    is_eval_in_folder,
    say,
)
from pytest_agentv.engine.case import lost_guidelines
from pytest_agentv.engine.judges import judging_fault, needs_of_case
from pytest_agentv.errors import AgentvError, FileError, TargetError, TargetsError, locate
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import Hint, Problem, UnusableTarget, near_file
from pytest_agentv.files.source import Source
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind_table import KindsOf, merge_kinds, no_kinds
from pytest_agentv.model.options import DEFAULT_TARGET, UNKNOWN_KEYS, UnknownKeys
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.table import KINDS
from pytest_agentv.providers.user_modules import call_row_maker
from pytest_agentv.reports.figures import visible
from pytest_agentv.runtime.user_code import describe_error, user_traceback
from pytest_agentv.targets.definitions import (
    TARGETS_FILES,
    TargetDefinition,
    TargetsFile,
    find_repo_root,
    find_targets_file,
    has_reference,
    load_guideline_patterns,
    load_targets_file,
)
from pytest_agentv.targets.fields import read_config_file, read_target

_HOOKS: Final = ("pytest_agentv_evaluators", "pytest_agentv_providers")
_SIGNS: Final = (b"pytest_agentv_", b"pytest_plugins")
"""Texts in a conftest that may add kinds."""


class ProjectKinds:
    """The kinds of evaluators and providers that a project adds in its conftest files and plugins.

    Conftest files are user code. pytest loads them, and runs no test, only if one of them mentions our hooks, or if a
    file names a kind that is not built in, which a plugin may add. This class is the plugin that calls the hooks.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.problems: list[Problem] = []
        """The faults that prevented the loading of conftest files."""
        self._folders = sorted({path.parent for path in files})
        self._kinds: dict[tuple[str, Path | None], Mapping[str, Any]] = {}
        """By hook and folder; None: wherever a conftest lies."""
        self._error: BaseException | None = None

    def of(self, hook: str, built_in: Mapping[str, Any], named: Sequence[str] = ()) -> "Callable[[Path], LazyKinds]":
        """Return a function from a folder to the kinds of one hook. `named` kinds always count as kinds."""
        stand_in: Any = _any_keys
        if named and hook == "pytest_agentv_evaluators":
            from pytest_agentv.evaluators.base import UnknownKind  # noqa: PLC0415 - imports pydantic

            stand_in = UnknownKind
        return lambda folder: LazyKinds(self, hook, built_in, dict.fromkeys(named, stand_in), folder)

    @cached_property
    def mentions_hooks(self) -> bool:
        """Whether a conftest beside the files, or above them, may add kinds."""
        folders = {folder for start in self._folders for folder in (start, *start.parents)}
        return any(any(sign in _read(folder / "conftest.py") for sign in _SIGNS) for folder in folders)

    def find(self, hook: str, folder: Path) -> Mapping[str, Any]:
        """Return the kinds of a hook for a folder. The conftest files above the folder win."""
        found = self._found
        return found.get((hook, folder)) or found.get((hook, None)) or {}

    @cached_property
    def _found(self) -> Mapping[tuple[str, Path | None], Mapping[str, Any]]:
        import pytest  # noqa: PLC0415 - takes a fifth of a second

        said = io.StringIO()
        arguments = ["-p", "no:cacheprovider", "-o", "addopts=", *map(str, self._folders)]
        environment = os.environ.pop("PYTEST_ADDOPTS", None)
        try:
            with redirect_stdout(said), redirect_stderr(said):
                pytest.main(arguments, plugins=[self])
        except SystemExit as exit_:  # a conftest may raise it when it is imported
            self._error = exit_
        finally:
            if environment is not None:
                os.environ["PYTEST_ADDOPTS"] = environment
        if self._error or not self._kinds:
            self._note_fault(self._error, said.getvalue())
        return self._kinds

    def pytest_cmdline_main(self, config: Any) -> int:
        """Call the hooks instead of running tests."""
        import pytest  # noqa: PLC0415 - it runs

        try:
            session = pytest.Session.from_config(config)
            for hook in _HOOKS:
                everywhere = getattr(config.hook, hook)()
                self._kinds[hook, None] = merge_kinds(hook, everywhere)
                for folder in self._folders:
                    near = getattr(session.gethookproxy(folder), hook)()
                    self._kinds[hook, folder] = merge_kinds(hook, [*near, *everywhere])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - hooks are code of the user's
            self._error = error
        return 0

    def _note_fault(self, error: BaseException | None, said: str) -> None:
        """Note what an error of users' code, or what pytest said instead of calling the hooks."""
        path, line = (self._folders[0] if self._folders else Path.cwd()) / "conftest.py", None
        if error is None:
            reason = said.strip().rpartition("\n")[2].removeprefix("E  ").strip() or "pytest could not be started"
            if named := re.search(r"while loading conftest '(.+?)'", said):
                path = Path(named[1])
        else:
            reason = " ".join(describe_error(error).split())
            for frame in traceback.extract_tb(error.__traceback__):
                if Path(frame.filename).name == "conftest.py":
                    path, line = Path(frame.filename), frame.lineno
        message = f"kinds of conftest files are not known: {reason}"
        # A warning: files may be validated where the application and its dependencies are not installed.
        self.problems.append(Problem(path, line, "", message, level="warning"))


# pluggy reads this mark. Importing pytest to set it would cost every `agentv` command a fifth of a second.
ProjectKinds.pytest_cmdline_main.pytest_impl = {"tryfirst": True}  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class LazyKinds(Mapping[str, Any]):
    """The kinds of one hook for a folder. Calls the hook only when its kinds may matter."""

    project: ProjectKinds
    hook: str
    built_in: Mapping[str, Any]
    named: Mapping[str, Any]
    folder: Path

    def __getitem__(self, word: str) -> Any:
        if self.project.mentions_hooks or word not in {**self.built_in, **self.named}:
            return {**self.named, **self.project.find(self.hook, self.folder)}[word]
        return self.named[word]

    def __iter__(self) -> Iterator[str]:
        found = self.project.find(self.hook, self.folder) if self.project.mentions_hooks else {}
        return iter({**self.named, **found})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _any_keys(spec: object, services: object) -> object:
    """Replace the factory of a kind of provider with unknown keys."""
    raise NotImplementedError


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


FileKind: TypeAlias = Literal["eval", "targets", "config"]

_SCHEMA: Final = re.compile(rb"""^["']?\$schema["']?\s*:\s*["']?agentv-(eval|targets|config)-v""", re.MULTILINE)
_TARGETS_NAMES: Final = frozenset(Path(name).name for name in TARGETS_FILES)

_EPILOG: Final = """\
exit codes:
  0 nothing is wrong (there may be warnings), 1 there are errors (with --strict: or warnings), 2 wrong usage."""


def run(arguments: Sequence[str]) -> int:
    """Check files, print their problems, and return 1 if there are errors."""
    options = _create_parser().parse_args(arguments)
    files, problems = _expand(options.paths)
    problems += (problem for problem in find_left_out(options.paths) if kind_of(problem.path) in (None, "eval"))
    kinds = ProjectKinds(files)
    checker = Checker(
        CheckSettings(
            Path.cwd(),
            options.targets_file,
            kinds.of("pytest_agentv_evaluators", EVALUATORS, options.plugin_kind),
            kinds.of("pytest_agentv_providers", KINDS.table, options.plugin_kind),
            options.unknown_keys,
        )
    )
    with redirect_stdout(sys.stderr):  # functions that make rows may print, and JSON goes to standard output
        for path in files:
            if path.suffix == ".jsonl" and not is_eval_by_itself(path):
                problems.append(dataset_fault(path))  # as pytest says it
            else:
                checker.check(path)
    masker = Masker.of_environment()  # code of the project runs: functions that make rows, and its conftest files
    problems = [
        problem.replace(message=masker.mask(problem.message), hint=problem.hint and masker.mask(problem.hint))
        for problem in (*problems, *checker.problems, *kinds.problems)
    ]
    errors = sum(problem.level == "error" for problem in problems)
    warnings = len(problems) - errors
    if options.format == "json":
        shown = [problem.to_plain() | {"path": locate(problem.path, None)} for problem in problems]
        names = [locate(path, None) for path in files]
        say(json.dumps({"files": names, "errors": errors, "warnings": warnings, "problems": shown}, indent=2))
    else:
        for problem in problems:
            where = locate(problem.path, problem.line)
            say(visible(f"{where}: {problem.level}: {str(problem).removeprefix(f'{where}: ')}"))
        found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}" if problems else "nothing wrong"
        say(f"{counted(len(files), 'file')} checked: {found}")
    is_strict = options.strict and not all(isinstance(problem, Hint) for problem in problems)
    return int(is_strict or errors > 0)


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv validate",
        description="Check eval files, datasets, targets and config files. Report all faults that a run would\n"
        "find while it collects the cases and starts. Nothing is run, and no credentials are needed.",
        epilog=_EPILOG,
    )
    parser.add("paths", "A file, a glob, or a folder that is searched for all of them.", nargs="+", metavar="PATH")
    parser.add(
        "--format", "What is printed (default: text: path:line: message).", choices=("text", "json"), default="text"
    )
    parser.add_flag("--strict", "Warnings count as errors.")
    add_targets_file(parser, " of the runs (default: searched from each eval file's folder upward).")
    parser.add(
        "--unknown-keys",
        "Level of unknown keys that say what is asked or checked, as agentv_unknown_keys (default: error).",
        choices=UNKNOWN_KEYS,
        default="error",
    )
    parser.add(
        "--plugin-kind",
        "Accept this evaluator type or provider unseen; may be repeated (default: none). Those of\n"
        "conftest files are known.",
        action="append",
        default=[],
        metavar="NAME",
    )
    return parser


def _expand(paths: Sequence[str]) -> tuple[list[Path], list[Problem]]:
    """Return the distinct absolute files to check, and a problem for each path without files."""
    files: dict[Path, None] = {}
    problems: list[Problem] = []
    for name in paths:
        path = Path(os.path.normpath(Path(name).absolute()))
        found, fault = expand(str(path), _is_checked, "eval, targets or config", {".agentv"})
        files.update(dict.fromkeys(found))
        if not found:
            problems.append(Problem(path, None, "", fault))
    return list(files), problems


def _is_checked(file: Path, folder: Path) -> bool:
    return kind_of(file) is not None or (file.parent.name != ".agentv" and is_eval_in_folder(file, folder))


@dataclass(frozen=True, slots=True)
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


class Checker:
    """Finds the faults that collection and the start of a run would find. It reads no variables and calls nothing.

    Files that several of the checked ones share are read once.
    """

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
                self._note(read_config_file(path)[1])
            case _:
                belongs_to_dataset = is_sidecar(path) and not looks_like_suite(path)
                self._check_suite(path.with_suffix(".jsonl") if belongs_to_dataset else path)

    def _note(self, problems: Iterable[Problem]) -> None:
        for problem in problems:  # a target that cannot be used is an error of the cases that use it
            is_error = isinstance(problem, UnusableTarget)
            self._found[problem.replace(level="error") if is_error else problem] = None

    def _check_suite(self, path: Path) -> None:
        try:
            suite = read_suite(path, call_row_maker)
        except FileError as error:
            self._note(_problems_of(error, path))
            return
        cases = self.load_cases(suite)
        targets = self._find_targets(path.parent)
        if targets is None:
            return
        self._note(unsent_guidelines(cases, targets))
        said: set[str] = set()
        for case in cases:  # each target that a case needs and that cannot be used is noted once
            for fault in _target_faults(case, targets):
                if fault not in said:
                    said.add(fault)
                    self._note([Problem(*_target_place(suite, case), "", fault)])

    def load_cases(self, suite: SuiteSource) -> list[EvalCase]:
        """Return the cases of a file that can be loaded. The faults of the others are among the problems."""
        self._note(suite.problems)
        context = self._context(suite.path.parent)
        cases: list[EvalCase] = []
        if not suite.entries:  # else its faults are those of each case
            self._note(read_header(suite, context)[1])
        for entry in suite.entries:
            try:
                loaded = load_case(suite, entry, context)
            except AgentvError as error:
                self._note(_problems_of(error, suite.path, entry.line))
            except Exception as error:  # noqa: BLE001 - kinds of users may raise anything
                fault = f"the case cannot be loaded: {user_traceback(error)}"
                self._note([Problem(suite.path, entry.line, "", fault)])
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
            # A run may still get one by --agentv-targets-file.
            self._note(problem.replace(level=level) for problem in _problems_of(error, eval_dir))
            return None

    def _load_targets(self, path: Path) -> TargetsFile | None:
        if path not in self._targets_files:
            self._targets_files[path] = None
            kinds = KINDS.with_own(self._settings.own_providers(path.parent))
            try:
                file = self._targets_files[path] = load_targets_file(path, kinds, self._settings.unknown_keys)
                self._note((*file.warnings, *missing_code(file)))
            except FileError as error:
                self._note(_problems_of(error, path))
        return self._targets_files[path]


def kind_of(path: Path) -> FileKind | None:
    """Return the kind of a file (targets, config or eval) by its `$schema`, else by its name; None if unknown.

    Source: agentv-formats 9.3.
    """
    if path.suffix != ".jsonl" and path.is_file() and (declared := _SCHEMA.search(_read(path)[:65_536])):
        return declared[1].decode()  # type: ignore[return-value] # the pattern has these words
    if path.name in _TARGETS_NAMES:
        return "targets"
    is_config = path.name == ".agentv.yaml" or (path.parent.name == ".agentv" and path.stem == "config")
    return "config" if is_config else None


def _grouped(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems. One that many rows of a table share is yielded once, with the number of rows."""
    rows: dict[Problem, list[str]] = {}
    for problem in problems:
        rows.setdefault(problem.replace(row=None), []).extend([problem.row] if problem.row else [])
    for problem, found in rows.items():
        more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        yield problem.replace(row=f"{found[0]}{more}") if found else problem


def _problems_of(error: AgentvError, path: Path, line: int | None = None) -> tuple[Problem, ...]:
    """Return the problems of an error. An error with only a text is one problem of its file, else of `path`."""
    if error.problems:
        return error.problems
    if isinstance(error, FileError):
        path, line = error.path, error.line
    return (Problem(path, line, "", str(error).removeprefix(f"{locate(path, line)}: ")),)


def doubts_of(case: EvalCase) -> Iterator[Problem]:
    """Yield what evaluators check in another way than their author may think, as a run warns of it."""
    for each in (inner for evaluator in case.evaluators or () for inner in evaluator.walk()):
        try:
            doubts = [*each.doubts(case)]
        except Exception as error:
            if each.own_code is None:
                raise
            doubts = [f"doubts() raised {user_traceback(error)}"]
        for doubt in doubts:
            message = f"evaluator {each.label!r}: {doubt}"
            yield Problem(Path(case.path), case.line, case.eval_id, message, level="warning")


def _target_faults(case: EvalCase, targets: TargetsFile) -> Iterator[str]:
    """Yield what a run says of the targets that a case needs, beside what is wrong with the targets themselves."""
    needs = needs_of_case(case)
    own, user = case.target or DEFAULT_TARGET, case.user
    judges = [case.judge if each is None else each for each in needs.asked]
    players = () if user is None else (user.target,)
    for name in dict.fromkeys((own, *needs.embeddings, *filter(None, judges), *players)):
        try:
            target = targets.find(name)
        except TargetError as error:
            yield str(error)
            continue
        if name == own and None in needs.judges and case.judge is None:
            yield from filter(None, [judging_fault(target, targets.kinds.table.get(target.kind), targets.path)])


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


def missing_code(file: TargetsFile) -> Iterator[Hint]:
    """Yield the Python files of targets that are not in the folder of their targets file, where a run looks."""
    numbers: Counter[Path] = Counter()
    for definition in file.definitions:
        path = definition.path or file.path
        number, numbers[path] = numbers[path], numbers[path] + 1
        named = getattr(getattr(_settings(file, definition), "sources", None), "callable", None)
        if named is None or has_reference(named):
            continue
        code = path.parent / named.rpartition(":")[0]
        if code.suffix == ".py" and not code.is_file():
            key = next((key for key, value in definition.values.items() if value == named), "")
            message = f"there is no file {named.rpartition(':')[0]!r} in {locate(path.parent, None)}"
            place = f"targets[{number}].{key}"
            yield Hint(path, definition.line, place, message, near_file(code, (".py",)), level="warning")


def unsent_guidelines(cases: Iterable[EvalCase], file: TargetsFile) -> Iterator[Hint]:
    """Yield a warning for each target that does not get the guidelines of cases, as a run does."""
    definitions = {each.name: each for each in file.definitions if not each.provider_batching}
    for case in cases:
        definition = definitions.get(case.target or DEFAULT_TARGET) if case.guideline_paths else None
        if definition is not None:
            question = build_prompt(case, "agent").question
            warning = lost_guidelines(case, question, definition.name, _settings(file, definition))
            if warning is not None:
                del definitions[definition.name]
                yield warning


def _settings(file: TargetsFile, definition: TargetDefinition) -> Any:
    """Return the keys of a target as written; None for an unknown kind."""
    kind = file.kinds.table.get(definition.kind)
    return kind and read_target(kind, definition.values, Place(Source(file.path, {}, "", {}), (), []))[1]
