"""Writes results files: records as plain JSON data, with secrets masked; single answers; keys that are added later."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import ATOMS, Json, JsonObject, Record, compact_json
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.model.results import RESULT_FIELDS, ErrorDetail, EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.runtime.files import LockedAppender
from pytest_agentv.store.readers import input_fault, iter_entries, iter_texts

# Cuts conversations to what a results file holds, and takes the images out of them.

_URI: Final = re.compile(
    r"data:(image/[a-z0-9.+-]+)(?:;[a-z-]+=[^;,\s]*)*;base64,([A-Za-z0-9+/]{8,}={0,2})", re.IGNORECASE
)
_TYPES: Final = ("image", "image_url", "input_image", "output_image")

MOST_MESSAGES: Final = 60
"""A longer conversation keeps its first and last messages."""
MOST_CALLS: Final = 40
"""Tool calls of one message."""
LONGEST_TEXT: Final = 4_000
"""Characters of a message, and of a tool's input or output as JSON."""
MOST_TEXT: Final = 48_000
"""Characters of a whole conversation."""

_SHORTEST: Final = 200
"""Characters of each text after the conversation has reached its limit."""
_MESSAGE_KEYS: Final = ("role", "name", "timestamp")
_CALL_KEYS: Final = ("tool", "id", "timestamp", "duration_ms")


@dataclass(frozen=True, slots=True)
class Image(Record):
    """An image of a message or an answer."""

    name: str
    type: str
    """For example `image/png`; empty if unknown."""
    size: int | None = None
    """Bytes."""
    data: str = ""
    """base64; empty if there are no bytes."""

    @property
    def text(self) -> str:
        """`photo.png (image/png, 12.3 kB)`."""
        size = "" if self.size is None else f"{self.size / 1000:,.1f} kB"
        about = ", ".join(filter(None, (self.type, size)))
        return f"{self.name} ({about})" if about else self.name

    def to_part(self) -> dict[str, Json]:
        """Return the image as a part of a message, without its bytes."""
        known = {"name": self.name, "media_type": self.type, "size": self.size}
        return {"type": "image", **{key: value for key, value in known.items() if value}}


Seen = Callable[[Image], None]
"""Called with each image whose bytes are replaced."""


def without_images(value: Json, seen: Seen) -> Json:
    """Return a text, or other JSON, with names in place of the bytes of images."""
    if isinstance(value, str):
        return named_in(value, seen)
    if isinstance(value, list | tuple):
        return [without_images(each, seen) for each in value]
    if not isinstance(value, Mapping):
        return value
    image = image_of(value)
    if image is None:
        return {key: without_images(each, seen) for key, each in value.items()}
    seen(image)
    return image.to_part()


def image_of(part: JsonObject) -> Image | None:
    """Return the image of a message's part; None: the part is no image."""
    inline = part.get("inline_data", part.get("inlineData"))  # Gemini
    if part.get("type") not in _TYPES and not isinstance(inline, Mapping):
        return None
    nested = inline, part.get("image_url"), part.get("source")  # OpenAI, Anthropic
    holder = next((each for each in nested if isinstance(each, Mapping)), part)  # MCP has it in the part itself
    kind = _first({**part, **holder}, "media_type", "mime_type", "mimeType")
    if holder is inline and not kind.startswith("image/"):
        return None
    data, where = _first(holder, "data"), _first(holder, "url", "value", "path", "image_url")
    if match := _URI.fullmatch(where):
        kind, data = match[1].lower(), match[2]
    if data:
        return _of_base64(_first(part, "name") or "image", kind, data)
    size = part.get("size")
    return Image(_first(part, "name") or where[:200] or "image", kind, size if isinstance(size, int) else None)


def named_in(text: str, seen: Seen) -> str:
    """Return a text with names in place of the images in it."""
    if "data:image/" not in text:
        return text

    def name(match: re.Match[str]) -> str:
        image = _of_base64("image", match[1].lower(), match[2])
        seen(image)
        return f"[{image.text}]"

    return _URI.sub(name, text)


