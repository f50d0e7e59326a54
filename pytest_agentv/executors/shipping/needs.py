"""Finds the folders and files that a job needs on another machine."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.targets.judging import evaluators_of
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.shipping.ignoring import ShippingRules
from pytest_agentv.executors.shipping.roots import Roots
from pytest_agentv.loading.project_files import ProjectFiles, command_words
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.models.base import Json, Plain, Record
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.messages import FilePart
from pytest_agentv.models.records import record
from pytest_agentv.models.targets import Target


class OutsideProject(AgentvError):
    """A job needs a file that is not below any root."""


@record
class Needs(Record):
    """The absolute paths to ship, sorted."""

    folders: tuple[str, ...]
    """Folders with all their content. None is inside of another."""
    files: tuple[str, ...]
    """Files outside of these folders."""


class NeedsFinder:
    """Finds the needs of jobs. Reads each script once."""

    def __init__(self, roots: Roots, rules: ShippingRules) -> None:
        self._roots = roots
        self._rules = rules
        self._files = ProjectFiles(*(Path(folder) for _, folder in roots.folders))

    def find(self, job: CaseJob, file: TargetsFile | None, targets: Sequence[Target]) -> Needs:
        """Return the needs of a job. Raises `OutsideProject`.

        These are the folders of its eval file, targets file, judge scripts and Python targets, the files that scripts
        import, attachments, and any other path in the case or its targets.
        """
        wanted = {str(job.case.folder): None}
        if file is not None:
            paths = (file.path, *(each.path for each in file.definitions if each.path is not None))
            wanted |= dict.fromkeys(str(path.parent) for path in paths)
        wanted |= dict.fromkeys(job.case.file_paths)
        parts = (part for message in job.case.messages for part in message.parts if isinstance(part, FilePart))
        wanted |= dict.fromkeys(part.resolved_path for part in parts)
        for evaluator in (member for each in evaluators_of(job.case) for member in each.walk()):
            wanted |= dict.fromkeys(self._of_evaluator(evaluator))
        for target in targets:
            wanted |= dict.fromkeys(self._of_target(target))
        return self._without_inner(self._inside(wanted))

    def _inside(self, paths: Iterable[str]) -> list[str]:
        found = list(paths)
        outside = next((path for path in found if self._roots.spot(path) is None), None)
        if outside is not None:
            raise OutsideProject(outside)
        return found

    def _of_evaluator(self, evaluator: AnyEvaluator) -> Iterator[str]:
        for folder, words in evaluator.scripts:
            is_shell = words[:2] == ("sh", "-lc")
            yield from self._of_words(command_words(words[2]) if is_shell else words, Path(folder or "."))
        yield from self._named_in(evaluator.to_plain())

    def _of_target(self, target: Target) -> Iterator[str]:
        sources = target.settings.sources
        folder = Path(sources.folder or Path(target.path or "").parent)
        if sources.callable is not None:
            yield from self._program(self._files.of_callable(sources.callable, folder))
        yield from self._of_words(sources.words, folder)
        yield from self._named_in(target.settings.to_plain())

    def _of_words(self, words: Iterable[str], folder: Path) -> Iterator[str]:
        """Yield the folder of each script in a command, and the files that the script imports."""
        words = tuple(words)
        place = folder
        for previous, word in zip(("", *words), words, strict=False):
            if previous == "cd":
                place /= word
            else:
                yield from self._program(self._files.of_words([word], place))
        yield from self._seen(self._files.of_words(words, folder))  # `-m module` is two words

    def _program(self, files: Iterable[Path]) -> Iterator[str]:
        found = list(self._seen(files))
        yield from found
        yield from (str(Path(path).parent) for path in found[:1])  # a script may read files beside it

    def _seen(self, files: Iterable[Path]) -> Iterator[str]:
        return (str(path) for path in files if self._roots.spot(str(path)) is not None)

    def _named_in(self, value: Json | Plain) -> Iterator[str]:
        """Yield the files and folders of the project whose absolute paths are in plain data."""
        if isinstance(value, str):
            if value[:1] == "/" and self._roots.spot(value) is not None and Path(value).exists():
                yield value
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from self._named_in(item)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from self._named_in(item)
        elif isinstance(value, Plain):
            yield from self._named_in(value.to_plain())

    def _without_inner(self, paths: Sequence[str]) -> Needs:
        is_folder = {path: os.path.isdir(path) for path in paths}  # noqa: PTH112 - called for each case
        folders = sorted((path for path in is_folder if is_folder[path]), key=len)
        outer: list[str] = []
        for folder in folders:
            if not self._is_within(folder, outer):
                outer.append(folder)
        files = {path for path in is_folder if not is_folder[path] and not self._is_within(path, outer)}
        return Needs(tuple(sorted(outer)), tuple(sorted(files)))

    def _is_within(self, path: str, folders: Iterable[str]) -> bool:
        """Whether a path is shipped with one of some folders: inside, and not left out by the rules."""
        return any(self._goes_with(path, folder) for folder in folders if path.startswith(f"{folder.rstrip('/')}/"))

    def _goes_with(self, path: str, folder: str) -> bool:
        between = (str(each) for each in Path(path).parents if len(str(each)) > len(folder))
        return not any(map(self._rules.ignores, (path, *between)))
