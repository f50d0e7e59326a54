"""`is-xml`: the answer is XML."""

from typing import Final
from xml.parsers import expat

from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim

DEEPEST: Final = 1000
"""Levels of nesting that are read."""
_ENCODING: Final = "utf-8"
"""What expat is given. It ignores the encoding that the answer declares, because an answer is a text, not bytes."""
_NAMESPACES: Final = "\n"
"""Has expat check prefixes: other readers of XML refuse one that is not declared. No name contains a line break."""


class IsXml(Evaluator):
    """The whole answer is well-formed XML, and declares its prefixes.

    One with a DOCTYPE is refused: it could define entities.
    """

    kind = "is-xml"
    short_key = None
    is_graded = False
    examples = ({"answer": "<order><id>1001</id></order>", "assert": [{"is-xml": True}]},)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        return await off_loop(len(context.candidate_answer), _score, trim(context.candidate_answer))


class _Refused(Exception):
    pass


def _score(text: str) -> Score:
    fault = _fault(text)
    return Score(1.0, hits=("is XML",)) if fault is None else Score(0.0, misses=(f"is no XML: {fault}",))


def _fault(text: str) -> str | None:
    """Return why a text is not XML. Without a DOCTYPE, no entities can grow, and no files can be loaded."""
    parser = expat.ParserCreate(_ENCODING, _NAMESPACES)
    depth = 0

    def enter(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise _Refused(f"it is nested more than {DEEPEST} levels deep")

    def leave(_: object) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: object) -> None:
        raise _Refused("it has a DOCTYPE, which is not read")

    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.encode(_ENCODING, "surrogatepass"), True)
    except (expat.ExpatError, _Refused, ValueError) as error:
        return str(error)
    return None
