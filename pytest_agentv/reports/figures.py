"""Reads costs, tokens and times from results, and formats them for people."""

import bisect
import json
import math
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from unicodedata import combining, east_asian_width

from pytest_agentv.model.base import Json, JsonObject, Record, format_fixed, is_amount, pretty_json
from pytest_agentv.model.messages import Costs, TokenUsage, is_known
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult, EvaluatorResult, Spent
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store.writers import image_of

if TYPE_CHECKING:  # a plain run loads no statistics
    from pytest_agentv.stats.intervals import Interval

LineStyle: TypeAlias = Literal["title", "heading", "plain", "pass", "fail", "error", "warning"]


NO_COSTS: Final = Costs()


@dataclass(frozen=True, slots=True)
class SummaryLine(Record):
    """One line of a summary. A `title` is the text of a section's heading, without the ruler."""

    text: str
    style: LineStyle = "plain"


def format_score(score: float) -> str:
    return format_fixed(score, 3)


def format_cost(dollars: float) -> str:
    """Format dollars with four decimals, or six below a cent, because model calls are cheap."""
    return f"${format_fixed(dollars, 4 if dollars >= 0.01 or dollars == 0 else 6)}"


def format_duration(milliseconds: float) -> str:
    """`250 ms`, `1.2 s`, `2 min 5 s`."""
    if not math.isfinite(milliseconds):
        return "unknown"
    if round(milliseconds) < 1000:
        return f"{round(milliseconds)} ms"
    seconds = milliseconds / 1000
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_tokens(usage: TokenUsage) -> str:
    """`1,250 (1,000 in, 250 out)`."""
    cached = f", {usage.cached:,.0f} cached" if usage.cached else ""
    reasoning = f", {usage.reasoning:,.0f} of them for reasoning" if usage.reasoning else ""
    return f"{usage.total:,.0f} ({usage.input:,.0f} in, {usage.output:,.0f} out{reasoning}{cached})"


def cost_of(result: EvalResult) -> float | None:
    """Return the reported price of the answer in US dollars, if any. A cached answer has its original price."""
    for metrics in (result.execution_metrics, result.trace_summary):
        if metrics is not None and is_amount(metrics.cost_usd):
            return metrics.cost_usd
    return None


def spent_of(result: EvalResult) -> Spent:
    """Return what was paid for a case, in this run and in those that it goes on with."""
    spent = result.spent
    if spent is not None and spent.judge is None and spent.answer.cost_usd == spent.answer.input == 0:
        return spent  # as of most cases
    if spent is not None or result.cached or (result.status == "error" and not result.attempts):
        return _amounts(spent or Spent())
    return Spent(Costs.of_call(tokens_of(result), cost_of(result)))  # a result of another tool


def _amounts(spent: Spent) -> Spent:
    """Return what was paid without figures that are no amounts, as another program may write them."""
    answer, judge = (
        costs
        if costs is None
        or all(map(is_amount, (costs.calls, costs.cost_usd, costs.input, costs.output, costs.cached or 0)))
        else Costs()
        for costs in (spent.answer, spent.judge)
    )
    return Spent(answer or Costs(), judge)


def total_cost_of(result: EvalResult) -> float:
    """Return what was paid for a case in US dollars, with its judges, as far as it is known."""
    spent = spent_of(result)
    return spent.answer.cost_usd + (0.0 if spent.judge is None else spent.judge.cost_usd)


_OF_REPEATS: Final = ("judged", "passes", "pass_rate", "pass_rate_low", "pass_rate_high", "stopped")
_TOKENS: Final = ("input", "output", "cached", "reasoning")


def figures_of(result: EvalResult) -> dict[str, str | float | None]:
    """Return the figures of a case that are no fields: costs, tokens, time, answers. The keys are always the same.

    None: not known. A figure that covers only some calls says for how many it is known.
    """
    spent, repeat = spent_of(result), result.repeat
    costs, judge = spent.answer, spent.judge or NO_COSTS
    usage = costs.usage
    answers: dict[str, str | float | None] = dict.fromkeys(_OF_REPEATS)
    if repeat is not None:
        answers = {name: getattr(repeat, name) for name in _OF_REPEATS}
        answers["stopped"] = repeat.stopped if repeat.asked < repeat.planned else None
    return {
        "repeat": None if repeat is None else repeat.planned,
        **answers,
        "cost_usd": 0.0 if result.cached and not costs.calls else costs.cost,
        "judge_cost_usd": judge.cost,
        "latency_ms": whole(duration_of(result)),
        **{f"tokens_{kind}": None if usage is None else whole(getattr(usage, kind)) for kind in _TOKENS},
        "cost_known_for": known_for(costs.cost_known, costs),
        "tokens_known_for": known_for(costs.tokens_known, costs),
        "judge_cost_known_for": known_for(judge.cost_known, judge),
    }


