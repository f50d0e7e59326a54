"""Renders the text of a failed or broken case, short enough for every client.

VS Code reads results in messages of at most 4,096 bytes of ASCII JSON. A longer message breaks its stream of results.
"""

from typing import Final

from pytest_agentv.models.finish_reasons import incomplete_reason
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import explicitly_unmet, verdict_of
from pytest_agentv.models.text import format_number
from pytest_agentv.reporting.escaping import cut
from pytest_agentv.reporting.failing.calls import call_lines
from pytest_agentv.reporting.failing.evaluators import evaluator_table, findings, raw_outputs, reasoning
from pytest_agentv.reporting.failing.footer import footer
from pytest_agentv.reporting.failing.sections import TEXT_LIMIT, Look, Section, assemble, block
from pytest_agentv.reporting.figures import (
    format_score,
)

_LONG: Final = 300
_LINE: Final = 200

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


def failure_text(
    result: EvalResult,
    *,
    threshold_source: str | None,
    rerun_command: str | None,
    masker: Masker,
    question: str = "",
    reference_answer: str = "",
    limit: int | None = TEXT_LIMIT,
) -> str:
    """Return why a case failed: the decision, question and answer, the evaluators' results, and the rerun command.

    `threshold_source` is one of `EvalResult.threshold_source`. `limit` is in bytes; None: no limit.
    """
    look = Look(masker, limit)
    score_line = _score_line(result, threshold_source)
    cause = _cause(result, look)
    headline = _repeats(result) or cause or score_line
    sections = [
        Section(_repeats(result, "the first failing one"), 15),
        Section(cause if result.repeat else "", 15),
        Section(_assertion(result.assertion, headline, look), 20),
        Section(score_line if cause and not result.repeat else "", 5),
        Section(_threshold_hint(result, threshold_source), 5),
        Section(_question(question, look), 8),
        Section(_expected(result, look), 6),
        Section(_answer(result, look), 15),
        Section(_reference(result, reference_answer, look), 12),
        Section(_calls(result, look), 10),
        Section(evaluator_table(result, look), 25),
        Section(findings("Misses", result, look), 25),
        Section(raw_outputs(result, look), 12),
        Section(reasoning(result, look), 13),
        Section(findings("Hits", result, look), 10),
    ]
    return assemble(headline, sections, footer(result, rerun_command, look), limit)


def error_text(
    result: EvalResult,
    *,
    rerun_command: str | None,
    masker: Masker,
    limit: int | None = TEXT_LIMIT,
    same_as: str | None = None,
) -> str:
    """Return why a case could not be judged: stage, kind, message and the evaluators' results, within `limit` bytes.

    `same_as` names a case whose text shows the same error in full.
    """
    look = Look(masker, limit)
    detail = result.error_detail
    headline = f"{_STAGES[detail.stage]} ({detail.kind})" if detail else "The case could not be judged"
    has_answer = detail is not None and detail.stage == "evaluator"
    if same_as is not None:
        reason = (
            f"{_first_line(result.error or 'unknown error', look)}\n(the same error as {look.name(same_as, _LONG)})"
        )
        return assemble(headline, [Section(reason, 1)], footer(result, rerun_command, look), limit)
    sections = [
        Section(block("", result.error or "unknown error", look), 50),
        Section(evaluator_table(result, look), 20),
        Section(raw_outputs(result, look), 15),
        Section(_answer(result, look) if has_answer else "", 15),
    ]
    return assemble(headline, sections, footer(result, rerun_command, look), limit)


def failure_headline(result: EvalResult, masker: Masker) -> str:
    """Return on one line why a case failed: what decided it, or what its evaluators miss."""
    from pytest_agentv.reporting.failing.reasons import reason_line  # noqa: PLC0415 - only for failed cases

    decided = _repeats(result) or _cause(result, Look(masker, TEXT_LIMIT))
    return decided or reason_line(result, masker)


def one_line(result: EvalResult, masker: Masker) -> str:
    """Return the outcome of a case on a line of at most 200 characters: its score, and evaluators below 1."""
    look = Look(masker, TEXT_LIMIT)
    name = look.name(result.eval_id, 60)
    if result.status == "error":
        return look.name(f"{name}: error: {masker.mask(result.error or 'unknown')}", _LINE)
    if result.assertion is not None and result.repeat is None:
        return look.name(f"{name}: {result.status}: {masker.mask(result.assertion)}", _LINE)
    if result.status == "pass" or result.threshold is None:
        return look.name(f"{name}: {result.status}, score {format_score(result.score)}", _LINE)
    if cause := _repeats(result) or _cause(result, look):
        return look.name(f"{name}: {cause}", _LINE)
    parts = [f"{name}: score {format_score(result.score)} < {format_score(result.threshold)}"]
    for evaluator in result.evaluator_results or ():
        if evaluator.score < 1:
            why = masker.mask(", ".join(evaluator.misses) or evaluator.reasoning or "")
            parts.append(f"{evaluator.name} {format_score(evaluator.score)}" + (f": {why}" if why else ""))
    if result.evaluator_results is None:
        parts += [masker.mask(why)] if (why := ", ".join(result.misses) or result.reasoning or "") else []
    return look.name("; ".join(parts), _LINE)


