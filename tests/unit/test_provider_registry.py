import json
import pickle

import pytest

from pytest_agentv.cli.init import schema_path
from pytest_agentv.providers.table import KINDS


def test_each_word_of_the_table_finds_its_class() -> None:
    assert {word: KINDS.table[word].kind for word in KINDS.table} == {word: word for word in KINDS.table}


@pytest.mark.parametrize("word", KINDS.table)
def test_each_kind_describes_its_keys_and_can_be_pickled(word: str) -> None:
    kind = KINDS.table[word]
    needed = {"command_template": "run", "callable": "m:f", "model": "m", "url": "http://x", "app": "m:app"}
    settings = kind(**{key: value for key, value in needed.items() if key in kind.model_fields})

    assert pickle.loads(pickle.dumps(settings)) == settings
    assert {name for name, field in kind.model_fields.items() if not field.description} == set()
    assert kind.__doc__


def test_the_schema_knows_the_kinds_of_the_table() -> None:
    target = json.loads(schema_path("targets").read_text("utf-8"))["definitions"]["target"]
    words = target["properties"]["provider"]["anyOf"][0]["enum"]
    shapes = {case["if"]["properties"]["provider"]["const"]: case["then"]["$ref"] for case in target["allOf"]}

    assert set(words) == {*KINDS.table, *KINDS.unsupported}
    assert shapes == {word: f"#/definitions/{KINDS.table[word].__name__}" for word in KINDS.table}
