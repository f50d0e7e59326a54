"""`field_accuracy`: fields of a JSON answer, compared one by one with the expected data (agentv-formats 6.8)."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import json_equal, parse_answer, read_path
from pytest_agentv.evaluators.base import AnswerPath, Evaluator, or_sync
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge_reply import off_loop
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import ABSENT, Absent, Json, JsonObject, is_number
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind import NOT_EMPTY, Amount, Items, Part, Text, expected
from pytest_agentv.model.results import Score, weighted_mean
from pytest_agentv.model.text import digits_apart, format_fixed, format_number, whole_number


def _date_format(value: str) -> str:
    if not is_date_format(value):
        raise expected(f"a date format ({KNOWN_PARTS}), such as DD/MM/YYYY")
    return value


DateFormat: TypeAlias = Annotated[Text, AfterValidator(_date_format)]
"""The format of a date."""


class FieldCheck(Part):
    """One field of a JSON answer that is compared with the expected data."""

    path: AnswerPath = Field(description="where the field is: `order`, `items[0].price`")
    match: Literal["exact", "numeric_tolerance", "date"] = Field(description="how the two values are compared")
    required: bool = Field(default=True, description="whether a field that the answer lacks is a miss")
    weight: Amount = Field(default=1.0, description="its share in the score")
    tolerance: Amount = Field(default=0.0, description="with `numeric_tolerance`: how far apart the numbers may be")
    relative: bool = Field(
        default=False, description="with `numeric_tolerance`: the tolerance is a share of the expected number"
    )
    formats: Items[DateFormat] | None = Field(
        default=None,
        description="with `date`: formats such as `DD/MM/YYYY` or `%d.%m.%Y`; dates in ISO 8601 need none",
    )

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        readers = {"tolerance": "numeric_tolerance", "relative": "numeric_tolerance", "formats": "date"}
        for key, match in readers.items():
            if key in self.model_fields_set and self.match != match:
                yield key, f"it belongs to match: {match}"


SHOWN_FINDINGS: Final = 4
"""The most hits, and the most misses, that are listed. The reasoning counts all of them."""


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """The outcome of comparing one field."""

    matched: bool
    text: str
    """The hit, or the miss with its reason."""
    weight: float
    is_unread: bool = False
    """Whether the answer has a value that could not be read, so that nothing was compared."""


_NO_JSON: Final = "Failed to parse candidate answer as JSON"
_NOTHING_EXPECTED: Final = "No expected data found in expected_messages"


class FieldAccuracy(Evaluator):
    """Fields of a JSON answer, compared one by one with those of the expected message."""

    kind = "field_accuracy"
    short_key = "fields"

    fields: Annotated[Items[FieldCheck], NOT_EMPTY] = Field(description="the fields that are compared")
    aggregation: Literal["weighted_average", "all_or_nothing"] = Field(
        default="weighted_average", description="how the fields make the score"
    )

    def prepare(self, services: Services) -> Evaluator:
        """Raises `EvaluatorError` if the expected data cannot be compared with any answer."""
        if services.case is not None:
            self.comparable_data(services.case.expected_messages)
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Raises `EvaluatorError` as `prepare` does."""
        answer, expected = context.candidate_answer, context.case.expected_messages
        score = await off_loop(len(answer), score_fields, self, answer, expected)
        return score.replace(warnings=tuple(self.doubts(context.case)))

    def doubts(self, case: EvalCase) -> Iterator[str]:
        """Yield why no answer can be right, and the required fields that the expected data lacks.

        These fields count as met, as in AgentV.
        """
        expected = self._expected_data(case.expected_messages)
        yield from expected_faults(self._deciding(), expected, case.expected_messages)
        if expected is ABSENT and not has_parts(case.expected_messages):
            yield (
                "there is no expected data, so no answer can pass: write it into expected_messages, as a mapping or "
                "as JSON"
            )
        for check in self.fields if expected is not ABSENT else ():
            if check.required and read_path(expected, check.path) is ABSENT:
                yield (
                    f"the expected data has no {check.path!r}: this field counts as met, whatever the answer has there"
                )

    def comparable_data(self, messages: Sequence[JsonObject]) -> Json | Absent:
        """Return the expected data. Raises `EvaluatorError` if it cannot be compared with any answer."""
        data = self._expected_data(messages)
        faults = list(expected_faults(self._deciding(), data, messages))
        if faults:
            raise EvaluatorError("; ".join(faults), "config")
        return data

    def _expected_data(self, messages: Sequence[JsonObject]) -> Json | Absent:
        return expected_data(messages, [check.path for check in self.fields])

    def _deciding(self) -> Sequence[FieldCheck]:
        """Return the fields that the score depends on. In a mean, one of weight 0 is only shown."""
        is_mean = self.aggregation == "weighted_average"
        return [check for check in self.fields if check.weight or not is_mean]


