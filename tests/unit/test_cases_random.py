"""No eval file, however odd, raises anything but our errors."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import CaseError, SourceError
from pytest_agentv.evaluators import table

VALID = "target: t\nevalcases:\n  - id: a\n    outcome: ok\n    input: [{role: user, content: hi}]\n    rubrics: [x]\n"
KEYS = st.sampled_from(
    [
        *("id", "expected_outcome", "input", "input_messages", "expected_output", "execution", "evaluators", "rubrics"),
        *("threshold", "target", "role", "content", "type", "value", "name", "weight", "script", "cwd", "prompt"),
        *("aggregator", "weights", "fields", "minimums", "mode", "expected", "tool_calls", "tool", "args"),
    ]
) | st.text(max_size=3)
KINDS = st.sampled_from(
    [
        *("llm_judge", "rubric", "code", "code_judge", "composite", "tool_trajectory", "field_accuracy", "latency"),
        *("cost", "token_usage", "heuristic"),
    ]
)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["user", "file", "text", "composite"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=15
)
EVALUATORS = st.builds(
    lambda kind, rest: {"name": "e", "type": kind, **rest}, KINDS, st.dictionaries(KEYS, VALUES, max_size=4)
)
CASES = st.builds(
    lambda rest, evaluators: {"id": "a", "outcome": "ok", "input": "hi", "evaluators": evaluators, **rest},
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.lists(EVALUATORS, max_size=3),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=3), st.lists(CASES | VALUES, max_size=3))
def test_no_file_raises_anything_but_our_errors(header: dict[str, Any], cases: list[Any]) -> None:
    check_file(yaml.safe_dump({**header, "evalcases": cases}, allow_unicode=True))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_mutated_file_raises_anything_but_our_errors(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(VALID)))
    length = data.draw(st.integers(0, 8))
    check_file(VALID[:position] + data.draw(st.text(max_size=4)) + VALID[position + length :])


def check_file(text: str) -> None:
    path = Path("random.yaml")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        suite = read_suite(path)
    except SourceError:
        return
    for entry in suite.entries:
        try:
            load_case(suite, entry, LoadContext(Path.cwd(), Path.cwd(), evaluators=table.EVALUATORS))
        except CaseError:
            continue