def _of_base64(name: str, kind: str, data: str) -> Image:
    clean = "".join(data.split())
    return Image(name, kind, len(clean) * 3 // 4 - clean[-2:].count("="), clean)


def _first(value: JsonObject, *keys: str) -> str:
    return next((found for key in keys if isinstance(found := value.get(key), str)), "")


def bounded_messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Return messages of which each text is cut, and says so. Call it with masked texts."""
    budget = _Budget()
    half = MOST_MESSAGES // 2
    if len(messages) <= MOST_MESSAGES:
        return [_bounded(message, budget) for message in messages]
    left_out = f"… {len(messages) - 2 * half} messages are left out …"
    first, last = messages[:half], messages[-half:]
    gap = {"role": "note", "content": left_out, "tool_calls": []}
    return [*(_bounded(each, budget) for each in first), gap, *(_bounded(each, budget) for each in last)]


class _Budget:
    def __init__(self) -> None:
        self._left = MOST_TEXT

    def cut(self, value: Json) -> Json:
        """Return a value, or the head of its text if it is too long."""
        text = value if isinstance(value, str) else compact_json(value)
        limit = max(_SHORTEST, min(LONGEST_TEXT, self._left))
        if len(text) > limit and "image" in text.lower():  # words are worth more than the head of an image
            value = without_images(value, lambda _: None)
            text = value if isinstance(value, str) else compact_json(value)
        self._left -= min(len(text), limit)
        return value if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _bounded(message: JsonObject, budget: _Budget) -> JsonObject:
    kept = {key: message[key] for key in _MESSAGE_KEYS if key in message}
    if "content" in message:
        kept["content"] = budget.cut(message["content"])
    calls = message.get("tool_calls") or ()
    kept["tool_calls"] = [
        {key: call[key] for key in _CALL_KEYS if key in call}
        | {key: budget.cut(call[key]) for key in ("input", "output") if key in call}
        for call in calls[:MOST_CALLS]
    ]
    if len(calls) > MOST_CALLS:
        kept["tool_calls"].append({"tool": f"… {len(calls) - MOST_CALLS} calls are left out …"})
    return kept


_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_IDENTITY: Final = frozenset(name for name, field in RESULT_FIELDS.items() if not field.masked)
"""Keys of a record whose values are names or fixed words."""

_NO_TEXTS: Final = ATOMS - {str}

_WITH_NAMES: Final = frozenset(
    (
        *("evaluator_results", "trace", "trace_summary", "execution_metrics", "output_messages", "tool_calls"),
        *("name", "type", "tool", "tool_names", "tool_calls_by_name", "tool_durations"),
    )
)
"""Keys of a record with names of evaluators and tools: these, and mappings and lists that have them."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")
"""Any other name of an evaluator or a tool is masked like text."""

_SUFFIXES: Final[Mapping[str, OutputFormat]] = {".jsonl": "jsonl", ".yaml": "yaml", ".yml": "yaml"}

ItemKey: TypeAlias = tuple[str | None, str]
"""Node id and id of a case."""


class ResultSink:
    """Appends each result to the results file at once. Each process has one sink, which its threads share."""

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
        if not self._is_checked:
            if fault := input_fault(self.path):
                raise FileError(self.path, f"{fault}, which this would spoil")
            self._is_checked = True

    def serialized(self, result: EvalResult) -> tuple[EvalResult, str]:
        """Return a result with its text. If it has none, an error takes its place: it must not cost other results."""
        try:
            return result, self.serialize(result)
        except Exception as error:  # noqa: BLE001 - code of users may put anything into a result
            broken = unwritable_result(result, error, self.serialize)
            return broken, self.serialize(broken)

    def serialize(self, result: EvalResult) -> str:
        """Return the text of a result in the file, with secrets masked."""
        plain = result.to_plain()
        return result_text(recordable(plain, self._masker) if self._masker.is_needed else plain, self._output_format)


def unwritable_result(result: EvalResult, error: Exception, serialize: Callable[[EvalResult], str]) -> EvalResult:
    """Return a result as an error of its case, without the fields that `serialize` refuses. The rest was paid for."""
    blank = EvalResult("", "", "", 0.0, (), (), "", "")
    kept: dict[str, Any] = {}
    for name in RESULT_FIELDS:
        with suppress(Exception):  # it is looked for
            serialize(blank.replace(**{name: getattr(result, name)}))
            kept[name] = getattr(result, name)
    message = f"the result cannot be recorded: {type(error).__name__}: {error}"
    broken = {"score": 0.0, "status": "error", "error": message, "error_detail": ErrorDetail("evaluator", "crash")}
    return blank.replace(**{**kept, **broken})


def format_of(path: Path, wanted: OutputFormat) -> OutputFormat:
    """Return the format of a results file: by its suffix, which readers use, else the requested one."""
    return _SUFFIXES.get(path.suffix, wanted)


def result_text(value: JsonObject, output_format: OutputFormat) -> str:
    """Return the text of a result in a file of that format. Its values may be of any class."""
    if output_format == "jsonl":
        return f"{safe_json(value)}\n"
    from pytest_agentv.files.source import yaml_document  # noqa: PLC0415 - only YAML files need PyYAML

    return yaml_document(json_safe(value))


def recordable(record: JsonObject, masker: Masker) -> dict[str, Json]:
    """Return a record as plain JSON data with secrets masked.

    The record's own keys and the names of cases, targets, evaluators and tools stay as they are.
    """
    safe = {key: value if type(value) in _NO_TEXTS else json_safe(value) for key, value in record.items()}
    return {key: _masked_field(key, value, masker) for key, value in safe.items()} if masker.is_needed else safe


