"""What an opened case shows."""

import base64
import binascii
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from pytest_agentv.model.base import Json, JsonObject, counted, is_amount
from pytest_agentv.model.messages import Costs, Message
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.failure import Start, command_of
from pytest_agentv.reports.figures import content_text, duration_of, known_for, place_of, question_of, spent_of
from pytest_agentv.reports.html.cases import Case, Judgement, dollars, duration, judgements_of
from pytest_agentv.reports.judged_cases import JudgedCase
from pytest_agentv.store.writers import Image, named_in, without_images

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
        return "Run it in pytest's root folder. Add what else the run was given, such as --agentv-targets-file."

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
    combination = case.result.combination
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


def detail_of(case: Case, history: Sequence[JsonObject], gallery: Gallery, commands: Commands) -> JsonObject:
    """Return the plain data of a case, with long texts cut and the bytes of images replaced."""
    result = case.result
    text, images = gallery.take_out_of_text(_answer_text(result))
    keeps_answers = case.status != "pass" or case.is_flaky  # if all of them pass, the first one is enough
    answers = [_answer(answer, gallery) for answer in case.answers] if keeps_answers else []
    raw = (result if keeps_answers else result.replace(answers=None)).to_plain()
    detail: dict[str, Json] = {
        "question": gallery.take_out_of_text(question_of(result))[0],
        "expected": result.expected_outcome,
        "reference": result.reference_answer,
        "text": text,
        "images": images,
        "answers": answers,
        "shown": next((n for n, answer in enumerate(answers) if answer["status"] != "pass"), 0),
        "evaluators": list(map(_judgement, case.judgements)),
        "why": _why(case),
        "place": place_of(result) if result.eval_file else case.file,
        "files": list(_files(result)),
        "prompt": list(_prompt(result)),
        "messages": [_message(message, gallery) for message in result.output_messages or ()],
        "context": result.retrieved_context,
        "changes": result.file_changes,
        "time": parts_of(case),
        "lanes": lanes_of(case),
        "cost": cost_line(result),
        "attempts": _attempts(result),
        "rerun": (command := commands.of(case)),
        "rerun_in": commands.where if command else "",
        "baseline": _baseline(case),
        "history": history,
        "raw": without_images(raw, _unseen),
    }
    bounded: JsonObject = _bounded({key: item for key, item in detail.items() if item not in (None, "", [])})
    return bounded


def _answer_text(result: EvalResult) -> str:
    return "" if result.status == "error" and not result.finish_reason else result.candidate_answer


def _answer(answer: JudgedCase, gallery: Gallery) -> JsonObject:
    result = _result_of(answer)
    text, images = gallery.take_out_of_text(result.candidate_answer)
    return {
        "text": text,
        **({"images": images} if images else {}),
        "score": result.score,
        "status": answer.status,
        "evaluators": list(map(_judgement, judgements_of(result))),
        "messages": [_message(message, gallery) for message in result.output_messages or ()],
    }


def _result_of(answer: JudgedCase) -> EvalResult:
    assert answer.result is not None
    return answer.result


def _judgement(judgement: Judgement) -> JsonObject:
    result = judgement.result
    known = {
        "weight": result.weight,
        "hits": result.hits,
        "misses": result.misses,
        "reasoning": result.reasoning,
        "model": result.judge_model,
        "error": result.error,
        "duration_ms": result.duration_ms,
        "depth": judgement.depth,
    }
    named = {"name": result.name, "type": result.type, "score": judgement.score}
    return named | {key: item for key, item in known.items() if item not in (None, "", (), 0)}


def _why(case: Case) -> str:
    result, judged = case.result, case.judged
    answers = counted(judged.judged, "answer")
    parts = []
    if case.status == "scored":
        parts.append(f"score {case.score:.2f}{f' of {answers}' if result.repeat else ''}, no threshold is known")
    elif result.repeat is not None and case.status != "error":
        parts.append(f"{judged.passes} of {answers} pass, {result.repeat.needed} needed")
    elif case.status != "error" and judged.threshold is not None:
        parts.append(f"score {case.score:.2f}, threshold {judged.threshold:g}")
    detail = result.error_detail
    if case.status == "error":
        where = f" ({detail.stage}, {detail.kind})" if detail else ""
        parts.append(f"{result.error or 'it could not be judged'}{where}")
    elif case.why:
        parts.append(case.why)
    return ". ".join(parts)


def _files(result: EvalResult) -> Iterator[str]:
    """Yield the guidelines of the request, the log of the call, and the folder that it left."""
    requests = (result.lm_provider_request, result.agent_provider_request)
    paths = [path for request in requests for path in _list(request, "guideline_paths") if isinstance(path, str)]
    yield from dict.fromkeys(paths)
    if result.log_file:
        yield result.log_file
    if kept := (result.workspace or {}).get("kept"):
        yield str(kept)


def _prompt(result: EvalResult) -> Iterator[JsonObject]:
    """Yield the messages before the question."""
    request = result.lm_provider_request
    messages = [message for message in _list(request, "chat_prompt") if isinstance(message, Mapping)]
    if messages:
        end = -1 if messages[-1].get("role") == "user" else None
        for message in messages[:end]:
            yield {"role": str(message.get("role") or ""), "content": content_text(message.get("content"))}
    elif isinstance(guidelines := (request or {}).get("guidelines"), str) and guidelines:
        yield {"role": "guidelines", "content": guidelines}


def _list(value: JsonObject | None, key: str) -> Sequence[Json]:
    found = (value or {}).get(key)
    return found if isinstance(found, list | tuple) else ()