def whole(value: float | None) -> float | None:
    """Return a number, such as that of tokens, as a whole one if it is: AgentV writes 1, not 1.0."""
    return int(value) if value is not None and float(value).is_integer() else value


def known_for(known: int, costs: Costs) -> str | None:
    """Return `2 of 4 calls` for a figure that only some calls report; None: all of them or none."""
    return f"{known:,} of {costs.calls:,} calls" if 0 < known < costs.calls else None


def known_part(known: int, costs: Costs) -> str:
    """Return `, known for 2 of 4 calls` for such a figure, and nothing for one of all calls."""
    part = known_for(known, costs)
    return f", known for {part}" if part else ""


def tokens_of(result: EvalResult) -> TokenUsage | None:
    """Return the reported tokens of the answer, if any."""
    for metrics in (result.execution_metrics, result.trace_summary):
        if metrics is not None and is_known(metrics.token_usage):
            return metrics.token_usage
    return None


def duration_of(result: EvalResult) -> float | None:
    """Return the duration of the answer in milliseconds, if known."""
    for metrics in (result.execution_metrics, result.trace_summary):
        if metrics is not None and is_amount(metrics.duration_ms):
            return metrics.duration_ms
    return None


def percentile(values: Sequence[float], share: int) -> float:
    """Return the value that so many percent of at least one value do not exceed."""
    return sorted(values)[max(0, -(-share * len(values) // 100) - 1)]


def ended_at(timestamp: str) -> datetime | None:
    """Return when a case ended; None: the text of a result does not say so."""
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def turn_of(result: EvalResult) -> int | None:
    """Return the first turn of a conversation whose checks fail, or that has no answer; None: there is none."""
    figures = result.conversation
    if figures is not None and figures.stopped == "error":
        return figures.turns + 1
    failing = [each.turn for each in result.evaluator_results or () if each.turn is not None and each.score < 1]
    return min(failing, default=None)


def place_of(result: EvalResult) -> str:
    """Return where a case or its failing turn is written: the line in the eval file, and the row of its table."""
    lines, turn = () if result.conversation is None else result.conversation.lines, turn_of(result)
    line = (turn and turn <= len(lines) and lines[turn - 1]) or result.line
    place = f"{result.eval_file}:{line}" if line else f"{result.eval_file}"
    return f"{place}, row {result.row}" if result.row else place


def case_name(result: EvalResult) -> str:
    """Return the name of a case to show: its node id, with its own id if a Python test has several cases."""
    return with_id(result.node_id or result.eval_id, result.eval_file, result.eval_id)


def error_with_kind(result: EvalResult) -> str:
    """Return `[provider, network] the connection was refused`."""
    detail = result.error_detail
    return f"{f'[{detail.stage}, {detail.kind}] ' if detail else ''}{result.error or 'unknown error'}"


def with_id(name: str, eval_file: str | None, eval_id: str) -> str:
    """Return the name of an item, with the id of its case if it is a Python test with several cases."""
    is_python = (eval_file or "").endswith(".py")
    return f"{name} ({eval_id})" if is_python and not f"::{name}".endswith(f"::{eval_id}") else name


def evaluators_of(
    results: Sequence[EvaluatorResult] | None, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], EvaluatorResult]]:
    """Yield evaluators, each with the names on the way to it and followed by its members."""
    for each in results or ():
        path = (*above, each.name)
        yield path, each
        yield from evaluators_of(each.evaluator_results, path)


def question_of(result: EvalResult) -> str:
    """Return the last message of the user, else the question of the request."""
    for request in (result.lm_provider_request, result.agent_provider_request):
        messages = (request or {}).get("chat_prompt")
        for message in reversed(messages if isinstance(messages, list | tuple) else ()):
            if isinstance(message, Mapping) and message.get("role") == "user":
                return content_text(message.get("content"))
        if isinstance(text := (request or {}).get("question"), str) and text:
            return text
    return ""


def content_text(content: Json) -> str:
    """Return the text of a message, with the names of its images."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [text for part in content if isinstance(part, Mapping) and isinstance(text := _part_text(part), str)]
        if texts and len(texts) == len(content):
            return "\n".join(texts)
    return "" if content is None else pretty_json(content)


def _part_text(part: JsonObject) -> Json:
    image = image_of(part)
    return part.get("text") or part.get("value") if image is None else f"[{image.text}]"


# Makes foreign text safe to show: it cannot move the cursor, colour the terminal or hide characters.
#
# In CI it also cannot send commands to the service that reads the log.

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters except newline and tab, line separators, marks that reverse text, lone surrogates, and characters
that XML forbids.
"""

_CI_VARIABLES: Final = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_CI_COMMAND: Final = re.compile(r"(?<!\S):(?=:)|#(?=#[A-Za-z]*\[)")
"""The first character of `::error::` (GitHub), `##[error]` (GitHub, Azure) and `##vso[` (Azure), `##teamcity[`.

GitHub reads `::` only at the beginning of a line, but wrapping can turn any blank into a line break.
"""


def visible(text: str) -> str:
    """Return text with CRLF as LF, tabs as spaces and unsafe characters as Python escapes."""
    if text.isascii() and text.isprintable():
        return harmless_in_ci(text)
    plain = text.replace("\r\n", "\n").replace("\t", "    ")
    return harmless_in_ci(_UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), plain))