def _repeats(result: EvalResult, shown: str | None = None) -> str:
    """Return how many answers of a repeated case passed, or their scores and which one is `shown`; else nothing."""
    figures = result.repeat
    if figures is None:
        return ""
    from pytest_agentv.reporting.failing.repeats import repeat_headline, scores_line  # noqa: PLC0415 - only for repeated cases

    return repeat_headline(result, figures) if shown is None else scores_line(figures, shown)


def _cause(result: EvalResult, look: Look) -> str:
    """Return what failed a case regardless of its score: a hook or required rubrics; empty if neither did."""
    if result.assertion is not None:
        return f"Assertion: {_first_line(result.assertion, look)}"
    unmet = result.unmet_required or ()
    if not unmet or result.status != "fail":
        return ""
    what = "check" if explicitly_unmet(result.evaluator_results or ()) else "rubric"
    noun = f"Required {what}" if len(unmet) == 1 else f"{len(unmet)} required {what}s"
    return look.line(f"{noun} not met: {'; '.join(unmet)}", _LONG)


def _score_line(result: EvalResult, threshold_source: str | None) -> str:
    if result.threshold is None:
        return f"Score {format_score(result.score)}"
    score, threshold = format_score(result.score), format_score(result.threshold)
    if score == threshold and result.score != result.threshold:
        score, threshold = format_number(result.score), format_number(result.threshold)
    is_below = result.status == "fail" and result.assertion is None and result.score < result.threshold
    relation = " is below the threshold" if is_below else ", threshold"
    source = _THRESHOLD_SOURCES.get(threshold_source or "")
    return f"Score {score}{relation} {threshold}" + (f" ({source})" if source else "")


def _threshold_hint(result: EvalResult, threshold_source: str | None) -> str:
    """Return what to write where all rows say `pass`, the case too would, and only the default threshold fails it."""
    verdicts = {verdict_of(result.score), *(each.verdict for each in result.evaluator_results or ())}
    if threshold_source != "default" or result.score >= (result.threshold or 0) or verdicts != {"pass"}:
        return ""
    return (
        "An evaluator says `pass` from 0.8 on, but a case needs 1.0 by default: if 0.8 is enough, "
        "write `threshold: 0.8` in the case or at the top of its file."
    )


def _first_line(text: str, look: Look) -> str:
    return cut(look.all_of(text).strip().partition("\n")[0], _LONG)


def _assertion(reason: str | None, headline: str, look: Look) -> str:
    """Return the whole reason if the headline has cut it."""
    return "" if reason is None or headline.endswith(f" {look.all_of(reason)}") else block("", reason, look)


def _answer(result: EvalResult, look: Look) -> str:
    answer = result.candidate_answer
    reason = incomplete_reason(result.finish_reason)
    note = f"; {reason}" if reason else ""
    title = f"Answer ({len(answer):,} characters{note}):" if answer.strip() else "The answer is empty."
    return block(title, answer, look) or title


def _question(question: str, look: Look) -> str:
    """Return the question, shortened with a note unless it is wanted in full."""
    if look.limit is None or len(question) <= _LONG:
        return block("Question:", question, look)
    return block(f"Question (the first {_LONG} of {len(question):,} characters):", _head(question, look), look)


def _head(text: str, look: Look) -> str:
    """Return the head of a text, masked before it is cut."""
    return f"{look.masker.mask(text)[:_LONG].rstrip()}..."


def _expected(result: EvalResult, look: Look) -> str:
    return block("Expected outcome:", result.expected_outcome or "", look)


def _reference(result: EvalResult, reference: str, look: Look) -> str:
    """Return the differences between answer and reference, word by word, or the reference if a diff does not help."""
    from pytest_agentv.reporting.failing.diffs import alike, word_diff  # noqa: PLC0415 - only for cases with a reference

    texts = alike(look.masker.mask(reference), look.masker.mask(result.candidate_answer))
    if reference and (diff := word_diff(*texts)):
        return block("Reference against answer ([-not in the answer-] {+only in the answer+}):", diff, look)
    return block(f"Reference answer ({len(reference):,} characters):", reference, look)


def _calls(result: EvalResult, look: Look) -> str:
    """Return the tool calls with their inputs and outputs, if the result holds them."""
    lines = [look.line(line, _LINE) for line in call_lines(result.output_messages or (), look.masker)]
    return "\n  ".join(["Tool calls:", *lines]) if lines else ""