def score_fields(config: FieldAccuracy, answer: str, expected_messages: Sequence[JsonObject]) -> Score:
    """Score an answer's fields; 0 when the answer holds no JSON or nothing is expected.

    Raises `EvaluatorError` if the expected data cannot be compared.
    """
    candidate, expected = parse_answer(answer), config.comparable_data(expected_messages)
    unknown = _NOTHING_EXPECTED if expected is ABSENT else None
    if candidate is ABSENT:
        return Score(0.0, misses=(_NO_JSON,), unknown=unknown, unchecked=_NO_JSON)
    if expected is ABSENT:
        return Score(0.0, misses=(_NOTHING_EXPECTED,), unknown=unknown)
    findings = [check_field(check, candidate, expected) for check in config.fields]
    is_mean = config.aggregation == "weighted_average"
    hits = [finding.text for finding in findings if finding.matched]
    misses = [finding.text for finding in findings if not finding.matched]
    weighed = [(float(finding.matched), finding.weight) for finding in findings]
    nothing_counts = is_mean and not any(finding.weight for finding in findings)
    return Score(
        weighted_mean(weighed) if is_mean else float(not misses),
        hits=tuple(hits[:SHOWN_FINDINGS]),
        misses=tuple(misses[:SHOWN_FINDINGS]),
        reasoning=f"{len(hits)}/{len(findings)} fields matched",
        unknown="No field of the answer counts: each weighs 0, or is optional and missing" if nothing_counts else None,
        unchecked=_unchecked(findings, is_mean=is_mean),
    )


def _unchecked(findings: Sequence[FieldFinding], *, is_mean: bool) -> str | None:
    """Return which values of the answer the score lacks, because they cannot be read; None: the score is certain."""
    if not is_mean and any(not finding.matched and not finding.is_unread for finding in findings):
        return None
    unread = [finding.text for finding in findings if finding.is_unread and (finding.weight or not is_mean)]
    return "; ".join(unread) or None


def check_field(check: FieldCheck, candidate: Json, expected: Json) -> FieldFinding:
    """Compare one field of the answer with the expected data."""
    path = check.path
    wanted, given = read_path(expected, path), read_path(candidate, path)
    if wanted is ABSENT:
        return FieldFinding(True, f"{path}: no expected value", check.weight)
    if given is ABSENT and check.required:
        return FieldFinding(False, f"{path} (required, missing)", check.weight)
    if given is ABSENT:
        return FieldFinding(True, f"{path}: optional field missing", 0.0)
    match check.match:
        case "exact":
            return _compare_exactly(check, given, wanted)
        case "numeric_tolerance":
            return _compare_numbers(check, given, wanted)
        case "date":
            return _compare_dates(check, given, wanted)


