"""Collects the details of an opened case."""

from collections.abc import Mapping, Sequence
from typing import Final

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.text import counted, pretty_json
from pytest_agentv.reporting.conversations.images import Image, image_of, named_in, without_images
from pytest_agentv.reporting.html.cases import SCORED, Case, status_of_answer
from pytest_agentv.reporting.html.history import Past
from pytest_agentv.reporting.html.judgements import Judgement, judgements_of
from pytest_agentv.reporting.html.opened.commands import Commands
from pytest_agentv.reporting.html.opened.costs import cost_line
from pytest_agentv.reporting.html.opened.gallery import Gallery
from pytest_agentv.reporting.html.opened.timing import lanes_of, parts_of
from pytest_agentv.reporting.html.texts import duration
from pytest_agentv.reporting.html.values import mapping_of, mappings_of, number_of, text_of, texts_of

LONGEST_TEXT: Final = 20_000
"""Characters; longer texts are cut, so that no single answer makes the file large."""

_REQUESTS: Final = ("lm_provider_request", "agent_provider_request")


def detail_of(case: Case, history: Sequence[Past], gallery: Gallery, commands: Commands) -> JsonObject:
    """Return the plain data of a case, with long texts cut and the bytes of images replaced."""
    value = case.result.value
    text, images = gallery.take_out_of_text(_answer_text(value))
    answers = _answers(case, gallery)
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
        "files": _files(value),
        "prompt": _prompt(value),
        "messages": [_message(message, gallery) for message in mappings_of(value, "output_messages")],
        "context": texts_of(value, "retrieved_context"),
        "time": parts_of(case),
        "lanes": lanes_of(case),
        "cost": cost_line(case),
        "attempts": _attempts(value),
        "rerun": (command := commands.of(case)),
        "rerun_in": commands.where if command else "",
        "baseline": _baseline(case),
        "history": [past.to_plain() for past in history],
        "raw": without_images(_raw(case), _unseen),
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


def _answer_text(value: JsonObject) -> str:
    return (
        "" if value.get("status") == "error" and not value.get("finish_reason") else text_of(value, "candidate_answer")
    )


def _answers(case: Case, gallery: Gallery) -> list[JsonObject]:
    """Return all answers in the record. If all of them pass, the first one is enough."""
    if case.status == "pass" and not case.is_flaky:
        return []
    return [_answer(answer, gallery) for answer in mappings_of(case.result.value, "answers")]


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


def _message(message: JsonObject, gallery: Gallery) -> JsonObject:
    content, images = gallery.take_out(message.get("content"))
    calls = [_call(call, gallery) for call in mappings_of(message, "tool_calls")]
    shown = {"role": text_of(message, "role"), "content": _text(content), "calls": calls}
    return shown | ({"images": images} if images else {})


def _call(call: JsonObject, gallery: Gallery) -> JsonObject:
    output, images = gallery.take_out(call.get("output"))
    shown = {"tool": text_of(call, "tool"), "input": call.get("input"), "output": output}
    shown["ms"] = number_of(call, "duration_ms")
    return shown | ({"images": images} if images else {})


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


def _files(value: JsonObject) -> list[str]:
    files = [path for key in _REQUESTS for path in texts_of(mapping_of(value, key), "guideline_paths")]
    return [*dict.fromkeys(files), *([text_of(value, "log_file")] if text_of(value, "log_file") else [])]


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


def _raw(case: Case) -> JsonObject:
    keeps_answers = case.status != "pass" or case.is_flaky
    return {key: item for key, item in case.result.value.items() if key != "answers" or keeps_answers}


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
