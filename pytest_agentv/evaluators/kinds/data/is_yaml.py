"""`is-yaml`: the answer is YAML."""

from typing import Any, Final

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.comparing.answer_data import no_data, parse_json
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.models.scores import Score

DEEPEST: Final = 100
"""Levels of nesting that are read. The time for more grows with their square."""


class IsYaml(Evaluator):
    """The whole answer is YAML with a mapping or a list. A sentence alone would be YAML too, and is refused.

    All JSON is YAML, and so is a mapping with a key twice. YAML of more than 100 levels of nesting is an error: nobody
    judges the answer.
    """

    kind = "is-yaml"
    short_key = None
    is_graded = False
    examples = ({"answer": "order: 1001\nitems: [tent]", "assert": [{"is-yaml": True}]},)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        return await off_loop(10 * len(context.candidate_answer), _score, context.candidate_answer)


def _score(text: str) -> Score:
    try:
        fault = _fault(text)
    except UnicodeEncodeError:
        fault = "it has half a character, which YAML cannot have"
    return Score(1.0, hits=("is YAML",)) if fault is None else Score(0.0, misses=(no_data("YAML", text, fault),))


def _fault(text: str) -> str | None:
    """Return why a text is not YAML. Raises `EvaluatorError` if it is nested too deeply.

    All JSON is YAML 1.2. The package reads YAML 1.1, and refuses an emoji that is escaped as two halves, for example.
    """
    import yaml  # noqa: PLC0415 - only for this check

    try:
        return _fault_of_syntax(yaml, text)
    except EvaluatorError:
        if not _is_json(text):
            raise
    except yaml.YAMLError as error:
        if not _is_json(text):
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 1}" if mark is not None else ""
            return f"{getattr(error, 'problem', None) or str(error).splitlines()[0]}{where}"
    return None


def _is_json(text: str) -> bool:
    return isinstance(parse_json(text), dict | list)


def _fault_of_syntax(yaml: Any, text: str) -> str | None:
    """Return why a text is not YAML. Reads only its syntax: creates no object, and follows no alias."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth, anchors, has_data = 0, set(), False
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth, has_data = depth + 1, True
            if depth > DEEPEST:
                raise EvaluatorError(
                    f"the answer is nested more than {DEEPEST} levels deep, which is not read", "config"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                return f"the alias *{event.anchor} has no anchor"
        elif getattr(event, "anchor", None):
            anchors.add(event.anchor)
    return None if has_data else "it is a text, and no mapping or list"
