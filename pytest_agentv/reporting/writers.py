"""Writes the results file of a run, and chooses its default name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_agentv.errors import FileError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.values import OutputFormat
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.readers import input_fault, iter_texts
from pytest_agentv.reporting.serialization import json_safe, recordable, safe_json
from pytest_agentv.runtime.files import LockedAppender

_SUFFIXES: Final[Mapping[str, OutputFormat]] = {".jsonl": "jsonl", ".yaml": "yaml", ".yml": "yaml"}


class ResultSink:
    """Appends each result to the results file at once. Each process has one sink, which its threads share.

    Source: eval-cli-2026-01, "Output Persistence and Formats".
    """

    def __init__(
        self,
        path: Path,
        output_format: OutputFormat,
        masker: Masker,
        tell: Callable[[bytes, EvalResult], None] | None = None,
    ) -> None:
        """`tell` is called with each line of JSONL that holds just what its result holds, because nothing is masked."""
        self.path = path
        self._output_format = format_of(path, output_format)
        self._masker = masker
        self._tell = tell if self._output_format == "jsonl" else None
        self._appender = LockedAppender(path)
        self._is_checked = False

    def write(self, *results: EvalResult) -> Sequence[EvalResult]:
        """Append all results under one lock, and return them as written. Raises `FileError` if none was."""
        written, texts = zip(*map(self.serialized, results), strict=True) if results else ((), ())
        self.write_texts(texts)
        if self._tell is not None and not self._masker.is_needed:
            for text, result in zip(texts, written, strict=True):
                self._tell(text.encode(), result)
        return written

    def write_texts(self, texts: Iterable[str]) -> None:
        """Append texts from `serialize`, which may come from another process. Raises like `write`."""
        self._check_place()
        self._appender.append("".join(texts).encode())

    def probe(self) -> None:
        """Check that results can be written and read again, without writing any. Raises `FileError` with the reason."""
        self._check_place()
        self._appender.probe()
        if not self.path.is_file():
            message = "is a device or a pipe: expected a file, because what a run says at its end is read from it"
            raise FileError(self.path, message)
        next(iter_texts(self.path), None)

    def close(self) -> None:
        self._appender.close()

    def _check_place(self) -> None:
        """Look once whether the file is for results. Raises `FileError`."""
        if not self._is_checked:
            if fault := input_fault(self.path):
                raise FileError(self.path, f"{fault}, which this would spoil")
            self._is_checked = True

    def serialized(self, result: EvalResult) -> tuple[EvalResult, str]:
        """Return a result with its text. If it has none, an error takes its place: it must not cost other results."""
        try:
            return result, self.serialize(result)
        except Exception as error:  # noqa: BLE001 - code of users may put anything into a result
            from pytest_agentv.reporting.unwritable import unwritable_result  # noqa: PLC0415 - a rare fault

            broken = unwritable_result(result, error, self.serialize)
            return broken, self.serialize(broken)

    def serialize(self, result: EvalResult) -> str:
        """Return the text of a result in the file, with secrets masked."""
        plain = result.to_plain()
        return result_text(recordable(plain, self._masker) if self._masker.is_needed else plain, self._output_format)


def format_of(path: Path, wanted: OutputFormat) -> OutputFormat:
    """Return the format of a results file: by its suffix, which readers use, else the requested one."""
    return _SUFFIXES.get(path.suffix, wanted)


def result_text(value: JsonObject, output_format: OutputFormat) -> str:
    """Return the text of a result in a file of that format. Its values may be of any class."""
    if output_format == "jsonl":
        return f"{safe_json(value)}\n"
    from pytest_agentv.reporting.yaml_documents import yaml_document  # noqa: PLC0415 - only YAML files need PyYAML

    return yaml_document(json_safe(value))


def answers_path(results_path: Path) -> Path:
    """Return the file beside a results file that keeps single answers of repeated cases during a run."""
    return results_path.with_name(f".{results_path.name}.answers.jsonl")


def verdict_path(results_path: Path) -> Path:
    """Return the path of the verdict on a run, beside its results: `run.verdict.json`, `run.yaml.verdict.json`."""
    return results_path.with_name(f"{results_path.name.removesuffix('.jsonl')}.verdict.json")


def kept_folder(results_path: Path) -> Path:
    """Return the folder beside a results file in which worker processes keep results until the file has them."""
    return results_path.with_name(f".{results_path.name}.kept")


def unjudged_folder(results_path: Path) -> Path:
    """Return the folder beside a results file that keeps answers of models until they are judged."""
    return results_path.with_name(f".{results_path.name}.unjudged")


def default_results_path(cwd: Path, started: datetime, output_format: OutputFormat) -> Path:
    """Return `.agentv/results/eval_<time>.jsonl` (or `.yaml`) below `cwd`; the time is UTC (agentv-formats 8.3)."""
    time = started.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    milliseconds = started.microsecond // 1000
    return cwd / ".agentv" / "results" / f"eval_{time}-{milliseconds:03}Z.{output_format}"
