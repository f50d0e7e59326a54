"""What an opened case shows."""

import base64
import binascii
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from pytest_agentv.model.base import Json, JsonObject, counted, is_amount, pretty_json
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import Spent
from pytest_agentv.reports.failure import Start, command_of
from pytest_agentv.reports.figures import spent_in
from pytest_agentv.reports.html.cases import (
    SCORED,
    Case,
    Judgement,
    Past,
    dollars,
    duration,
    is_cached,
    judgements_of,
    list_of,
    mapping_of,
    mappings_of,
    number_of,
    status_of_answer,
    text_of,
    texts_of,
)
from pytest_agentv.store.writers import Image, image_of, named_in, without_images

# The commands that run the cases of a report again.


class Commands:
    """Makes the commands, from the start of the run if that is known, else from the results alone."""

    def __init__(self, cases: Iterable[Case], start: Start | None) -> None:
        self._start = start
        self._targets: dict[str, dict[str, None]] = defaultdict(dict)
        """The targets of a case whose node ids name them, in the order of the run."""
        for case in cases:
            if case.judged.target and (name := _name_without_target(case)):
                self._targets[name][case.judged.target] = None

    @property
    def where(self) -> str:
        """Say where the commands run, and what they may lack."""
        if self._start is not None:
            return "Run it in the folder where pytest was started."
        return "Run it in pytest's root folder. Add what else the run was given, such as --agentv-targets."

    def of(self, case: Case) -> str:
        """Return the command for a case; empty if there is none."""
        node_id = case.judged.node_id
        if node_id is None:
            return ""
        found = self._guessed(case, node_id) if self._start is None else self._start.command(node_id)
        return found or ""

    def _guessed(self, case: Case, node_id: str) -> str | None:
        """Return a command that finds the case, wherever its target was chosen.

        A node id names the target if a file or the command line has several. Given one target only, pytest may leave
        that out, so the case is then chosen without it.
        """
        target, name = case.judged.target, _name_without_target(case)
        if not target:
            return command_of(node_id, ())
        targets = list(self._targets.get(name or "", {}))
        if name is None or len(targets) > 1:
            return command_of(node_id, [f"--agentv-target={','.join(targets) or target}"])
        if _is_python(node_id):
            return command_of(node_id.partition("[")[0], [f"--agentv-target={target}"])
        return command_of(node_id.partition("::")[0], [f"--agentv-eval-id={case.id}", f"--agentv-target={target}"])


def _name_without_target(case: Case) -> str | None:
    """Return the node id without its target, which is the same for all targets; None: it names no target."""
    node_id, target = case.judged.node_id or "", case.judged.target
    file = node_id.partition("::")[0]
    if _is_python(node_id):
        test, bracket, parameters = node_id.partition("[")
        around = f"-{parameters.removesuffix(']')}-".partition(f"-{target}-")
        return f"{test}{bracket}{around[0]}-{around[2]}" if around[1] else None
    combination = text_of(case.result.value, "combination")
    return f"{file}::{case.id}" if combination and not case.id.endswith(f"@{combination}") else None


def _is_python(node_id: str) -> bool:
    return node_id.partition("::")[0].endswith(".py")


# Thumbnails: the images in results, up to a limit of bytes, and only types that are safe in a browser.

MOST_BYTES: Final = 100_000
"""The limit of one image."""
MOST_IN_ALL: Final = 3_000_000
"""The limit of all images of a report. Later ones are shown by name only."""
MOST_PIXELS: Final = 16_000_000
"""A small file can hold an image that fills the memory of a browser."""


class Gallery:
    """The images of a report."""

    def __init__(self) -> None:
        self._left = MOST_IN_ALL
        self.is_used = False
        """Whether any image is shown."""

    def take_out(self, value: Json) -> tuple[Json, list[JsonObject]]:
        """Return a text, or other JSON, with names in place of images; and these images."""
        found: list[JsonObject] = []
        return without_images(value, lambda image: found.append(self._shown(image))), found

    def take_out_of_text(self, text: str) -> tuple[str, list[JsonObject]]:
        """Return a text with names in place of images; and these images."""
        found: list[JsonObject] = []
        return named_in(text, lambda image: found.append(self._shown(image))), found

    def _shown(self, image: Image) -> JsonObject:
        """Return an image's name, type and size, and its bytes if they fit into the limit."""
        size = image.size or 0
        kind = _drawable(image.data) if 0 < size <= min(MOST_BYTES, self._left) else None
        if kind is None:
            return {"text": image.text}
        self._left -= size
        self.is_used = True
        return {"text": image.text, "source": f"data:{kind};base64,{image.data}"}


