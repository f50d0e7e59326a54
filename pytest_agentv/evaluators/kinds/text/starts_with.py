"""`starts-with`: the answer begins with a text."""

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import Edge, TextCheck, other_form, shown, verdict
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim


class StartsWith(TextCheck):
    """The answer begins with a text."""

    kind = "starts-with"
    examples = ({"answer": "Yes, within 30 days.", "assert": [{"starts-with": "Yes"}]},)

    value: Edge = Field(
        description="how the answer begins; whitespace around both is ignored", examples=["Dear customer"]
    )

    def check(self, answer: str) -> Score:
        text, wanted = trim(answer), trim(self.value)
        if text.startswith(wanted):
            return verdict(True, f"starts with {shown(wanted)}", "")
        begin = masked(text)[: len(wanted)]  # the masker could not find half a secret later
        form = other_form(wanted, text, lambda begin, whole: whole.startswith(begin))
        return verdict(False, "", f"starts with {shown(begin)}, not {shown(wanted)}{form}")