def _masked_field(key: str, value: Json, masker: Masker) -> Json:
    if key in _IDENTITY:
        return value
    if key == "answers":
        return [recordable(answer, masker) for answer in value]
    masked = _masked(key, value, masker)
    return bounded_messages(masked) if key == "output_messages" else masked


def _masked(key: str, value: Json, masker: Masker) -> Json:
    """Mask the value of a key. Names of evaluators and tools stay where a record has them, if they look like names."""
    if key not in _WITH_NAMES:
        return masker.mask_plain(value)
    if isinstance(value, list):
        return [_masked(key, each, masker) for each in value]
    if isinstance(value, dict):
        return {_masked("name", inner, masker): _masked(inner, item, masker) for inner, item in value.items()}
    return value if not isinstance(value, str) or _NAME.fullmatch(value) else masker.mask(value)


def masked_result(value: JsonObject, masker: Masker) -> JsonObject:
    """Return a stored result of any shape with secrets masked. The names of its case are kept."""
    if not masker.is_needed:
        return value
    return {key: item if key in _IDENTITY else masker.mask_plain(item) for key, item in value.items()}


def safe_json(value: JsonObject) -> str:
    """Return `json_safe(value)` as compact JSON. Most data is safe already, so nothing has to look at its parts."""
    try:
        text = compact_json(value)
        text.encode()
    except (TypeError, ValueError):  # an object of another class, or a lone surrogate
        return compact_json(json_safe(value))
    return text


def json_safe(value: Any) -> Json:
    """Return plain JSON data for any value, so that every answer can be recorded.

    NaN and infinities become null, as in JavaScript. Lone surrogates, which UTF-8 cannot hold, become U+FFFD. Keys
    become strings. Objects of other classes become their text.
    """
    kind = type(value)
    if kind is str and value.isascii():
        return value
    if kind in _NO_TEXTS:
        return value
    if kind is dict:
        return {
            key if type(key) is str and key.isascii() else _key(key): item
            if type(item) in _NO_TEXTS or (type(item) is str and item.isascii())
            else json_safe(item)
            for key, item in value.items()
        }
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [json_safe(item) for item in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return json_safe(dict(value) if isinstance(value, Mapping) else str(value))


def _key(key: object) -> str:
    safe = json_safe(key)
    return safe if isinstance(safe, str) else compact_json(safe)


def stored_name(name: str) -> str:
    """Return a name as results files hold it. Those of files may be no UTF-8."""
    return name if name.isascii() else _whole_text(name)


def _whole_text(text: str) -> str:
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def verdict_path(results_path: Path) -> Path:
    """Return the path of the verdict on a run, beside its results: `run.verdict.json`, `run.yaml.verdict.json`."""
    return results_path.with_name(f"{results_path.name.removesuffix('.jsonl')}.verdict.json")


def default_results_path(cwd: Path, started: datetime, output_format: OutputFormat) -> Path:
    """Return `.agentv/results/eval_<time>.jsonl` (or `.yaml`) below `cwd`; the time is UTC (agentv-formats 8.3)."""
    time = started.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    milliseconds = started.microsecond // 1000
    return cwd / ".agentv" / "results" / f"eval_{time}-{milliseconds:03}Z.{output_format}"


def amend(path: Path, run_id: str, output_format: OutputFormat, additions: Mapping[ItemKey, JsonObject]) -> None:
    """Add keys to the last results of cases, at the end of their lines. Replaces keys that exist.

    Of lines that repeat a result, only the last one is kept. All other bytes stay as they are. The file changes in one
    step. Raises `FileError`, and then leaves the file as it was.
    """
    appender = LockedAppender(path)
    try:
        appender.rewrite(lambda: _pieces(path, run_id, output_format, additions))
    finally:
        appender.close()


def _pieces(
    path: Path, run_id: str, output_format: OutputFormat, additions: Mapping[ItemKey, JsonObject]
) -> Iterator[bytes]:
    last_lines: dict[ItemKey, int] = {}
    results: dict[tuple[Json, ...], int] = {}
    repeated: set[int] = set()
    for entry in iter_entries(path, run_id):
        if isinstance(entry, Problem):
            continue
        node_id = entry.value.get("node_id")
        key = (node_id if isinstance(node_id, str) else None, str(entry.value.get("eval_id")))
        result = (*key, str(entry.value.get("timestamp")), str(entry.value.get("duration_ms")))
        if result in results:
            repeated.add(results[result])
        last_lines[key] = results[result] = entry.line
    changes = {line: additions[key] for key, line in last_lines.items() if key in additions}
    entries = (entry for entry in iter_entries(path) if not isinstance(entry, Problem) and entry.line in changes)
    for line, text in iter_texts(path):
        if line in changes:
            kept = {name: each for name, each in next(entries).value.items() if name not in changes[line]}
            yield result_text({**kept, **changes[line]}, format_of(path, output_format)).encode()
        elif line not in repeated:
            yield text