def harmless_in_ci(text: str) -> str:
    """Return text with commands to the CI service disarmed; outside CI, return it unchanged."""
    if _CI_COMMAND.search(text) is None or not any(map(os.environ.get, _CI_VARIABLES)):
        return text
    return _CI_COMMAND.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def shown(text: str, masker: Masker) -> str:
    """Return text masked and made visible. Call it before cutting: the masker cannot find half a secret."""
    return visible(masker.mask(text)).strip("\n")


def wrap(text: str, width: int) -> list[str]:
    """Return lines of at most `width` characters. Longer words, such as paths and URLs, stay whole."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    return lines


def columns(text: str) -> int:
    """Return the width of a text on a terminal: characters of East Asian scripts take two columns."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def padded(text: str, width: int) -> str:
    """Return a text with blanks up to a number of columns."""
    return text + " " * (width - columns(text))


def table(rows: Iterable[Sequence[str]], is_right: bool = False) -> Iterator[str]:
    """Yield rows as lines, with columns of equal width: all but the first to the right if `is_right`."""
    rows = list(rows)
    first, *widths = (max(map(columns, column)) for column in zip(*rows, strict=True))
    for name, *cells in rows:
        texts = [
            " " * (width - columns(cell)) + cell if is_right else padded(cell, width)
            for cell, width in zip(cells, widths, strict=True)
        ]
        yield "  ".join([padded(name, first), *texts]).rstrip()


def escaped_size(text: str) -> int:
    """Bytes of a text in ASCII JSON, without its quotes. One character takes up to twelve bytes."""
    return len(json.dumps(text)) - 2


def shortened(text: str, length: int, mark: str = "...") -> str:
    """Return a text of at most `length` characters. `mark` replaces the part that was cut."""
    return text if len(text) <= length else f"{text[: length - len(mark)]}{mark}"


def on_one_line(text: str, length: int, mark: str = "...") -> str:
    """Return a text on one line of at most `length` characters."""
    return shortened(" ".join(text.split()), length, mark)


def cut(text: str, size: int) -> str:
    """Return a text of at most `size` escaped bytes. Three dots replace the part that was cut."""
    head = text[: size + 1]
    if len(head) == len(text) and escaped_size(text) <= size:
        return text
    space = size - len("...")
    length = bisect.bisect_right(range(1, len(head) + 1), space, key=lambda count: escaped_size(head[:count]))
    return f"{head[:length]}..."


# Texts in columns: figures, and lists that end in time.

INDENT: Final = 15
_WIDTH: Final = 80
_SLACK: Final = 1e-9


def short_list(texts: Sequence[str], *, verbose: bool, used: int = 0) -> str:
    """Return texts on one line of 80 columns, of which some are used, and how many more there are."""
    if verbose:
        return ", ".join(texts)
    line = ""
    for number, text in enumerate(texts, start=1):
        longer = f"{line}, {text}" if line else text
        rest = len(texts) - number
        more = f", ... {rest} more: --agentv-verbose" if rest else ""
        if line and used + len(longer) + len(more) > _WIDTH:
            return f"{line}, ... {rest + 1} more: --agentv-verbose"
        line = longer
    return line


