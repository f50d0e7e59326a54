"""Renders the text of a failed or broken case, short enough for every client."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.model.base import (
    ABSENT,
    Json,
    Record,
    compact_json,
    counted,
    format_fixed,
    format_number,
)
from pytest_agentv.model.messages import Message, candidate_answer, incomplete_reason
from pytest_agentv.model.results import (
    NOTHING_COUNTS,
    PASS_SCORE,
    EvalResult,
    EvaluatorResult,
    explicitly_unmet,
)
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import (
    columns,
    cut,
    duration_of,
    escaped_size,
    evaluators_of,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    known_part,
    on_one_line,
    padded,
    place_of,
    shortened,
    shown,
    spent_of,
    turn_of,
    visible,
)

# Explains on one line why a case failed: the reason first, the numbers last.

_MOST_MISSES: Final = 3
_LONGEST_MISS: Final = 80
_LONGEST_NAME: Final = 28
_LONGEST_LINE: Final = 300
_MISSING: Final = "missing: "


def reason_line(result: EvalResult, masker: Masker) -> str:
    """Return `facts: missing "30 days"; tone: too curt (0.50 < 0.80)`, at most 300 characters.

    Only for a case that its score decided. Hooks, required checks and repeated answers have texts of their own.
    """
    arithmetic = _arithmetic(result)
    if result.evaluator_results:
        # Those that lowered the score: with a weight, and a score below the threshold.
        counted = [each for each in result.evaluator_results if each.weight != 0 and each.score < 1]
        weak = [each for each in counted if each.score < (result.threshold or 1)] or counted
        parts = [f"{on_one_line(visible(each.name), _LONGEST_NAME)}: {_reason(each, masker)}" for each in weak]
    else:
        parts = [_said(result.misses, result.reasoning, masker)]
    reason = "; ".join(filter(None, parts)) or (NOTHING_COUNTS if _counts_nothing(result) else "the score is too low")
    return f"{on_one_line(reason, _LONGEST_LINE - len(arithmetic))}{arithmetic}"


def _reason(result: EvaluatorResult, masker: Masker) -> str:
    if result.type == "composite" and result.evaluator_results and not result.misses:
        members = [each for each in result.evaluator_results if each.score < 1]
        said = (f"{on_one_line(visible(each.name), _LONGEST_NAME)} {_reason(each, masker)}" for each in members)
        return ", ".join(said) or (NOTHING_COUNTS if _counts_nothing(result) else format_fixed(result.score, 2))
    words: Sequence[str] = result.misses
    if result.type == "heuristic":  # keywords: missing, or present and forbidden
        words = [
            f'missing "{miss.removeprefix(_MISSING)}"' if miss.startswith(_MISSING) else f'has "{miss}"'
            for miss in words
        ]
    return _said(words, result.reasoning, masker) or format_fixed(result.score, 2)


def _counts_nothing(result: EvalResult | EvaluatorResult) -> bool:
    parts = result.evaluator_results or ()
    return bool(parts) and all(each.weight == 0 for each in parts)


def _said(misses: Sequence[str], reasoning: str | None, masker: Masker) -> str:
    """Return the first misses or, without any, the first sentence of the reasoning."""
    if misses:
        more = [f"and {len(misses) - _MOST_MISSES} more"] if len(misses) > _MOST_MISSES else []
        first = (on_one_line(shown(miss, masker), _LONGEST_MISS) for miss in misses[:_MOST_MISSES])
        return ", ".join([*first, *more])
    sentence = shown(reasoning or "", masker).strip().partition("\n")[0].partition(". ")[0]
    return on_one_line(sentence, 2 * _LONGEST_MISS).removesuffix(".")


def _arithmetic(result: EvalResult) -> str:
    if result.threshold is None or result.score >= result.threshold:
        return ""
    score, threshold = _told_apart(result.score, result.threshold, 2)
    return f" ({score} < {threshold})"


def _told_apart(score: float, threshold: float, digits: int) -> tuple[str, str]:
    """Return both numbers with so many digits, or with all of them if they would look the same."""
    texts = format_fixed(score, digits), format_fixed(threshold, digits)
    return (format_number(score), format_number(threshold)) if texts[0] == texts[1] and score != threshold else texts


# Describes the answers of a repeated case in words.

_SOURCES: Final[Mapping[str, str]] = {
    "command line": " of the command line",
    "case": " of the case",
    "file": " of the file",
    "ini": " of the ini file",
    "default": ", the default",
}


def _repeats(result: EvalResult) -> str:
    """Return `3 of 5 answers pass, 4 are needed (threshold 0.8, min_pass_rate 0.8 of the file)`; else nothing."""
    figures = result.repeat
    if figures is None:
        return ""
    verb = "answer passes" if figures.judged == figures.passes == 1 else "answers pass"
    of = "" if figures.judged == figures.planned else f" of {figures.planned}"
    errors = f", {figures.errors} could not be had" if figures.errors else ""
    needed = f"{figures.needed}{of} {'is' if figures.needed == 1 else 'are'} needed{errors}"
    threshold = "" if result.threshold is None else f"threshold {format_number(result.threshold)}, "
    rate = f"min_pass_rate {format_number(figures.min_pass_rate)}{_SOURCES.get(figures.min_pass_rate_source, '')}"
    return f"{figures.passes} of {figures.judged} {verb}, {needed} ({threshold}{rate})"


TEXT_LIMIT: Final = 3_000
"""In bytes of the text as an ASCII JSON string, quotes included. VS Code reads results in messages of at most 4,096
such bytes: a longer one breaks its stream of results.
"""

_NEAR: Final = 100
_SEPARATOR: Final = "\n\n"
_SHORT: Final = 100
_LONG: Final = 300
_LINE: Final = 200
_MOST_CALLS: Final = 20
_MOST_MESSAGES: Final = 6
"""Of a conversation."""
_LONGEST_VALUE: Final = 60

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


_Section: TypeAlias = tuple[str, int]
"""A part of the text that may be cut, and its share of the space relative to the others, if they do not all fit."""


@dataclass(frozen=True, slots=True)
class Look:
    """How texts are shown: masked, and cut to the longest possible length."""

    masker: Masker
    limit: int | None
    """In bytes, like `TEXT_LIMIT`; None: no limit."""

    def all_of(self, text: str) -> str:
        return shown(text, self.masker)

    def head(self, text: str) -> str:
        """Return as much of a text as could be shown. Answers can be megabytes long."""
        return self.all_of(text) if self.limit is None else cut(self.all_of(text), self.limit)

    def line(self, text: str, length: int) -> str:
        """Return a text on one line, cut to a number of characters."""
        return self.name(self.masker.mask(text), length)

    def name(self, text: str, length: int) -> str:
        """Return the name of a case, target, evaluator or tool on one line. Names are never masked."""
        return on_one_line(visible(text), length)


def failure_text(
    result: EvalResult,
    *,
    rerun_command: str | None,
    masker: Masker,
    question: str = "",
    reference_answer: str = "",
    limit: int | None = TEXT_LIMIT,
) -> str:
    """Return why a case failed: the decision, question and answer, the evaluators' results, and the rerun command.

    `limit` is in bytes; None: no limit.
    """
    look = Look(masker, limit)
    score_line = _score_line(result)
    cause = _cause(result, look)
    headline = _repeats(result) or cause or score_line
    assertion = result.assertion or ""
    is_cut = not headline.endswith(f" {look.all_of(assertion)}")
    calls = [look.line(line, _LINE) for line in call_lines(result.output_messages or (), look.masker)]
    sections = [
        (_scores(result), 15),
        (cause if result.repeat else "", 15),
        (block("", assertion, look) if is_cut else "", 20),
        (score_line if cause and not result.repeat else "", 5),
        (_threshold_hint(result), 5),
        (_conversation(result, look) or _question(question, look), 8),
        (block("Criteria:", result.expected_outcome or "", look), 6),
        (_answer(result, look), 15),
        (block("Changed files:", result.file_changes or "", look), 12),
        (_reference(result, reference_answer, look), 12),
        ("\n  ".join(["Tool calls:", *calls]) if calls else "", 10),
        (evaluator_table(result, look), 25),
        (findings("Misses", result, look), 25),
        (raw_outputs(result, look), 12),
        (reasoning(result, look), 13),
        (findings("Hits", result, look), 10),
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
    detail, error = result.error_detail, result.error or "unknown error"
    headline = f"{_STAGES[detail.stage]} ({detail.kind})" if detail else "The case could not be judged"
    if detail is not None and detail.kind == "user_at_fault":
        headline = "The simulated user spoilt the conversation (user_at_fault)"
    has_answer = detail is not None and detail.stage == "evaluator"
    if same_as is not None:
        reason = f"{_first_line(error, look)}\n(the same error as {look.name(same_as, _LONG)})"
        return assemble(headline, [(reason, 1)], footer(result, rerun_command, look), limit)
    sections = [
        (block("", error, look), 50),
        (_conversation(result, look), 15),
        (evaluator_table(result, look), 20),
        (raw_outputs(result, look), 15),
        (_answer(result, look) if has_answer else "", 15),
    ]
    return assemble(headline, sections, footer(result, rerun_command, look), limit)


def failure_headline(result: EvalResult, masker: Masker) -> str:
    """Return on one line why a case failed: what decided it, or what its evaluators miss."""
    decided = _repeats(result) or _cause(result, Look(masker, TEXT_LIMIT))
    return decided or reason_line(result, masker)


def one_line(result: EvalResult, masker: Masker) -> str:
    """Return the outcome of a case on a line of at most 200 characters, and why it did not pass."""
    look = Look(masker, TEXT_LIMIT)
    if result.status == "fail" and result.threshold is not None:
        said = failure_headline(result, masker)
    else:
        why = result.error if result.status == "error" else result.assertion
        said = f"{result.status}{f': {masker.mask(why)}' if why else f', score {format_score(result.score)}'}"
    return look.name(f"{look.name(result.eval_id, 60)}: {said}", _LINE)


def _scores(result: EvalResult) -> str:
    """Return the scores of all answers, and which answer the rest of the text is about."""
    if result.repeat is None:
        return ""
    scores = ", ".join(map(format_score, result.repeat.scores))
    return f"Scores of the answers: {scores}. What follows is about the first failing one."


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


def _first_line(text: str, look: Look) -> str:
    return cut(look.all_of(text).strip().partition("\n")[0], _LONG)


def _score_line(result: EvalResult) -> str:
    if result.threshold is None:
        return f"Score {format_score(result.score)}"
    score, threshold = _told_apart(result.score, result.threshold, 3)
    is_below = result.status == "fail" and result.assertion is None and result.score < result.threshold
    relation = " is below the threshold" if is_below else ", threshold"
    source = _THRESHOLD_SOURCES.get(result.threshold_source or "")
    return f"Score {score}{relation} {threshold}" + (f" ({source})" if source else "")


def _threshold_hint(result: EvalResult) -> str:
    """Return what to write where each score is 0.8 or more, and only the default threshold fails the case."""
    scores = (result.score, *(each.score for each in result.evaluator_results or ()))
    if result.threshold_source != "default" or result.score >= (result.threshold or 0) or min(scores) < PASS_SCORE:
        return ""
    return (
        "A case needs 1.0 by default: if 0.8 is enough, write `threshold: 0.8` in the case or at the top of its file."
    )


def _question(question: str, look: Look) -> str:
    """Return the question, shortened with a note unless it is wanted in full."""
    if look.limit is None or len(question) <= _LONG:
        return block("Question:", question, look)
    head = f"{look.masker.mask(question)[:_LONG].rstrip()}..."  # masked before it is cut
    return block(f"Question (the first {_LONG} of {len(question):,} characters):", head, look)


def _conversation(result: EvalResult, look: Look) -> str:
    """Return the last messages of a conversation, up to the failing turn."""
    figures, messages = result.conversation, result.output_messages or ()
    if figures is None or not messages:
        return ""
    last = figures.turns + (figures.stopped == "error")
    turn = min(turn_of(result) or last, last)
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    end = starts[turn] if turn < len(starts) else len(messages)
    said = [(each.role.capitalize(), candidate_answer([each.replace(role="assistant")])) for each in messages[:end]]
    lines = [look.line(f"{role}: {text}", _LINE) for role, text in said if text][-_MOST_MESSAGES:]
    reached = f"; {figures.stopped} is reached" if figures.stopped in ("max_turns", "max_cost_usd") else ""
    ended = "; on_turn_failure is stop" if figures.stopped == "failure" else reached
    return "\n  ".join([f"Conversation up to turn {turn} of {last}{ended}:", *lines])


def _answer(result: EvalResult, look: Look) -> str:
    answer = result.candidate_answer
    reason = incomplete_reason(result.finish_reason)
    note = f"; {reason}" if reason else ""
    title = f"Answer ({len(answer):,} characters{note}):" if answer.strip() else "The answer is empty."
    return block(title, answer, look) or title


def _reference(result: EvalResult, reference: str, look: Look) -> str:
    """Return the differences between answer and reference, word by word, or the reference if a diff does not help."""
    texts = alike(look.masker.mask(reference), look.masker.mask(result.candidate_answer))
    if reference and (diff := word_diff(*texts)):
        return block("Reference against answer ([-not in the answer-] {+only in the answer+}):", diff, look)
    return block(f"Reference answer ({len(reference):,} characters):", reference, look)


def assemble(headline: str, sections: Sequence[_Section], footer: str, limit: int | None) -> str:
    """Join the parts and cut the sections to the limit. Unused space goes to the first section that needs it."""
    present = [section for section in sections if section[0]]
    if limit is None:
        return _SEPARATOR.join([headline, *(text for text, _ in present), footer])
    space = limit - 2 - escaped_size(headline + footer) - escaped_size(_SEPARATOR) * (len(present) + 1)
    needs = [escaped_size(text) for text, _ in present]
    total = sum(weight for _, weight in present)
    sizes = [min(need, space * weight // total) for need, (_, weight) in zip(needs, present, strict=True)]
    spare = space - sum(sizes)
    for index, need in enumerate(needs):
        extra = min(spare, need - sizes[index])
        sizes[index] += extra
        spare -= extra
    texts = [_fit(text, size) for (text, _), size in zip(present, sizes, strict=True)]
    return _SEPARATOR.join([headline, *texts, footer])


def _fit(text: str, size: int) -> str:
    """Cut a text to a size, at a line end if one is near, so that table rows stay whole."""
    fitted = cut(text, size)
    if fitted == text:
        return text
    last_line = fitted.rfind("\n")
    is_near = last_line >= 0 and escaped_size(fitted[last_line:]) <= _NEAR
    return f"{fitted[:last_line]}\n..." if is_near else fitted


def block(title: str, text: str, look: Look) -> str:
    """Return a text below its title; nothing without a text."""
    head = look.head(text)
    if not head.strip():
        return ""
    below = head.replace("\n", "\n  ")
    return f"{title}\n  {below}" if title else head


def evaluator_table(result: EvalResult, look: Look) -> str:
    """Return a row for each evaluator: its score, and the mean that the case needs."""
    threshold = "-" if result.threshold is None else format_score(result.threshold)
    rows = [("Evaluator", "Type", "Score", "Needs", "Weight")]
    for path, each in evaluators_of(result.evaluator_results):
        depth = len(path) - 1
        name, kind = "  " * depth + look.name(each.name, 28), look.name(each.type, 18)
        score = "error" if each.error else format_score(each.score)
        weight = "-" if each.weight is None else format_number(each.weight)
        rows.append((name, kind, score, "-" if depth else threshold, weight))
    if len(rows) == 1:
        return ""
    name_width, type_width = (max(columns(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(
        f"{padded(name, name_width)}  {padded(kind, type_width)}  {score:>5}  {needed:>5}  {weight:>6}"
        for name, kind, score, needed, weight in rows
    )


def findings(title: str, result: EvalResult, look: Look) -> str:
    """Return hits or misses, with the evaluators' names if there are several."""
    evaluators = result.evaluator_results or ()
    of = attrgetter(title.lower())
    named = [f"{look.name(each.name, 28)}: {look.head(item)}" for each in evaluators for item in of(each)]
    items = named if named and len(evaluators) > 1 else list(map(look.head, of(result)))
    lines = ("  - " + item.replace("\n", "\n    ") for item in items)
    return "\n".join([f"{title} ({len(items)}):", *lines]) if items else ""


