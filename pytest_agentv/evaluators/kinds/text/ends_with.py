"""`ends-with`: the answer ends with a text."""

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextCheck, shown, verdict
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim


class EndsWith(TextCheck):
    """The answer ends with a text."""

    kind = "ends-with"
    examples = ({"answer": "It costs 120 euros.", "assert": [{"ends-with": "euros."}]},)

    value: Text = Field(description="how the answer ends; blanks around both do not count", examples=["Kind regards"])

    def check(self, answer: str) -> Score:
        text, wanted = trim(answer), trim(self.value)
        hit = f"ends with {shown(wanted)}"
        return verdict(text.endswith(wanted), hit, f"ends with {shown(text[-len(wanted) :])}, not {shown(wanted)}")
