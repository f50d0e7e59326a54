"""`agentv validate`: finds the faults of files without a run."""

import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pytest_agentv.cases.cases import load_case, read_header
from pytest_agentv.cases.discovery import SUFFIXES, find_files, is_sidecar, looks_like_suite, walk
from pytest_agentv.cases.entries import SuiteSource
from pytest_agentv.cases.prompts import build_prompt
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import dataset_fault, read_suite
from pytest_agentv.cli.eval import ArgumentParser, find_left_out, is_eval_by_itself, is_eval_in_folder, is_glob, say
from pytest_agentv.engine.case import lost_guidelines
from pytest_agentv.engine.jobs import DEFAULT_TARGET
from pytest_agentv.engine.judging import judging_fault, needs_of_case
from pytest_agentv.errors import AgentvError, FileError, TargetError, TargetsError, locate
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import Hint, Problem, UnusableTarget, did_you_mean, near_file
from pytest_agentv.files.source import Source
from pytest_agentv.model.base import Json, Record, counted
from pytest_agentv.model.cases import AnyEvaluator, EvalCase
from pytest_agentv.model.kind_table import KindsOf, merge_kinds, no_kinds
from pytest_agentv.model.options import UNKNOWN_KEYS, UnknownKeys
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

# Finds the kinds of evaluators and providers that a project adds in its conftest files and plugins.

_Key: TypeAlias = tuple[str, Path | None]
"""A hook and a folder; None: wherever a conftest lies."""

_HOOKS: Final = ("pytest_agentv_evaluators", "pytest_agentv_providers")
_SIGNS: Final = (b"pytest_agentv_", b"pytest_plugins")
"""Texts in a conftest that may add kinds."""


class ProjectKinds:
    """Calls the hooks of a project for its kinds. pytest loads the conftest files but runs no test.

    Conftest files are user code. They are loaded only if one of them mentions our hooks, or if a file names a kind
    that is not built in, which a plugin may add.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.problems: list[Problem] = []
        """The faults that prevented the loading of conftest files."""
        self._folders = sorted({path.parent for path in files})

    def of(self, hook: str, built_in: Mapping[str, Any], named: Sequence[str] = ()) -> "Callable[[Path], LazyKinds]":
        """Return a function from a folder to the kinds of one hook. `named` kinds always count as kinds."""
        return lambda folder: LazyKinds(self, hook, built_in, named, folder)

    @cached_property
    def mentions_hooks(self) -> bool:
        """Whether a conftest beside the files, or above them, may add kinds."""
        folders = {folder for start in self._folders for folder in (start, *start.parents)}
        return any(any(sign in _read(folder / "conftest.py") for sign in _SIGNS) for folder in folders)

    def find(self, hook: str, folder: Path) -> Mapping[str, Any]:
        """Return the kinds of a hook for a folder. The conftest files above the folder win."""
        return self._found.get((hook, folder)) or self._found.get((hook, None)) or {}

    @cached_property
    def _found(self) -> "Mapping[_Key, Mapping[str, Any]]":
        import pytest  # noqa: PLC0415 - takes a fifth of a second

        asker = _Asker(self._folders)
        error: BaseException | None = None
        said = io.StringIO()
        arguments = ["-p", "no:cacheprovider", "-o", "addopts=", *map(str, self._folders)]
        environment = os.environ.pop("PYTEST_ADDOPTS", None)
        try:
            with redirect_stdout(said), redirect_stderr(said):
                pytest.main(arguments, plugins=[asker])
        except SystemExit as exit_:  # a conftest may raise it when it is imported
            error = exit_
        finally:
            if environment is not None:
                os.environ["PYTEST_ADDOPTS"] = environment
        error = error or asker.error
        if error or not asker.found:
            self._note_fault(error, said.getvalue())
        return asker.found

    def _note_fault(self, error: BaseException | None, said: str) -> None:
        """Note what an error of users' code, or what pytest said instead of calling our plugin."""
        if error is None:
            reason = said.strip().rpartition("\n")[2].removeprefix("E  ").strip() or "pytest could not be started"
            named = re.search(r"while loading conftest '(.+?)'", said)
            path, line = (None if named is None else Path(named[1])), None
        else:
            reason = " ".join(describe_error(error).split())
            frames = reversed(traceback.extract_tb(error.__traceback__))
            places = ((Path(frame.filename), frame.lineno) for frame in frames)
            path, line = next((place for place in places if place[0].name == "conftest.py"), (None, None))
        if path is None:
            path = (self._folders[0] if self._folders else Path.cwd()) / "conftest.py"
        message = f"kinds of conftest files are not known: {reason}"
        # A warning: files may be validated where the application and its dependencies are not installed.
        self.problems.append(Problem(path, line, "", message, level="warning"))


