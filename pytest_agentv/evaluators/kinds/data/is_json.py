"""`is-json`: the answer is JSON."""

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context
from pytest_agentv.evaluators.comparing.answer_data import no_data
from pytest_agentv.evaluators.kinds.data.json_check import JsonCheck
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import MOST_DIGITS, strict_json


class IsJson(JsonCheck):
    r"""The whole answer is JSON that fits a JSON Schema.

    Its formats `date`, `date-time`, `email`, `idn-email`, `ipv4`, `ipv6`, `regex` and `uuid` are checked, others not.
    Its patterns are in the language of JavaScript: `$` is the end of the text, and `\d` and `\w` are ASCII. One with a
    group that only Python has, such as `(?i)` or `(?P<name>…)`, is in Python's. One that cannot be judged is an error.
    So is an answer that Python cannot read, because it is nested too deeply: Python 3.11 reads about 1,000 levels.
    """

    kind = "is-json"
    examples = (
        {"answer": "[1, 2]", "assert": [{"is-json": True}]},
        {
            "answer": '{"price": 120}',
            "assert": [{"is-json": {"required": ["price"], "properties": {"price": {"type": "number"}}}}],
        },
    )

    def check(self, context: Context) -> Score:
        try:
            data = self._parse(context.candidate_answer) if context.part is ABSENT else context.part
        except ValueError as error:
            return Score(0.0, misses=(no_data("JSON", context.candidate_answer, error),))
        except RecursionError:
            raise EvaluatorError("the answer is nested too deeply to be read as JSON", "config") from None
        faults = self.faults(data)
        if faults:
            return Score(0.0, misses=tuple(faults))
        return Score(1.0, hits=("is JSON" if self.value is None else "is JSON as the schema wants it",))

    def _parse(self, text: str) -> Json:
        """Parse an answer. Raises `EvaluatorError` for a number that no schema can judge.

        Without a schema nobody reads the numbers, and JSON allows them any number of digits.
        """
        return strict_json(text, parse_int=len if self.value is None else _whole)


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise EvaluatorError(f"the answer has a number of {len(digits):,} digits, which no schema can judge", "config")
    return int(digits)
