"""The text of a failed or broken case, short enough for every client.

VS Code reads results in messages of at most 4,096 bytes of ASCII JSON; a longer one breaks its stream of results.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import EvaluatorResult
from pytest_agentv.models.secrets import Masker
from pytest_agentv.models.text import format_number
from pytest_agentv.reporting.escaping import cut, escaped_size, shown
from pytest_agentv.reporting.figures import (
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    tokens_of,
)

TEXT_LIMIT: Final = 3_000
"""Bytes of a text as a string of ASCII JSON, its quotes included."""

_SHORT: Final = 100
_SEPARATOR: Final = "\n\n"

_THRESHOLD_SOURCES: Final = {
    "command line": "from --agentv-threshold",
    "case": "written in the case",
    "file": "written in the eval file",
    "ini": "agentv_threshold of the ini file",
    "default": "the default",
}

_STAGES: Final = {
    "setup": "The case could not be set up",
    "provider": "The target gave no answer",
    "evaluator": "The answer could not be judged",
}


@dataclass(frozen=True, slots=True)
class _Section(Record):
    """A part of the text that may be cut."""

    text: str
    weight: int
    """What it gets of the room, in relation to the others, where there is not enough for all."""


def failure_text(result: EvalResult, *, threshold_source: str | None, rerun_command: str | None, masker: Masker) -> str:
    """Return why a case failed: score and threshold, evaluators, misses, hits, the answer's head, how to rerun it.

    `threshold_source` is one of `EvalResult.threshold_source`. The text is no longer than `TEXT_LIMIT`.
    """
    sections = [
        _Section(_evaluator_table(result, masker), 25),
        _Section(_bullets("Misses", result.misses, masker), 25),
        _Section(_raw_outputs(result, masker), 12),
        _Section(_bullets("Hits", result.hits, masker), 10),
        _Section(_block("Reasoning:", result.reasoning or "", masker), 13),
        _Section(_answer(result, masker), 15),
    ]
    return _assemble(_score_line(result, threshold_source), sections, _footer(result, rerun_command, masker))


def error_text(result: EvalResult, *, rerun_command: str | None, masker: Masker) -> str:
    """Return why a case could not be judged: stage, kind and message, what evaluators said. At most `TEXT_LIMIT`."""
    detail = result.error_detail
    headline = f"{_STAGES[detail.stage]} ({detail.kind})" if detail else "The case could not be judged"
    has_answer = detail is not None and detail.stage == "evaluator"
    sections = [
        _Section(_block("", result.error or "unknown error", masker), 50),
        _Section(_evaluator_table(result, masker), 20),
        _Section(_raw_outputs(result, masker), 15),
        _Section(_answer(result, masker) if has_answer else "", 15),
    ]
    return _assemble(headline, sections, _footer(result, rerun_command, masker))


def _score_line(result: EvalResult, threshold_source: str | None) -> str:
    if result.threshold is None:
        return f"Score {format_score(result.score)}"
    score, threshold = format_score(result.score), format_score(result.threshold)
    if score == threshold and result.score != result.threshold:
        score, threshold = format_number(result.score), format_number(result.threshold)
    relation = " is below the threshold" if result.status == "fail" else ", threshold"
    source = _THRESHOLD_SOURCES.get(threshold_source or "")
    return f"Score {score}{relation} {threshold}" + (f" ({source})" if source else "")


def _evaluator_table(result: EvalResult, masker: Masker) -> str:
    rows = [("Evaluator", "Type", "Score", "Weight", "Verdict"), *_rows(result.evaluator_results or (), masker)]
    if len(rows) == 1:
        return ""
    name_width, type_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(
        f"{name:<{name_width}}  {kind:<{type_width}}  {score:>5}  {weight:>6}  {verdict}"
        for name, kind, score, weight, verdict in rows
    )


def _rows(
    results: Sequence[EvaluatorResult], masker: Masker, depth: int = 0
) -> Iterator[tuple[str, str, str, str, str]]:
    for result in results:
        yield (
            "  " * depth + _one_line(result.name, masker, 28),
            _one_line(result.type, masker, 18),
            format_score(result.score),
            "-" if result.weight is None else format_number(result.weight),
            "error" if result.error else result.verdict,
        )
        yield from _rows(result.evaluator_results or (), masker, depth + 1)


def _raw_outputs(result: EvalResult, masker: Masker) -> str:
    """What judges printed or replied where it could not be read: the way to find out why they count as 0."""
    blocks = [
        _block(f"Unreadable reply of {_one_line(evaluator.name, masker, 28)}:", evaluator.raw_output, masker)
        for evaluator in result.evaluator_results or ()
        if evaluator.raw_output
    ]
    return "\n".join(blocks)


def _bullets(title: str, items: Sequence[str], masker: Masker) -> str:
    lines = [f"  - {_indent(_head(item, masker), '    ')}" for item in items]
    return "\n".join([f"{title} ({len(items)}):", *lines]) if items else ""


def _answer(result: EvalResult, masker: Masker) -> str:
    answer = result.candidate_answer
    title = f"Answer ({len(answer):,} characters):" if answer.strip() else "The answer is empty."
    return _block(title, answer, masker) or title


def _block(title: str, text: str, masker: Masker) -> str:
    head = _head(text, masker)
    if not head.strip():
        return ""
    return f"{title}\n  {_indent(head, '  ')}" if title else head


def _footer(result: EvalResult, rerun_command: str | None, masker: Masker) -> str:
    lines = [f"Target: {cut(', '.join(_target_facts(result, masker)), 300)}"]
    if result.eval_file:
        place = f"{result.eval_file}:{result.line}" if result.line else result.eval_file
        lines.append(f"Case:   {cut(shown(place, masker), 300)}")
    if rerun_command:
        lines.append(f"Rerun:  {cut(shown(rerun_command, masker), 600)}")
    return "\n".join(lines)


def _target_facts(result: EvalResult, masker: Masker) -> Iterator[str]:
    yield _one_line(result.target, masker, _SHORT)
    if result.attempts:
        yield f"{result.attempts} {'attempt' if result.attempts == 1 else 'attempts'}"
    if (duration := duration_of(result)) is not None:
        yield format_duration(duration)
    if (cost := cost_of(result)) is not None:
        yield format_cost(cost)
    if (usage := tokens_of(result)) is not None:
        yield f"tokens: {format_tokens(usage)}"
    if result.cached:
        yield "answer from the cache"


def _head(text: str, masker: Masker) -> str:
    """Return as much of a text as could ever be shown, without secrets; answers may be megabytes long."""
    return cut(shown(text, masker), TEXT_LIMIT)


def _one_line(text: str, masker: Masker, length: int) -> str:
    line = " ".join(shown(text, masker).split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


def _indent(text: str, spaces: str) -> str:
    return text.replace("\n", f"\n{spaces}")


def _assemble(headline: str, sections: Sequence[_Section], footer: str) -> str:
    """Join the parts, the sections cut to the room that is left; what one does not need goes to the first that does."""
    present = [section for section in sections if section.text]
    room = TEXT_LIMIT - 2 - escaped_size(headline + footer) - escaped_size(_SEPARATOR) * (len(present) + 1)
    needs = [escaped_size(section.text) for section in present]
    total = sum(section.weight for section in present)
    sizes = [min(need, room * section.weight // total) for need, section in zip(needs, present, strict=True)]
    spare = room - sum(sizes)
    for index, need in enumerate(needs):
        extra = min(spare, need - sizes[index])
        sizes[index] += extra
        spare -= extra
    texts = [_fit(section.text, size) for section, size in zip(present, sizes, strict=True)]
    return _SEPARATOR.join([headline, *texts, footer])


def _fit(text: str, size: int) -> str:
    """Cut a text to a size, at the end of a line where one is near: rows of tables are not cut in two."""
    fitted = cut(text, size)
    if fitted == text:
        return text
    last_line = fitted.rfind("\n")
    is_near = last_line >= 0 and escaped_size(fitted[last_line:]) <= _SHORT
    return f"{fitted[:last_line]}\n..." if is_near else fitted