def _drawable(data: str) -> str | None:
    """Return the type of an image by its bytes; None: not safe to draw."""
    try:
        found = base64.b64decode(data, validate=True)
        for mark, kind, measure in _KINDS:
            if found.startswith(mark):
                width, height = measure(found)
                return kind if 0 < width * height <= MOST_PIXELS else None
    except (binascii.Error, ValueError, IndexError):
        pass
    return None


def _png(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def _gif(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _jpeg(data: bytes) -> tuple[int, int]:
    """Return the size in the frame header of a JPEG; 0, 0 without one."""
    at = 2
    while data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + length
    return 0, 0


_KINDS: Final[tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int]]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"GIF8", "image/gif", _gif),
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
)
"""Other types, such as SVG, are shown by name only."""


# The details of an opened case.

LONGEST_TEXT: Final = 20_000
"""Characters; longer texts are cut, so that no single answer makes the file large."""

_REQUESTS: Final = ("lm_provider_request", "agent_provider_request")


def detail_of(case: Case, history: Sequence[Past], gallery: Gallery, commands: Commands) -> JsonObject:
    """Return the plain data of a case, with long texts cut and the bytes of images replaced."""
    value = case.result.value
    text, images = gallery.take_out_of_text(_answer_text(value))
    keeps_answers = case.status != "pass" or case.is_flaky  # if all of them pass, the first one is enough
    answers = [_answer(answer, gallery) for answer in mappings_of(value, "answers")] if keeps_answers else []
    guidelines = [path for key in _REQUESTS for path in texts_of(mapping_of(value, key), "guideline_paths")]
    log_file = text_of(value, "log_file")
    raw = {key: item for key, item in value.items() if key != "answers" or keeps_answers}
    detail: dict[str, Json] = {
        "question": gallery.take_out_of_text(question_of(value))[0],
        "expected": text_of(value, "expected_outcome"),
        "reference": text_of(value, "reference_answer"),
        "text": text,
        "images": images,
        "answers": answers,
        "shown": next((n for n, answer in enumerate(answers) if answer["status"] != "pass"), 0),
        "evaluators": [_judgement(each) for each in case.judgements],
        "why": _why(case),
        "place": _place(case),
        "files": [
            *dict.fromkeys(guidelines),
            *filter(None, (log_file, text_of(mapping_of(value, "workspace"), "kept"))),
        ],
        "prompt": _prompt(value),
        "messages": [_message(message, gallery) for message in mappings_of(value, "output_messages")],
        "context": texts_of(value, "retrieved_context"),
        "changes": text_of(value, "file_changes"),
        "time": parts_of(case),
        "lanes": lanes_of(case),
        "cost": cost_line(case),
        "attempts": _attempts(value),
        "rerun": (command := commands.of(case)),
        "rerun_in": commands.where if command else "",
        "baseline": _baseline(case),
        "history": [past.to_plain() for past in history],
        "raw": without_images(raw, _unseen),
    }
    bounded: JsonObject = _bounded({key: item for key, item in detail.items() if item not in (None, "", [])})
    return bounded


def question_of(value: JsonObject) -> str:
    """Return the last message of the user, else the question of the request."""
    for key in _REQUESTS:
        request = mapping_of(value, key)
        asked = [m for m in mappings_of(request, "chat_prompt") if m.get("role") == "user"]
        if asked:
            return _text(asked[-1].get("content"))
        if text_of(request, "question"):
            return text_of(request, "question")
    return ""


def _answer_text(value: JsonObject) -> str:
    return (
        "" if value.get("status") == "error" and not value.get("finish_reason") else text_of(value, "candidate_answer")
    )


def _answer(answer: JsonObject, gallery: Gallery) -> JsonObject:
    text, images = gallery.take_out_of_text(text_of(answer, "candidate_answer"))
    return {
        "text": text,
        **({"images": images} if images else {}),
        "score": number_of(answer, "score") or 0.0,
        "status": status_of_answer(answer),
        "evaluators": [_judgement(each) for each in judgements_of(answer)],
        "messages": [_message(message, gallery) for message in mappings_of(answer, "output_messages")],
    }


def _judgement(judgement: Judgement) -> JsonObject:
    plain = judgement.to_plain()
    return {key: item for key, item in plain.items() if item not in ("", [], 0) or key == "score"}


