"""`ends-with`: the answer ends with a text."""

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import Edge, TextCheck, other_form, shown, verdict
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim


class EndsWith(TextCheck):
    """The answer ends with a text."""

    kind = "ends-with"
    examples = ({"answer": "It costs 120 euros.", "assert": [{"ends-with": "euros."}]},)

    value: Edge = Field(description="how the answer ends; whitespace around both is ignored", examples=["Kind regards"])

    def check(self, answer: str) -> Score:
        text, wanted = trim(answer), trim(self.value)
        if text.endswith(wanted):
            return verdict(True, f"ends with {shown(wanted)}", "")
        end = masked(text)[-len(wanted) :]  # the masker could not find half a secret later
        form = other_form(wanted, text, lambda ending, whole: whole.endswith(ending))
        return verdict(False, "", f"ends with {shown(end)}, not {shown(wanted)}{form}")