def raw_outputs(result: EvalResult, look: Look) -> str:
    """Return the unreadable output of judges, which explains why they score 0."""
    blocks = [
        block(f"Unreadable reply of {look.name(evaluator.name, 28)}:", evaluator.raw_output, look)
        for evaluator in result.evaluator_results or ()
        if evaluator.raw_output
    ]
    return "\n".join(blocks)


def reasoning(result: EvalResult, look: Look) -> str:
    """Return the reasoning, one line per evaluator if there are several."""
    said = [(each.name, each.reasoning) for each in result.evaluator_results or () if each.reasoning]
    if len(said) <= 1:
        return block("Reasoning:", result.reasoning or "", look)
    lines = (f"{look.name(name, _SHORT)}: {look.head(reasoning)}" for name, reasoning in said)
    return "\n  ".join(["Reasoning:", *(line.replace("\n", "\n  ") for line in lines)])


def call_lines(messages: Iterable[Message], masker: Masker) -> Iterator[str]:
    """Yield the first twenty tool calls of an answer in order. Masks secrets before it cuts values."""
    calls = [call for message in messages for call in message.tool_calls]
    for call in calls[:_MOST_CALLS]:
        output = "" if call.output is ABSENT else f" -> {_output(call.output, masker)}"
        yield f"{call.tool}({_arguments(call.input, masker)}){output}"
    if len(calls) > _MOST_CALLS:
        yield f"... and {len(calls) - _MOST_CALLS} more"