def _why(case: Case) -> str:
    value = case.result.value
    repeat = mapping_of(value, "repeat")
    parts = []
    if case.status == SCORED:
        of = f" of {counted(case.judged.judged, 'answer')}" if repeat else ""
        parts.append(f"score {case.score:.2f}{of}, no threshold is known")
    elif repeat and case.status != "error":
        needed = number_of(repeat, "needed") or 0
        parts.append(f"{case.judged.passes} of {counted(case.judged.judged, 'answer')} pass, {needed:g} needed")
    elif case.status != "error" and case.judged.threshold is not None:
        parts.append(f"score {case.score:.2f}, threshold {case.judged.threshold:g}")
    detail = mapping_of(value, "error_detail")
    where = f" ({text_of(detail, 'stage')}, {text_of(detail, 'kind')})" if detail else ""
    if case.status == "error":
        parts.append(f"{text_of(value, 'error') or 'it could not be judged'}{where}")
    elif case.why:
        parts.append(case.why)
    return ". ".join(parts)


def _place(case: Case) -> str:
    value = case.result.value
    line, row = number_of(value, "line"), text_of(value, "row")
    place = f"{case.file}:{line:.0f}" if line else case.file
    return f"{place}, row {row}" if row else place


def _prompt(value: JsonObject) -> list[JsonObject]:
    """Return the messages before the question."""
    request = mapping_of(value, "lm_provider_request")
    messages: list[JsonObject] = [
        {"role": text_of(m, "role"), "content": _text(m.get("content"))} for m in mappings_of(request, "chat_prompt")
    ]
    if messages:
        return messages[:-1] if messages[-1]["role"] == "user" else messages
    guidelines = text_of(request, "guidelines")
    return [{"role": "guidelines", "content": guidelines}] if guidelines else []


def _message(message: JsonObject, gallery: Gallery) -> JsonObject:
    content, images = gallery.take_out(message.get("content"))
    calls: list[JsonObject] = []
    for call in mappings_of(message, "tool_calls"):
        output, outputs = gallery.take_out(call.get("output"))
        said = {"tool": text_of(call, "tool"), "input": call.get("input"), "output": output}
        said["ms"] = number_of(call, "duration_ms")
        calls.append(said | ({"images": outputs} if outputs else {}))
    shown = {"role": text_of(message, "role"), "content": _text(content), "calls": calls}
    return shown | ({"images": images} if images else {})


def _attempts(value: JsonObject) -> str:
    parts = []
    if (number_of(value, "attempts") or 0) > 1:
        parts.append(f"{number_of(value, 'attempts'):.0f} calls of the target")
    if requests := number_of(value, "request_attempts"):
        parts.append(counted(int(requests), "request"))
    if waited := number_of(value, "waited_ms"):
        parts.append(f"waited {duration(waited)}")
    if error := text_of(value, "last_error"):
        parts.append(f"last error: {error}")
    if retries := number_of(value, "judge_retries"):
        parts.append(f"judges asked again {counted(int(retries), 'time')}")
    return ", ".join(parts)


def _baseline(case: Case) -> JsonObject | None:
    change = case.change
    if change is None:
        return None
    text = named_in(_answer_text(change.before.value), _unseen) if change.before is not None else ""
    return {"word": change.word, "title": change.title, "say": change.text, "text": text}


