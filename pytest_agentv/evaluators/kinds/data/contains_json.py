"""`contains-json`: there is JSON in the answer."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_agentv.evaluators.base import Context
from pytest_agentv.evaluators.comparing.answer_data import parse_json
from pytest_agentv.evaluators.judging.json_text import json_objects, json_values
from pytest_agentv.evaluators.kinds.data.json_check import JsonCheck
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.scores import Score

_FENCED: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
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

    Only objects fit a schema that names keys, as `required` does, and says nothing of lists.
    """

    kind = "contains-json"
    examples = (
        {"answer": 'Here it is: {"price": 120}', "assert": [{"contains-json": {"required": ["price"]}}]},
        {"answer": "The list: [1, 2]", "assert": [{"contains-json": True}]},
    )

    def check(self, context: Context) -> Score:
        first: list[str] | None = None
        takes_lists = not _is_of_objects(self.value)
        for data in _json_within(context.candidate_answer):
            if isinstance(data, list) and not takes_lists:
                continue
            faults = self.faults(data)
            if not faults:
                return Score(1.0, hits=("contains JSON" if self.value is None else "contains JSON as wanted",))
            first = first or faults
        nothing = "contains no JSON" if takes_lists else "contains no JSON object"
        return Score(0.0, misses=(nothing,) if first is None else tuple(first))


def _is_of_objects(schema: Json) -> bool:
    """Whether a schema says what keys there are, and nothing of lists.

    By the letter, any list fits it: a mark such as [1] would pass for `{required: [price]}`.
    """
    return isinstance(schema, Mapping) and not _OF_OBJECTS.isdisjoint(schema) and _OF_ALL.isdisjoint(schema)


def _json_within(answer: str) -> Iterator[Json]:
    """Yield the lists and objects of an answer: the whole answer, and those in fences and in text."""
    for text in (answer, *_FENCED.findall(answer)):
        value = parse_json(text)
        if value is not ABSENT and isinstance(value, dict | list):
            yield value
    for read in (json_values, json_objects):  # the objects in a list also count by themselves
        yield from (found.value for found in read(answer))