class _Asker:
    """A pytest plugin that calls our hooks instead of running tests."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.found: dict[_Key, Mapping[str, Any]] = {}
        self.error: BaseException | None = None
        self._folders = folders

    def pytest_cmdline_main(self, config: Any) -> int:
        import pytest  # noqa: PLC0415 - it runs

        try:
            session = pytest.Session.from_config(config)
            for hook in _HOOKS:
                everywhere = getattr(config.hook, hook)()
                self.found[hook, None] = merge_kinds(everywhere)
                for folder in self._folders:
                    near = getattr(session.gethookproxy(folder), hook)()
                    self.found[hook, folder] = merge_kinds([*near, *everywhere])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - hooks are code of the user's
            self.error = error
        return 0


# pluggy reads this mark. Importing pytest to set it would cost every `agentv` command a fifth of a second.
_Asker.pytest_cmdline_main.pytest_impl = {"tryfirst": True}  # type: ignore[attr-defined]


class LazyKinds(Mapping[str, Any]):
    """The kinds of one hook. Calls the hook only when its kinds may matter."""

    def __init__(
        self, project: ProjectKinds, hook: str, built_in: Mapping[str, Any], named: Sequence[str], folder: Path
    ) -> None:
        self._project = project
        self._folder = folder
        self._hook = hook
        self._built_in = built_in
        self._named = dict.fromkeys(named, _any_keys)

    @property
    def _kinds(self) -> Mapping[str, Any]:
        return {**self._named, **self._project.find(self._hook, self._folder)}

    def __getitem__(self, word: str) -> Any:
        if self._project.mentions_hooks or word not in {**self._built_in, **self._named}:
            return self._kinds[word]
        return self._named[word]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.get(word) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds if self._project.mentions_hooks else self._named)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _any_keys(spec: object, services: object) -> object:
    """Replace the factory of a kind with unknown keys."""
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
            options.targets,
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
    say("\n".join(_text_lines(files, problems)) if options.format == "text" else _json(files, problems))
    strict = [problem for problem in problems if options.strict and not isinstance(problem, Hint)]
    return int(bool(strict) or any(problem.level == "error" for problem in problems))


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv validate",
        description="Check eval files, datasets, targets and config files. Report all faults that a run would\n"
        "find while it collects the cases and starts. Nothing is run, and no credentials are needed.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="A file, a glob, or a folder that is searched for all of them."
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="What is printed (default: text: path:line: message).",
    )
    parser.add_argument("--strict", action="store_true", help="Warnings count as errors (default: off).")
    parser.add_argument(
        "--targets",
        type=Path,
        metavar="PATH",
        help="Targets file of the runs (default: searched from each eval file's folder upward).",
    )
    parser.add_argument(
        "--unknown-keys",
        choices=UNKNOWN_KEYS,
        default="error",
        help="Level of unknown keys that say what is asked or checked, as agentv_unknown_keys (default: error).",
    )
    parser.add_argument(
        "--plugin-kind",
        action="append",
        default=[],
        metavar="NAME",
        help="Accept this evaluator type or provider unseen; may be repeated (default: none). Those of\n"
        "conftest files are known.",
    )
    return parser


def _expand(paths: Sequence[str]) -> tuple[list[Path], list[Problem]]:
    """Return the distinct absolute files to check, and a problem for each path without files."""
    files: dict[Path, None] = {}
    problems: list[Problem] = []
    for name in paths:
        path = Path(os.path.normpath(Path(name).absolute()))
        found, fault = _find(path)
        files.update(dict.fromkeys(found))
        if not found:
            problems.append(Problem(path, None, "", fault))
    return list(files), problems


def _find(path: Path) -> tuple[Sequence[Path], str]:
    """Return the files of a path, and the error text if there are none."""
    if path.is_dir():
        found = [
            file
            for file in walk(path, hidden=frozenset({".agentv"}))
            if file.suffix in SUFFIXES
            and (kind_of(file) or (file.parent.name != ".agentv" and is_eval_in_folder(file, path)))
        ]
        return found, "no eval, targets or config files in this folder"
    if path.exists() or not is_glob(str(path)):
        return [path] if path.exists() else [], "there is no such file or folder"
    return [file for file in find_files(str(path), hidden=True) if file.suffix in SUFFIXES], "no file matches"


def _text_lines(files: Sequence[Path], problems: Sequence[Problem]) -> Iterator[str]:
    for problem in problems:
        where = locate(problem.path, problem.line)
        text = str(problem).removeprefix(f"{where}: ")
        yield visible(f"{where}: {problem.level}: {text}")
    errors, warnings = _count(problems)
    found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}" if problems else "nothing wrong"
    yield f"{counted(len(files), 'file')} checked: {found}"


def _json(files: Sequence[Path], problems: Sequence[Problem]) -> str:
    errors, warnings = _count(problems)
    report: Json = {
        "files": [locate(path, None) for path in files],
        "errors": errors,
        "warnings": warnings,
        "problems": [problem.to_plain() | {"path": locate(problem.path, None)} for problem in problems],
    }
    return json.dumps(report, indent=2)


def _count(problems: Sequence[Problem]) -> tuple[int, int]:
    errors = sum(problem.level == "error" for problem in problems)
    return errors, len(problems) - errors


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
        self._found.update(dict.fromkeys(problems))

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
        self._note((*missing_folders(cases, targets), *unsent_guidelines(cases, targets)))
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
            # A run may still get one by --agentv-targets.
            self._note(problem.replace(level=level) for problem in _problems_of(error, eval_dir))
            return None

    def _load_targets(self, path: Path) -> TargetsFile | None:
        if path not in self._targets_files:
            self._targets_files[path] = None
            kinds = KINDS.with_own(self._settings.own_providers(path.parent))
            try:
                file = self._targets_files[path] = load_targets_file(path, kinds, self._settings.unknown_keys)
                self._note((*map(_raised, file.warnings), *missing_code(file)))
            except FileError as error:
                self._note(_problems_of(error, path))
        return self._targets_files[path]


def _raised(problem: Problem) -> Problem:
    """Return a problem of a target as the run tells it to the cases that use the target."""
    return problem.replace(level="error") if isinstance(problem, UnusableTarget) else problem


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


def _declared_kind(path: Path) -> FileKind | None:
    try:
        if not path.is_file():  # reading a pipe would block
            return None
        with path.open("rb") as file:
            found = _SCHEMA.search(file.read(65_536))
    except OSError:
        return None
    kinds: dict[bytes, FileKind] = {b"eval": "eval", b"targets": "targets", b"config": "config"}
    return kinds[found[1]] if found and path.suffix != ".jsonl" else None


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
    for evaluator in case.evaluators or ():
        for each in evaluator.walk():
            for doubt in _doubts(each, case):
                message = f"evaluator {each.label!r}: {doubt}"
                yield Problem(Path(case.path), case.line, case.eval_id, message, level="warning")


def _doubts(evaluator: AnyEvaluator, case: EvalCase) -> list[str]:
    try:
        return [*evaluator.doubts(case)]
    except Exception as error:
        if evaluator.own_code is None:
            raise
        return [f"doubts() raised {user_traceback(error)}"]


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
    for definition in file.definitions:
        settings = _settings(file, definition)
        named = None if settings is None else settings.sources.callable
        if named is None or has_reference(named):
            continue
        written, folder = named.rpartition(":")[0], (definition.path or file.path).parent
        if written.endswith(".py") and not (folder / written).is_file():
            key = next((key for key, value in definition.values.items() if value == named), "")
            message = f"there is no file {written!r} in {locate(folder, None)}"
            yield _hint(file, definition, key, message, near_file(folder / written, (".py",)))


def missing_folders(cases: Iterable[EvalCase], file: TargetsFile) -> Iterator[Hint]:
    """Yield the missing `cwd` folders of command lines, as a run of these cases would look for them.

    A run may create them: this is no error.
    """
    for case in cases:
        definition = next((each for each in file.definitions if each.name == (case.target or DEFAULT_TARGET)), None)
        if definition is None or definition.kind != "cli":
            continue
        settings, eval_dir = _settings(file, definition), Path(case.path).parent
        cwd = None if settings is None else settings.cwd
        if cwd is None or has_reference(cwd) or (path := eval_dir / cwd).is_dir():
            continue
        siblings = [each.name for each in path.parent.iterdir() if each.is_dir()] if path.parent.is_dir() else []
        message = f"there is no folder {cwd!r} for cases in {locate(eval_dir, None)}"
        yield _hint(file, definition, "cwd", message, did_you_mean(path.name, siblings))


def unsent_guidelines(cases: Iterable[EvalCase], file: TargetsFile) -> Iterator[Hint]:
    """Yield a warning for each target that does not get the guidelines of cases, at the first of them.

    A command may know the guidelines: this is no error.
    """
    told: set[str] = set()
    for case in cases:
        name = case.target or DEFAULT_TARGET
        definition = next((each for each in file.definitions if each.name == name), None)
        if not case.guideline_paths or definition is None or definition.provider_batching or name in told:
            continue
        question = build_prompt(case, "agent").question
        warning = lost_guidelines(case, question, name, _settings(file, definition))
        if warning is not None:
            told.add(name)
            yield warning


def _settings(file: TargetsFile, definition: TargetDefinition) -> Any:
    """Return the keys of a target as written; None for an unknown kind."""
    kind = file.kinds.table.get(definition.kind)
    place = Place(Source(file.path, {}, "", {}), (), [])
    found = None if kind is None else read_target(kind, definition.values, place)[1]
    return found if hasattr(found, "sources") else None


def _hint(file: TargetsFile, definition: TargetDefinition, key: str, message: str, near: str | None) -> Hint:
    path = definition.path or file.path
    siblings = [each for each in file.definitions if (each.path or file.path) == path]
    return Hint(path, definition.line, f"targets[{siblings.index(definition)}].{key}", message, near, level="warning")
