"""What no folder of the corpus shows of checks: that the corpus has all kinds, their examples, and how long they take.

`tests/corpus/checks-of-every-kind` and `checks-at-their-edges` show what they find.
"""

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs_pages import ROOT, read_page
from hypothesis import given
from hypothesis import strategies as st

import pytest_agentv
from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.text import check_pattern, search_now
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message, ToolCall

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())
CORPUS = Path(__file__).parents[2] / "corpus" / "checks-of-every-kind" / "evals" / "kinds.eval.yaml"
KINDS = {word: kind for word, kind in EVALUATORS.items() if kind.examples and word != "similar"}


@pytest.fixture
def load(tmp_path):
    """Load an evaluator as an eval file has it."""
    (tmp_path / "checks.py").write_text("raise SystemExit\ndef is_polite(answer):\n    return True\n")

    def read(item: Any) -> Any:
        path = tmp_path / "qa.yaml"
        path.write_text(f"evaluators:\n  - {json.dumps(item)}\n", "utf-8")
        source = read_yaml(path)
        place = Place(source, ("evaluators",), [])
        found = load_evaluators(Scope(source.value["evaluators"], place, References(*[tmp_path] * 3), EVALUATORS))
        assert place.problems == []
        return found[0]

    return read


def context_of(answer: str, **given: Any) -> Context:
    return Context(CASE, Prompt("q"), answer).replace(**given)


def test_the_corpus_has_every_check():
    cases = yaml.safe_load(CORPUS.read_text("utf-8"))["cases"]
    assert {case["id"].removesuffix("-passes") for case in cases} >= set(KINDS)


def test_each_word_of_the_table_names_a_class_of_that_kind_whose_keys_are_described():
    for word, kind in EVALUATORS.items():
        assert kind.kind == {"code": "code_judge", "rubric": "llm_judge"}.get(word, word)
        assert kind.__doc__, word
        assert [name for name, field in kind.model_fields.items() if not field.description] == [], word


def test_the_examples_of_a_kind_pass(load, tmp_path):
    messages = (Message("assistant", "x", (ToolCall("search", input={"query": "tent"}),)),)
    for example in [example for kind in set(KINDS) - {"statements"} for example in EVALUATORS[kind].examples]:
        for item in example["assert"]:
            check = load(item)  # the file of a function is not run by loading
            (tmp_path / "checks.py").write_text("def is_polite(answer):\n    return True\n")
            context = context_of(example["answer"], output_messages=messages)
            assert asyncio.run(run_evaluator(check, context)).score == 1.0, item


def test_the_functions_of_the_docs_judge_an_answer_after_a_mark_as_inspect_ai_does(load, tmp_path):
    page = read_page(ROOT / "docs/coming-from.md")
    (block,) = [block for block in page.blocks if block.name == "evals/marks.py"]
    (tmp_path / "marks.py").write_text(block.text, "utf-8")
    verdicts = {
        ("ANSWER: 3.14", 3): "III",
        ("ANSWER: 3", 3): "ICC",
        ("ANSWER: C", "C++"): "III",
        ("The ANSWER: A or maybe ANSWER: B", "A"): "III",
        ("ANSWER: yes (or no)", "yes"): "III",
        ("ANSWER: A\nANSWER: B", "A"): "III",
        ("B", "B"): "III",
        ("ANSWER:\nB", "B"): "CCC",
        ("ANSWER: the tent", "The tent"): "IIC",
    }
    checks = [load({"python": f"marks.py:{kind}"}) for kind in ("is_letter", "is_word", "is_line")]
    for (answer, target), expected in verdicts.items():
        context = context_of(answer, case=CASE.replace(vars={"target": target}))
        found = [asyncio.run(run_evaluator(check, context)).score for check in checks]
        assert "".join("C" if score else "I" for score in found) == expected, answer


@pytest.mark.parametrize(
    ("check", "answer", "seconds"),
    [
        pytest.param({"contains": "x", "path": "a"}, "[" * 60_000, None, marks=pytest.mark.slow),
        ({"regex": "(a|a)+$"}, "a" * 40 + "b", 0.3),
    ],
)
def test_a_check_that_takes_long_does_not_hold_up_the_loop(load, monkeypatch, check, answer, seconds):
    if seconds:
        monkeypatch.setattr("pytest_agentv.evaluators.text.SECONDS", seconds)
    evaluator, pauses = load(check), []

    async def judge_and_look():
        judging = asyncio.ensure_future(run_evaluator(evaluator, context_of(answer)))
        while not judging.done():
            started = time.process_time()
            await asyncio.sleep(0.01)
            pauses.append(time.process_time() - started)
        return judging.result()

    result = asyncio.run(judge_and_look())
    assert (result.score, result.error_kind) == (0.0, "timeout" if seconds else None)
    assert not seconds or "was given up after 0.3 s: it tries too many ways to match" in result.error
    # In the loop, the longest pause would be nearly all of the time.
    assert max(pauses) < 0.3 * sum(pauses), pauses


def test_code_that_hangs_is_given_up(load):
    check = load({"python": "[0 for _ in iter(int, 1)]"})
    result = asyncio.run(run_evaluator(check, context_of("x", timeout_seconds=0.05)))
    assert (result.error, result.error_kind) == ("no result within 0.05 s", "timeout")
    for thread in threading.enumerate():  # it would fill the memory of the machine
        if thread.name == "agentv-python":
            thread.join(20)
    assert [thread for thread in threading.enumerate() if thread.name == "agentv-python"] == []


@pytest.mark.parametrize(("kind", "package"), [("rouge", "rouge-score"), ("bleu", "sacrebleu")])
def test_a_missing_extra_is_one_sentence(load, monkeypatch, kind, package):
    monkeypatch.setattr("pytest_agentv.evaluators.likeness.find_spec", lambda _: None)
    with pytest.raises(EvaluatorError) as caught:
        load({kind: "x"}).prepare(Services())
    assert str(caught.value) == f"`{kind}` needs the package {package}: pip install 'pytest-agentv[text]'"


def test_a_check_loads_no_library_that_it_does_not_need():
    script = (
        "import sys; from pytest_agentv import Contains, IsJson, Regex, Rouge; Contains(value='x');"
        "print({'regex', 'jsonschema_rs', 'rouge_score', 'rapidfuzz', 'sacrebleu', 'aiohttp'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


@given(st.text(alphabet="ab {}1,[]()|\\.", max_size=12), st.text(alphabet="ab {}1,", max_size=12))
def test_a_pattern_that_re_takes_finds_what_re_finds(pattern, text):
    if check_pattern(pattern) is None:
        assert (search_now(pattern, text) is not None) is (re.search(pattern, text) is not None)


def test_no_group_of_ours_is_repeated_possessively():
    """Before 3.11.5, Python continues behind the characters of a repetition that failed (gh-106052)."""
    repeated = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    files = Path(pytest_agentv.__file__).parent.rglob("*.py")
    found = [f"{path.name}: {match[0]}" for path in files for match in repeated.finditer(path.read_text("utf-8"))]
    assert found == []