def _text(content: Json) -> str:
    """Return the text of a message, with the names of its images."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_part_text(part) for part in content if isinstance(part, Mapping)]
        texts = [part for part in parts if isinstance(part, str)]
        if texts and len(texts) == len(content):
            return "\n".join(texts)
    return "" if content is None else pretty_json(content)


def _part_text(part: JsonObject) -> Json:
    image = image_of(part)
    return part.get("text") or part.get("value") if image is None else f"[{image.text}]"


def _unseen(_: Image) -> None:
    """Ignore an image that is shown elsewhere."""


def _bounded(value: Json) -> Json:
    """Cut long texts at every depth."""
    if isinstance(value, str):
        if len(value) <= LONGEST_TEXT:
            return value
        return f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT:,} more characters are in the results file)"
    if isinstance(value, Mapping):
        return {str(key): _bounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(item) for item in value]
    return value


def cost_line(case: Case) -> str:
    """Return the figures of a case. A figure that covers only some answers or calls says how many."""
    value = case.result.value
    cached = "answer from the cache" if is_cached(value) else ""
    spent = spent_in(value)
    costs = spent.answer
    tokens = _tokens(costs)
    return " · ".join(filter(None, (duration(case.duration_ms), _price(value, costs), tokens, cached, _judges(spent))))


def _price(value: JsonObject, costs: Costs) -> str:
    if not costs.cost_known:
        return ""
    source = text_of(value, "cost_source")
    said = {"target": "as the target reported it", "": ""}.get(source, f"by the price table {source}")
    return f"{dollars(costs.cost_usd)} {said}".strip() + _known(costs.cost_known, costs)


def _judges(spent: Spent) -> str:
    costs = spent.judge or Costs()
    cost = f"{dollars(costs.cost_usd)}{_known(costs.cost_known, costs)}" if costs.cost_known else ""
    figures = ", ".join(filter(None, (cost, _tokens(costs))))
    return f"judges: {figures}" if figures else ""


def _known(known: int, costs: Costs) -> str:
    return f", known for {known:,} of {costs.calls:,} calls" if known < costs.calls else ""


def _tokens(costs: Costs) -> str:
    if not costs.tokens_known:
        return ""
    return f"{costs.input:,.0f} tokens in, {costs.output:,.0f} out{_known(costs.tokens_known, costs)}"


# Splits the time of a case into parts, and puts the answers of a repeated case on a common time axis.

PARTS: Final = ("target", "tools", "waiting", "judges", "other")
"""The target without its tools; its tools; waits between the requests of a call; evaluators; set-up and calls that
failed. The page draws them by their place in this tuple."""

_LEAST_OTHER: Final = 0.05
"""The least share of the whole time for which unexplained time becomes a part of its own."""

_Part = list[Json]
"""An index of `PARTS`, and milliseconds."""


def parts_of(case: Case) -> list[_Part]:
    """Return the parts of a case's time. For a repeated case, return sums over its answers."""
    answers = mappings_of(case.result.value, "answers")
    if not answers:
        # The judgements are of one answer. The time for the other answers counts as rest.
        is_repeated = len(case.marks) > 1
        return _parts_of_time(case.result.value, () if is_repeated else case.judgements)
    sums = [0.0] * len(PARTS)
    for answer in answers:
        for part, milliseconds in _parts_of_time(answer, judgements_of(answer)):
            sums[part] += milliseconds
    return [[part, round(total, 1)] for part, total in enumerate(sums) if total]


def lanes_of(case: Case) -> list[JsonObject]:
    """Return a lane for each answer: its outcome, its parts, and its start in milliseconds after the first.

    Empty for a single answer, or if the results do not hold the answers. Starts are left out if one is unknown.
    """
    answers = mappings_of(case.result.value, "answers")
    if len(answers) < 2:
        return []
    starts = [_start(answer) for answer in answers]
    known = [start for start in starts if start is not None]
    first = min(known) if len(known) == len(answers) else None
    lanes: list[JsonObject] = []
    for answer, start in zip(answers, starts, strict=True):
        parts = _parts_of_time(answer, judgements_of(answer))
        at = {} if start is None or first is None else {"at": round((start - first).total_seconds() * 1000, 1)}
        lanes.append({"status": status_of_answer(answer), "parts": parts, **at})
    return lanes


def _start(answer: JsonObject) -> datetime | None:
    """Return when an answer started. Its timestamp says when it ended."""
    duration = number_of(answer, "duration_ms")
    if duration is None:
        return None
    try:
        end = datetime.fromisoformat(text_of(answer, "timestamp"))
        return end.replace(tzinfo=None) - timedelta(milliseconds=duration)
    except (ValueError, OverflowError):
        return None


def _parts_of_time(value: JsonObject, judgements: Sequence[Judgement]) -> list[_Part]:
    metrics = mapping_of(value, "execution_metrics")
    times = mapping_of(metrics, "tool_durations")
    tools = sum(ms for name in times for ms in list_of(times, name) if is_amount(ms))
    measured = number_of(metrics, "duration_ms")
    target = max(0.0, (measured or 0.0) - tools)
    waited = number_of(value, "waited_ms") or 0.0
    judges = sum(each.duration_ms or 0.0 for each in judgements if each.depth == 0)
    whole = number_of(value, "duration_ms") or 0.0
    if whole:
        judges = min(judges, max(0.0, whole - target - tools - waited))  # several may judge at once
    other = max(0.0, whole - target - tools - waited - judges)
    if measured is None:
        target, other = other, 0.0  # the target's time was not measured: assume the rest
    parts = (target, tools, waited, judges, other if other > _LEAST_OTHER * whole else 0.0)
    return [[part, round(milliseconds, 1)] for part, milliseconds in enumerate(parts) if milliseconds > 0]