def _arguments(value: Json, masker: Masker) -> str:
    if value is ABSENT or value in (None, {}, ""):
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_short(compact_json(each), masker)}" for name, each in value.items())
    return _short(compact_json(value), masker)


def _output(value: Json, masker: Masker) -> str:
    match value:
        case list() | tuple():
            noun = "row" if all(isinstance(each, Mapping) for each in value) else "item"
            return counted(len(value), noun)
        case str():
            return _short(" ".join(masker.mask(value).split()) or '""', masker)
    return _short(compact_json(value), masker)


def _short(text: str, masker: Masker) -> str:
    """Cut a text. The masker could not find half a secret later."""
    return text if len(text) <= _LONGEST_VALUE else shortened(masker.mask(text), _LONGEST_VALUE)


def footer(result: EvalResult, rerun_command: str | None, look: Look) -> str:
    """Return target, cost, log, place and the rerun command, a line each."""
    lines = [f"Target: {cut(', '.join(_target_facts(result, look)), _LONG)}"]
    counts = result.trace_summary.tool_calls_by_name if result.trace_summary else {}
    tools = ", ".join(
        look.line(name, _SHORT) + (f" ({count} times)" if count > 1 else "") for name, count in counts.items()
    )
    # Calls that are shown with their inputs and outputs are not named once more.
    if tools and not any(message.tool_calls for message in result.output_messages or ()):
        lines.append(f"Tools:  {cut(tools, _LONG)}")
    if result.log_file:
        lines.append(f"Log:    {cut(look.all_of(result.log_file), _LONG)}")
    if kept := (result.workspace or {}).get("kept"):
        lines.append(f"Kept:   {cut(look.all_of(str(kept)), _LONG)}")
    if result.eval_file:
        lines.append(f"Case:   {cut(visible(place_of(result)), _LONG)}")
    if rerun_command:
        lines.append(f"Rerun:  {cut(visible(rerun_command), 600)}")
    return "\n".join(lines)


