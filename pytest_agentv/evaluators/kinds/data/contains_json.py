"""`contains-json`: there is JSON in the answer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from pytest_agentv.evaluators.base import Context
from pytest_agentv.evaluators.comparing.answer_data import parse_json
from pytest_agentv.evaluators.judging.json_text import FoundObject, FoundValue, json_objects, json_values
from pytest_agentv.evaluators.judging.outer_json import outer_objects, outer_values
from pytest_agentv.evaluators.kinds.data.json_check import JsonCheck
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.scores import Score

_ONLY_A_PART: Final = "only a part of JSON that is cut or broken is as wanted"
_OF_OBJECTS: Final = frozenset(
    {
        *("additionalProperties", "dependencies", "dependentRequired", "dependentSchemas", "maxProperties"),
        *("minProperties", "patternProperties", "properties", "propertyNames", "required", "unevaluatedProperties"),
    }
)
_OF_ALL: Final = frozenset(
    {
        *("additionalItems", "contains", "items", "maxItems", "minItems", "prefixItems", "unevaluatedItems"),
        *("uniqueItems", "type", "const", "enum", "anyOf", "oneOf", "$ref"),
    }
)
"""Keywords that tell whether a list may fit, so that a schema is taken by the letter."""


class ContainsJson(JsonCheck):
    """The answer contains a JSON object or list that fits a JSON Schema; other text around it is allowed.

    Only objects fit a schema that names keys, as `required` does, and says nothing of lists. A part of a value that
    is cut or broken does not count.
    """

    kind = "contains-json"
    examples = (
        {"answer": 'Here it is: {"price": 120}', "assert": [{"contains-json": {"required": ["price"]}}]},
        {"answer": "The list: [1, 2]", "assert": [{"contains-json": True}]},
    )

    def check(self, context: Context) -> Score:
        answer = context.candidate_answer
        first: list[str] | None = None
        for faults in self._faults_of(_json_within(answer)):
            if not faults:
                return Score(1.0, hits=("contains JSON" if self.value is None else "contains JSON as wanted",))
            first = first or faults
        if not all(self._faults_of(_json_amid(answer, json_values, json_objects))):
            return Score(0.0, misses=(_ONLY_A_PART,), unchecked=_ONLY_A_PART)
        nothing = "contains no JSON object" if _is_of_objects(self.value) else "contains no JSON"
        return Score(0.0, misses=(nothing,) if first is None else tuple(first))

    def _faults_of(self, values: Iterable[Json]) -> Iterator[list[str]]:
        """Yield the faults of each value that may fit the schema."""
        takes_lists = not _is_of_objects(self.value)
        return (self.faults(value) for value in values if takes_lists or not isinstance(value, list))


def _is_of_objects(schema: Json) -> bool:
    """Whether a schema says what keys there are, and nothing of lists.

    By the letter, any list fits it: a mark such as [1] would pass for `{required: [price]}`.
    """
    return isinstance(schema, Mapping) and not _OF_OBJECTS.isdisjoint(schema) and _OF_ALL.isdisjoint(schema)


def _json_within(answer: str) -> Iterator[Json]:
    """Yield the lists and objects of an answer: the whole answer, and those amid text."""
    value = parse_json(answer)
    if value is not ABSENT and isinstance(value, dict | list):
        yield value
    yield from _json_amid(answer, outer_values, outer_objects)


def _json_amid(answer: str, *readers: Callable[[str], Iterable[FoundValue | FoundObject]]) -> Iterator[Json]:
    for read in readers:  # the objects in a list also count by themselves
        yield from (found.value for found in read(answer))