def _compare_exactly(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    if json_equal(given, wanted):
        return FieldFinding(True, check.path, check.weight)
    got, expected = _type_name(given), _type_name(wanted)
    reason = "value mismatch" if got == expected else f"type mismatch: got {got}, expected {expected}"
    return FieldFinding(False, f"{check.path} ({reason})", check.weight)


def _type_name(value: Json) -> str:
    """The word of AgentV's messages: a list and null are objects."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else "object"


def _compare_numbers(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    number, goal = parse_number(given), parse_number(wanted)
    if number is None or goal is None:
        return FieldFinding(False, f"{check.path} (non-numeric value)", check.weight, is_unread=number is None)
    if not (math.isfinite(number) and math.isfinite(goal)):
        return FieldFinding(False, f"{check.path} (invalid numeric value)", check.weight)
    share = abs(goal) if check.relative and goal else 1
    difference = abs(number - goal)
    # As floats, 0.8 and 0.7 are not exactly 0.1 apart.
    rounding = sum(math.ulp(each) for each in (number, goal) if type(each) is float)
    if (difference - rounding) / share <= check.tolerance * (1 + 1e-9):
        return FieldFinding(True, f"{check.path} (within tolerance: diff={format_fixed(difference, 2)})", check.weight)
    shown = format_fixed(difference, digits_apart(difference, check.tolerance * share, 2))
    part = "" if share == 1 else f" of {format_number(share)}"
    reason = f"outside tolerance: diff={shown}, tolerance={format_number(check.tolerance)}{part}"
    return FieldFinding(False, f"{check.path} ({reason})", check.weight)


def _compare_dates(check: FieldCheck, given: Json, wanted: Json) -> FieldFinding:
    got, goal = _read_date(check, given), _read_date(check, wanted)
    if got is None or goal is None:
        side = "candidate" if got is None else "expected"
        return FieldFinding(False, f"{check.path} (unparseable {side} date)", check.weight, is_unread=got is None)
    if got == goal:
        return FieldFinding(True, check.path, check.weight)
    return FieldFinding(False, f"{check.path} (date mismatch: got {got}, expected {goal})", check.weight)


def _read_date(check: FieldCheck, value: Json) -> date | None:
    return parse_date(value, check.formats or ()) if isinstance(value, str) else None


def expected_faults(checks: Sequence[FieldCheck], data: Json | Absent, messages: Sequence[JsonObject]) -> Iterator[str]:
    """Yield why no answer can be compared with the expected data of messages. The author of the eval has to mend it."""
    if data is ABSENT and has_parts(messages):
        yield "the text and file parts of the expected message hold no JSON to compare the answer with"
    for check in checks:
        wanted = ABSENT if data is ABSENT else read_path(data, check.path)
        is_left_out = not check.required and wanted in (None, "")  # a field that the answer may lack as well
        what = None if wanted is ABSENT or is_left_out else unreadable_as(check, wanted)
        if what is not None:
            yield f"the expected {check.path!r} is {describe_value(wanted)}, and no {what}"


def unreadable_as(check: FieldCheck, wanted: Json) -> str | None:
    """Return what an expected value should be, but cannot be read as; None if it can."""
    if check.match == "numeric_tolerance":
        number = parse_number(wanted)
        return None if number is not None and math.isfinite(number) else "number"
    if check.match == "date" and _read_date(check, wanted) is None:
        return "date that can be read (2025-01-15 can, and dates in the listed `formats`)"
    return None


def expected_data(messages: Sequence[JsonObject], paths: Sequence[str] = ()) -> Json | Absent:
    """Return the mapping or list of the last assistant message that has one; `ABSENT` if none has.

    `paths` are those that are compared. Parts without JSON are data themselves if they have all of these paths.
    """
    for message in reversed(messages):
        data = _data_of(message.get("content", ABSENT), paths) if message["role"] == "assistant" else ABSENT
        if isinstance(data, Mapping | list | tuple):
            return data
    return ABSENT


def _data_of(content: Json, paths: Sequence[str]) -> Json | Absent:
    """Return the data of a content: that in its text, in its parts together, or the content itself."""
    if isinstance(content, str):
        return parse_answer(content)
    texts = content if isinstance(content, list | tuple) and all(isinstance(item, str) for item in content) else ()
    if _is_of_parts(content):
        found = parse_answer("\n".join(map(_text_of, content)))
        is_data = bool(paths) and all(read_path(content, path) is not ABSENT for path in paths)
        return content if found is ABSENT and is_data else found
    found = parse_answer("\n".join(texts)) if texts else ABSENT
    return content if found is ABSENT else found  # a list of texts is data, unless they hold JSON


def _text_of(item: Json) -> str:
    """Return the text of an item; that of a picture, or of another file that is no text, is empty."""
    if isinstance(item, str):
        return item
    text = {"text": item.get("value"), "file": item.get("text")}.get(item["type"])
    return text if isinstance(text, str) else ""


def has_parts(messages: Sequence[JsonObject]) -> bool:
    """Whether the content of an assistant message is a list of text and file parts."""
    return any(message["role"] == "assistant" and _is_of_parts(message.get("content")) for message in messages)


def _is_of_parts(content: Json) -> bool:
    """Whether a content is a list of texts and parts, with a part at least. Other lists are data."""
    items = content if isinstance(content, list | tuple) else ()
    return any(map(_is_part, items)) and all(isinstance(item, str) or _is_part(item) for item in items)


def _is_part(item: Json) -> bool:
    """Whether an item is a part. Those of files have the keys under which the loader puts what it has read."""
    if not isinstance(item, Mapping):
        return False
    key = {"text": "value", "image": "value", "file": "resolvedPath"}.get(str(item.get("type")))
    return key is not None and isinstance(item.get(key), str)


# The dates and numbers of fields.

KNOWN_PARTS: Final = "YYYY or YY, MMMM, MMM, MM or M, DD or D, and separators"
"""What a format may consist of, for messages. Those of `strptime` are read as well."""

_PART: Final = re.compile(r"y{4}|yy|m{1,4}|dd?", re.IGNORECASE)
_PARTS: Final = {"yyyy": "%Y", "yy": "%y", "mmmm": "%B", "mmm": "%b", "mm": "%m", "m": "%m", "dd": "%d", "d": "%d"}
_FIRST_OF_A_MONTH: Final = date(2024, 12, 1)


def is_date_format(written: str) -> bool:
    """Whether a format reads the date that it writes. Without a day, it is the first of the month."""
    form = _of_strptime(written)
    try:
        return datetime.strptime(_FIRST_OF_A_MONTH.strftime(form), form).date() == _FIRST_OF_A_MONTH
    except (ValueError, re.error):  # a part that is there twice makes a wrong pattern
        return False


def _of_strptime(written: str) -> str:
    return written if "%" in written else _PART.sub(lambda found: _PARTS[found[0].lower()], written)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Return the date of a text in the first of some formats that fits, or in ISO 8601; None if there is none.

    A time with an offset is taken to UTC first; other times do not matter.
    """
    for form in (*map(_of_strptime, formats), None):
        try:
            moment = datetime.strptime(text.strip(), form) if form else datetime.fromisoformat(text.strip())
            return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
        except (ValueError, OverflowError):
            continue
    return None


_CURRENCY: Final = r"(?:[A-Z]{3}|[$\xa2-\xa5\u20a0-\u20cf])"
_BESIDE: Final = re.compile(rf"^([+-]?){_CURRENCY}\s*|\s*(?:{_CURRENCY}|%)$")
"""The sign or the code of a currency, or a percent sign, beside a number."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LARGEST: Final = 1e300
"""Beyond it, the difference of two whole numbers may be none that a float can hold."""


def parse_number(value: Json) -> float | None:
    """Return a number, or that of a text such as `1,234.50`, `10.9 USD` or `5 %`; None for any other value.

    A whole number keeps all its digits. One that is too large for a float is infinite.
    """
    if isinstance(value, str):
        found = _NUMBER.fullmatch(_BESIDE.sub(r"\1", value.strip()))
        digits = found[0].replace(",", "") if found else ""
        value = found and (float(digits) if found[1] or found[2] else whole_number(digits))
    if not is_number(value):
        return None
    try:
        return value if abs(value) < _LARGEST else float(value)
    except OverflowError:
        return math.inf