def _target_facts(result: EvalResult, look: Look) -> Iterator[str]:
    costs = spent_of(result).answer
    yield look.name(result.target, _SHORT)
    if result.model is not None and result.model != result.target:
        yield look.line(result.model, _SHORT)
    if result.attempts:
        yield counted(result.attempts, "attempt")
    if (duration := duration_of(result)) is not None:
        yield format_duration(duration)
    if costs.cost is not None:
        yield f"{format_cost(costs.cost)}{known_part(costs.cost_known, costs).lstrip(',')}"
    if (usage := costs.usage) is not None:
        yield f"tokens: {format_tokens(usage)}{known_part(costs.tokens_known, costs).lstrip(',')}"
    if result.finish_reason:
        yield f"finish_reason={look.line(result.finish_reason, _SHORT)}"
    if result.cached:
        yield "answer from the cache"


# Compares an answer with the reference word by word, for people to read.

_MOST_CELLS: Final = 250_000
"""Pairs of words that are compared, in some hundredths of a second, seldom a whole one. Longer texts get no diff."""
_LEAST_COMMON: Final = 0.3
"""Share of the shorter text's words that both have. With less in common, a diff is harder to read than two texts."""


def word_diff(reference: str, answer: str) -> str | None:
    """Return both texts as one, `[-only in the reference-]` and `{+only in the answer+}`, as `git diff --word-diff`.

    Blanks are shown, but not compared. None: the texts are the same, too long, or have too little in common.
    """
    old, new = (re.findall(r"[^\S\n]*(?:\n|\S+)", text.strip()) for text in (reference, answer))
    words = [[token.strip() for token in tokens] for tokens in (old, new)]
    head = len(os.path.commonprefix(words))  # noqa: RUF071 - of words
    tail = len(os.path.commonprefix([tokens[head:][::-1] for tokens in words]))  # noqa: RUF071 - of words
    inner = [tokens[head : len(tokens) - tail] for tokens in words]  # only what differs is compared
    if not any(inner) or len(inner[0]) * len(inner[1]) > _MOST_CELLS:
        return None
    matcher = SequenceMatcher(None, inner[0], inner[1], autojunk=False)
    common = head + tail + sum(block.size for block in matcher.get_matching_blocks())
    if common < max(1, _LEAST_COMMON * min(len(old), len(new))):
        return None
    text = "".join(new[:head])
    for kind, first_old, last_old, first_new, last_new in matcher.get_opcodes():
        removed = "".join(old[head + first_old : head + last_old])
        added = "".join(new[head + first_new : head + last_new])
        if kind == "equal":
            text += added
        else:
            first = removed or added
            marked = [f"[-{removed.lstrip(' ')}-]"] if removed else []
            marked += [f"{{+{added.lstrip(' ')}+}}"] if added else []
            text += " " * (len(first) - len(first.lstrip(" "))) + " ".join(marked)
    return f"{text}{''.join(new[len(new) - tail :])}".strip()


def alike(reference: str, answer: str) -> tuple[str, str]:
    """Return two texts. Two JSON documents get the same layout, so that only their values differ."""
    try:
        values = [json.loads(text) for text in (reference, answer)]
    except (ValueError, RecursionError):
        return reference, answer
    laid_out = [json.dumps(value, indent=2, ensure_ascii=False) for value in values]
    return laid_out[0], laid_out[1]


# The command that runs a case again.


@dataclass(frozen=True, slots=True)
class Start(Record):
    """How pytest was started: its root folder, the folder that it was started in, and its flags."""

    root: Path
    folder: Path
    flags: tuple[str, ...] = ()
    """Those that affect a case's outcome or its name."""

    def command(self, node_id: str) -> str:
        """Return the command that runs a case again in the same way, in the same folder."""
        file, colons, name = node_id.partition("::")
        path = file if self.folder == self.root else os.path.relpath(self.root / file, self.folder)
        return shlex.join(["pytest", f"{path}{colons}{name}", *self.flags])
