"""`field_accuracy`: fields of a JSON answer, compared one by one with the expected data (agentv-formats 6.8)."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, Services, or_sync
from pytest_agentv.evaluators.comparing.answer_data import parse_answer, read_path
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.evaluators.kinds.data.expected_data import expected_data, has_parts
from pytest_agentv.evaluators.kinds.data.field_check import FieldCheck, FieldFinding, check_field, unreadable_as
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.models.base import ABSENT, Absent, Json, JsonObject
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.kind import NOT_EMPTY, Items
from pytest_agentv.models.scores import Score, weighted_mean

_NO_JSON: Final = "Failed to parse candidate answer as JSON"
_NOTHING_EXPECTED: Final = "No expected data found in expected_messages"
_NO_DATA: Final = (
    "there is no expected data, so no answer can pass: write it into expected_messages, as a mapping or as JSON"
)
_NO_JSON_IN_PARTS: Final = "the text and file parts of the expected message hold no JSON to compare the answer with"

_NOTHING_COUNTS: Final = "No field of the answer counts: each weighs 0, or is optional and missing"

SHOWN_FINDINGS: Final = 4
"""The most hits, and the most misses, that are listed. The reasoning counts all of them."""


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
            yield _NO_DATA
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
    return Score(
        _weighted_mean(findings) if is_mean else _all_matched(findings),
        hits=tuple(hits[:SHOWN_FINDINGS]),
        misses=tuple(misses[:SHOWN_FINDINGS]),
        reasoning=f"{len(hits)}/{len(findings)} fields matched",
        unknown=_NOTHING_COUNTS if is_mean and not any(finding.weight for finding in findings) else None,
        unchecked=_unchecked(findings, is_mean=is_mean),
    )


def expected_faults(checks: Sequence[FieldCheck], data: Json | Absent, messages: Sequence[JsonObject]) -> Iterator[str]:
    """Yield why no answer can be compared with the expected data of messages. The author of the eval has to mend it."""
    if data is ABSENT and has_parts(messages):
        yield _NO_JSON_IN_PARTS
    for check in checks:
        wanted = ABSENT if data is ABSENT else read_path(data, check.path)
        is_left_out = not check.required and wanted in (None, "")  # a field that the answer may lack as well
        what = None if wanted is ABSENT or is_left_out else unreadable_as(check, wanted)
        if what is not None:
            yield f"the expected {check.path!r} is {describe_value(wanted)}, and no {what}"


def _unchecked(findings: Sequence[FieldFinding], *, is_mean: bool) -> str | None:
    """Return which values of the answer the score lacks, because they cannot be read; None: the score is certain."""
    if not is_mean and any(not finding.matched and not finding.is_unread for finding in findings):
        return None
    unread = [finding.text for finding in findings if finding.is_unread and (finding.weight or not is_mean)]
    return "; ".join(unread) or None


def _weighted_mean(findings: Sequence[FieldFinding]) -> float:
    return weighted_mean([(float(finding.matched), finding.weight) for finding in findings])


def _all_matched(findings: Sequence[FieldFinding]) -> float:
    return 1.0 if all(finding.matched for finding in findings) else 0.0
