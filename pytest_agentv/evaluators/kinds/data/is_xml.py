"""`is-xml`: the answer is XML."""

from typing import Final
from xml.parsers import expat

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.comparing.answer_data import no_data
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim

_ENCODING: Final = "utf-8"
"""What expat is given. It ignores the encoding that the answer declares, because an answer is a text, not bytes."""
_NAMESPACES: Final = "\n"
"""Has expat check prefixes: other readers of XML refuse one that is not declared. No name contains a line break."""


class IsXml(Evaluator):
    """The whole answer is well-formed XML, and declares its prefixes.

    A DOCTYPE may name a document, which is not loaded. One with declarations between brackets, which could define
    entities, is an error: nobody judges the answer.
    """

    kind = "is-xml"
    short_key = None
    is_graded = False
    examples = ({"answer": "<order><id>1001</id></order>", "assert": [{"is-xml": True}]},)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        return await off_loop(len(context.candidate_answer), _score, trim(context.candidate_answer))


def _score(text: str) -> Score:
    fault = _fault(text)
    return Score(1.0, hits=("is XML",)) if fault is None else Score(0.0, misses=(no_data("XML", text, fault),))


def _fault(text: str) -> str | None:
    """Return why a text is not XML. Raises `EvaluatorError` for declarations: without them, no entities can grow."""
    parser = expat.ParserCreate(_ENCODING, _NAMESPACES)

    def refuse(name: str, system_id: str | None, public_id: str | None, has_declarations: int) -> None:  # noqa: ARG001
        if has_declarations:
            raise EvaluatorError("the answer has a DOCTYPE with declarations, which are not read", "config")

    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.encode(_ENCODING, "surrogatepass"), True)
    except (expat.ExpatError, ValueError) as error:
        return str(error)
    return None