def _message(message: Message, gallery: Gallery) -> JsonObject:
    plain = message.to_plain()
    content, images = gallery.take_out(plain.get("content"))
    calls: list[JsonObject] = []
    for call in plain.get("tool_calls") or ():
        output, outputs = gallery.take_out(call.get("output"))
        said = {"tool": call["tool"], "input": call.get("input"), "output": output, "ms": call.get("duration_ms")}
        calls.append(said | ({"images": outputs} if outputs else {}))
    shown = {"role": message.role, "content": content_text(content), "calls": calls}
    return shown | ({"images": images} if images else {})


def _attempts(result: EvalResult) -> str:
    parts = [f"{result.attempts} calls of the target"] if result.attempts > 1 else []
    if result.request_attempts:
        parts.append(counted(result.request_attempts, "request"))
    if result.waited_ms:
        parts.append(f"waited {duration(result.waited_ms)}")
    if result.last_error:
        parts.append(f"last error: {result.last_error}")
    if result.judge_retries:
        parts.append(f"judges asked again {counted(result.judge_retries, 'time')}")
    return ", ".join(parts)


_TITLES: Final = {
    "broken": "Broken",
    "worse": "Worse",
    "better": "Better",
    "same": "As before",
    "new": "New case",
    "changed": "Case changed",
    "error": "Not compared",
}


def _baseline(case: Case) -> JsonObject | None:
    change = case.change
    if change is None:
        return None
    text = named_in(_answer_text(change.before), _unseen) if change.before is not None else ""
    return {"word": change.word, "title": _TITLES[change.word], "say": change.text, "text": text}


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


def cost_line(result: EvalResult) -> str:
    """Return the model and the figures of a case. A figure that covers only some answers or calls says how many."""
    spent = spent_of(result)
    costs, judge = spent.answer, spent.judge or Costs()
    source = {"target": " as the target reported it", None: ""}.get(result.cost_source)
    price = f" by the price table {result.cost_source}" if source is None else source
    judges = ", ".join(filter(None, (_dollars(judge), _tokens(judge))))
    parts = (
        result.model,
        duration(duration_of(result)),
        _dollars(costs, price),
        _tokens(costs),
        "answer from the cache" if result.cached else "",
        f"judges: {judges}" if judges else "",
    )
    return " · ".join(filter(None, parts))


def _dollars(costs: Costs, source: str = "") -> str:
    return f"{dollars(costs.cost_usd)}{source}{_part(costs.cost_known, costs)}" if costs.cost_known else ""


def _tokens(costs: Costs) -> str:
    if not costs.tokens_known:
        return ""
    return f"{costs.input:,.0f} tokens in, {costs.output:,.0f} out{_part(costs.tokens_known, costs)}"


def _part(known: int, costs: Costs) -> str:
    part = known_for(known, costs)
    return f", known for {part}" if part else ""


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
    if not case.answers:
        # The judgements are of one answer. The time for the other answers counts as rest.
        return _parts_of_time(case.result, () if len(case.marks) > 1 else case.judgements)
    sums = [0.0] * len(PARTS)
    for answer in map(_result_of, case.answers):
        for part, milliseconds in _parts_of_time(answer, judgements_of(answer)):
            sums[part] += milliseconds
    return [[part, round(total, 1)] for part, total in enumerate(sums) if total]


def lanes_of(case: Case) -> list[JsonObject]:
    """Return a lane for each answer: its outcome, its parts, and its start in milliseconds after the first.

    Empty for a single answer, or if the results do not hold the answers. Starts are left out if one is unknown.
    """
    if len(case.answers) < 2:
        return []
    results = list(map(_result_of, case.answers))
    starts = list(map(_start, results))
    known = [start for start in starts if start is not None]
    first = min(known) if len(known) == len(starts) else None
    lanes: list[JsonObject] = []
    for answer, result, start in zip(case.answers, results, starts, strict=True):
        at = {} if start is None or first is None else {"at": round((start - first).total_seconds() * 1000, 1)}
        lanes.append({"status": answer.status, "parts": _parts_of_time(result, judgements_of(result)), **at})
    return lanes


def _start(answer: EvalResult) -> datetime | None:
    """Return when an answer started. Its timestamp says when it ended."""
    if not is_amount(answer.duration_ms):
        return None
    try:
        end = datetime.fromisoformat(answer.timestamp)
        return end.replace(tzinfo=None) - timedelta(milliseconds=answer.duration_ms)
    except (ValueError, OverflowError):
        return None


def _parts_of_time(result: EvalResult, judgements: Sequence[Judgement]) -> list[_Part]:
    metrics = result.execution_metrics
    times = metrics.tool_durations if metrics and metrics.tool_durations else {}
    tools = sum(ms for calls in times.values() for ms in calls if is_amount(ms))
    measured = metrics.duration_ms if metrics and is_amount(metrics.duration_ms) else None
    target = max(0.0, (measured or 0.0) - tools)
    waited = result.waited_ms if is_amount(result.waited_ms) else 0.0
    judges = sum(ms for each in judgements if each.depth == 0 and is_amount(ms := each.result.duration_ms))
    whole = result.duration_ms if is_amount(result.duration_ms) else 0.0
    if whole:
        judges = min(judges, max(0.0, whole - target - tools - waited))  # several may judge at once
    other = max(0.0, whole - target - tools - waited - judges)
    if measured is None:
        target, other = other, 0.0  # the target's time was not measured: assume the rest
    parts = (target, tools, waited, judges, other if other > _LEAST_OTHER * whole else 0.0)
    return [[part, round(milliseconds, 1)] for part, milliseconds in enumerate(parts) if milliseconds > 0]