def wrapped(label: str, text: str, style: LineStyle = "plain", *, indent: int = INDENT) -> Iterator[SummaryLine]:
    """Yield a text behind its label, on as many lines as it takes."""
    for number, line in enumerate(wrap(text, _WIDTH - indent)):
        yield SummaryLine(f"{label if number == 0 else '':{indent}}{line}".rstrip(), style)


def plain(text: str) -> Iterator[SummaryLine]:
    yield from map(SummaryLine, wrap(text, _WIDTH))


def percent(rate: float, unlike: Sequence[float] = (0.0, 1.0)) -> str:
    """Return `89.2 %`, with as many more digits as it takes to differ from other rates: 2,099 of 2,100 are not all."""
    digits = 1
    others = [other for other in unlike if abs(rate - other) > _SLACK]
    while any(f"{rate * 100:.{digits}f}" == f"{other * 100:.{digits}f}" for other in others):
        digits += 1
    return f"{rate * 100:z.{digits}f} %"


def bounds(interval: "Interval | None", before: str = "") -> str:
    """Return `86.8 to 91.2`, in percent, behind some words; nothing for no interval."""
    return "" if interval is None else f"{before}{interval.low * 100:.1f} to {interval.high * 100:.1f}"


def points_of(interval: "Interval | None", before: str = "") -> str:
    """Return `-5.0 to +1.2`, in percentage points, behind some words; nothing for no interval."""
    return "" if interval is None else f"{before}{points(interval.low)} to {points(interval.high)}"


def points(difference: float) -> str:
    return f"{difference * 100:+z.1f}"  # z: no minus before a zero


# The fields and figures of a case as properties, for JUnit files and for `user_properties` of items.

_Scalar: TypeAlias = str | int | float
"""A value of any other type would end an xdist session."""
Property: TypeAlias = tuple[str, _Scalar]

_SCORE: Final = "agentv_score_"
"""The beginning of the properties with the scores of evaluators."""
_FIELDS: Final = tuple(name for name, field in RESULT_FIELDS.items() if field.is_property)
_PLACE: Final = ("file", "line")
_OWN: Final = frozenset(
    f"agentv_{name}" for name in (*_PLACE, *_FIELDS, *figures_of(EvalResult("", "", "", 0.0, (), (), "", "")))
)

_LONGEST_NAME: Final = 100
_UNFIT_FOR_NAMES: Final = re.compile(r"[^\w.-]+")
"""pytest does not escape names of properties: one control character would make the whole file unreadable."""


def is_own(name: object) -> bool:
    """Whether a property of this name is ours."""
    return isinstance(name, str) and (name in _OWN or name.startswith(_SCORE))


def is_own_property(given: object) -> bool:
    """Whether a property of an item is ours. A plugin may put anything into the list."""
    return isinstance(given, tuple) and len(given) == 2 and is_own(given[0])


def place_properties(eval_file: str, line: int) -> list[Property]:
    """Return where a case is written, with its line counted from 1.

    The default JUnit family has no attributes for it.
    """
    return [_shared("agentv_file", eval_file), ("agentv_line", line)]


def result_properties(result: EvalResult) -> list[Property]:
    """Return the known fields and figures of a result, and the scores of the evaluators that could judge."""
    found: list[Property] = []
    for name in _FIELDS:
        value = getattr(result, name)
        if value is not None and (name != "score" or result.status != "error"):
            found.append(_shared(f"agentv_{name}", value))
    # pytest keeps the properties of each case: a figure is that of few cases
    found += [(f"agentv_{name}", value) for name, value in figures_of(result).items() if value is not None]
    evaluators = [each for each in result.evaluator_results or () if each.error is None]
    names = _score_names(tuple([each.name for each in evaluators]))
    found += [_shared(name, each.score) for name, each in zip(names, evaluators, strict=True)]
    return found


@lru_cache(maxsize=1000, typed=True)
def _shared(name: str, value: _Scalar | bool) -> Property:
    """Return a property that many cases share. One object for all saves memory, because pytest keeps those of each."""
    if isinstance(value, str):
        return name, visible(value)
    return name, "true" if value is True else value


@lru_cache(maxsize=100)
def _score_names(evaluators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the properties of the scores of evaluators. A repeated name gets `-2`, `-3` and so on."""
    seen: dict[str, None] = {}
    for given in map(visible, evaluators):
        base = _UNFIT_FOR_NAMES.sub("_", given)[:_LONGEST_NAME] or "unnamed"
        name, copy = base, 1
        while name in seen:
            copy += 1
            name = f"{base}-{copy}"
        seen[name] = None
    return tuple(f"{_SCORE}{name}" for name in seen)
