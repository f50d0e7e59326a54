"""Warns of files and folders that targets name and that do not exist, and of guidelines that a target does not get.

A run may create the files, and a command may know the guidelines: these are never errors.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_agentv.engine.lost_guidelines import lost_guidelines
from pytest_agentv.engine.targets.choosing import DEFAULT_TARGET
from pytest_agentv.errors import locate
from pytest_agentv.loading.problems import Hint, did_you_mean, near_file
from pytest_agentv.loading.targets.definitions import TargetDefinition, TargetsFile
from pytest_agentv.loading.targets.environment import has_reference
from pytest_agentv.loading.targets.validation import check_written
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.prompts.build import build_prompt


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
    """Yield the missing `cwd` folders of command lines, as a run of these cases would look for them."""
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
    """Yield a warning for each target that does not get the guidelines of cases, at the first of them."""
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
    kind = file.kinds.find(definition.kind)
    found = None if kind is None else check_written(kind, definition.values).kind
    return found if hasattr(found, "sources") else None


def _hint(file: TargetsFile, definition: TargetDefinition, key: str, message: str, near: str | None) -> Hint:
    path = definition.path or file.path
    siblings = [each for each in file.definitions if (each.path or file.path) == path]
    return Hint(path, definition.line, f"targets[{siblings.index(definition)}].{key}", message, near, level="warning")
