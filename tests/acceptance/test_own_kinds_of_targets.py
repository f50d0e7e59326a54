"""Kinds of targets as classes of the user's: in runs, in `agentv validate`, as judges."""

import re

import pytest

from pytest_agentv.cli.main import main

CONFTEST = '''
import threading
from typing import Annotated

from pydantic import Field

from pytest_agentv import Provider


class Parrot(Provider):
    """Repeats the prompt."""

    kind = "parrot"

    word: str = Field(description="what it says first")
    times: Annotated[int, Field(ge=1)] = Field(default=1, description="how often")
    shape: str = "text"

    def open(self, environment):
        return Cage(self, environment)


class Cage:
    def __init__(self, settings, environment):
        self.settings = settings
        self.name = environment.name

    def invoke(self, request):
        said = " ".join([self.settings.word] * self.settings.times + [request.prompt.question, self.name])
        return {"text": said, "cost_usd": 0.5} if self.settings.shape == "mapping" else said


class Slow(Parrot):
    kind = "slow"

    def open(self, environment):
        return AsyncCage(self, environment)


class AsyncCage(Cage):
    checks = 0

    async def check(self):
        AsyncCage.checks += 1
        assert AsyncCage.checks == 1

    async def invoke(self, request):
        return super().invoke(request)

    def close(self):
        open("closed", "a").write("closed ")

    async def invoke_batch(self, requests):
        open("batches", "a").write(f"{len(requests)} ")
        return [self.settings.word for _ in requests]


class Empty(Provider):
    kind = "empty"

    def open(self, environment):
        return None


def pytest_agentv_providers():
    return [Parrot, Slow, Empty]
'''

TARGETS = """
targets:
  - {name: default, provider: parrot, word: hello}
  - {name: twice, provider: Parrot, word: "${{ WORD }}", times: 2, shape: mapping}
  - {name: slow, provider: slow, word: hello, workers: 2}
  - {name: together, provider: slow, word: hello, provider_batching: true}
  - {name: empty, provider: empty}
"""


@pytest.fixture
def own(project, suite):
    project.write("conftest.py", CONFTEST)
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", suite(a="hello", b="hello"))
    return project


def answers(run):
    assert run.internals == []
    return {name: result["candidate_answer"] for name, result in run.by_id.items()}


def test_variables_are_filled_in_and_a_mapping_tells_more(own, monkeypatch):
    monkeypatch.setenv("WORD", "hello")
    run = own.run("--agentv-target=twice")
    assert answers(run) == dict.fromkeys("ab", "hello hello Say hello twice")
    assert run.by_id["a"]["execution_metrics"]["cost_usd"] == 0.5


def test_the_other_parts_of_an_adapter_are_called(own):
    assert own.run("--agentv-target=slow").statuses == {"a": "pass", "b": "pass"}
    assert (own.path / "closed").read_text() == "closed "


def test_an_adapter_may_batch(own):
    own.write(".env", "WORD=hello\n")
    conftest = CONFTEST.replace("checks = 0\n", "checks = 0\n    reads_environ = True\n")
    own.write("conftest.py", conftest.replace("[self.settings.word for", "[__import__('os').environ['WORD'] for"))
    assert own.run("--agentv-target=together").statuses == {"a": "pass", "b": "pass"}
    assert (own.path / "batches").read_text() == "2 "


STRICT = """
    from pydantic import field_validator
    from pytest_agentv import Evaluator, Provider, Score

    def checked(value):
        raise SystemExit("gone") if value == "exit" else ZeroDivisionError("odd")

    class Strict(Provider):
        kind = "strict"
        value: str
        check = field_validator("value")(checked)

        def open(self, environment):
            return self

    class Judge(Evaluator):
        kind = "judge"
        value: str
        check = field_validator("value")(checked)

        def evaluate(self, context):
            return Score(1.0)

    def pytest_agentv_providers():
        return [Strict]

    def pytest_agentv_evaluators():
        return [Judge]
    """


@pytest.mark.parametrize(("value", "error"), [("exit", "SystemExit: gone"), ("odd", "ZeroDivisionError: odd")])
def test_a_validator_of_a_kind_that_raises_anything_is_a_fault_with_its_place(
    project, suite, monkeypatch, capsys, value, error
):
    project.write("conftest.py", STRICT)
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("evals/targets.yaml", f"targets: [{{name: default, provider: strict, value: {value}}}]\n")
    project.write("evals/a.eval.yaml", suite(a="hello"))
    case = f"{{id: b, expected_outcome: o, input: q, evaluators: [{{judge: {value}}}]}}"
    project.write("b.eval.yaml", f"evalcases: [{case}]\n")
    run = project.run()
    errors = {name: result["error"] for name, result in run.by_id.items()}
    assert errors["a"] == f"evals/targets.yaml:1: targets[0]: Strict raised {error}"
    assert errors["b"] == f"b.eval.yaml:1: evalcases[0].evaluators[0]: Judge raised {error}"
    assert run.internals == []
    monkeypatch.chdir(project.path)
    assert main(["validate", "."]) == 1
    printed = capsys.readouterr().out
    assert f"evals/targets.yaml:1: error: targets[0]: Strict raised {error}\n" in printed
    assert f"b.eval.yaml:1: error: evalcases[0].evaluators[0]: Judge raised {error}\n" in printed


KINDS_IN_FILES = """
from pytest_agentv import Provider

from words import WORD


class Listed(Provider):
    kind = "listed"

    def open(self, environment):
        return Answering("")


class Derived(Listed):
    kind = "derived"


class Answering:
    def __init__(self, end):
        self.end = end

    def invoke(self, request):
        with open("asked.txt", "a") as file:
            file.write("x")
        return WORD + self.end


def made(target, variables, end=""):
    return Answering(end)
"""

DECORATOR = """
import functools


def decorate(function):
    return functools.wraps(function)(lambda *arguments: function(*arguments))
"""

FORMS = """
import functools

import parts
from plain import decorate


def pytest_agentv_providers():
    partly = functools.partial(parts.made, end="!")
    return {"mapped": parts.Listed, "function": parts.made, "partly": partly, "wrapped": decorate(parts.made)}
"""


def test_results_are_not_kept_when_the_code_of_an_own_kind_has_changed(project, suite):
    """A resumed run kept the answers of the old code: it could pass where a fresh run failed."""
    forms = ("listed", "derived", "mapped", "function", "partly", "wrapped")
    project.write("parts.py", KINDS_IN_FILES)
    project.write("words.py", 'WORD = "hello"\n')
    project.write("plain.py", DECORATOR)
    project.write("conftest.py", FORMS)
    project.write(
        "evals/conftest.py", "import parts\ndef pytest_agentv_providers(): return [parts.Listed, parts.Derived]\n"
    )
    targets = "".join(f"  - {{name: {form}, provider: {form}}}\n" for form in forms)
    project.write("evals/targets.yaml", f"targets:\n{targets}")
    project.write("evals/a.eval.yaml", f"matrix: {{target: [{', '.join(forms)}]}}\n{suite(a='hello')}")
    assert project.run("evals", "--agentv-out=run.jsonl").outcomes == {"passed": 6, "warnings": 2}
    assert project.run("evals", "--agentv-resume=run.jsonl").outcomes == {"passed": 6, "warnings": 2}
    assert (project.path / "asked.txt").read_text() == "x" * 8, "the partial and the wrapped function may have changed"
    project.write("words.py", 'WORD = "good evening"\n')
    assert project.run("evals", "--agentv-resume=run.jsonl").outcomes == {"failed": 6, "warnings": 2}
    assert (project.path / "asked.txt").read_text() == "x" * 14


ODD_ANSWERS = """
    from pytest_agentv import Message, Provider, ProviderResponse, ToolCall, TraceEvent

    class OwnResponse(ProviderResponse):
        pass

    class OwnMessage(Message):
        pass

    class OwnCall(ToolCall):
        pass

    class OwnEvent(TraceEvent):
        pass

    class Odd(Provider):
        kind = "odd"
        said: str

        def open(self, environment):
            return self

        def invoke(self, request):
            endless = {}
            endless["a"] = endless
            if self.said == "nothing":
                return {"text": None, "cost_usd": 0.5}
            if self.said == "no message":
                return ProviderResponse("hello", cost_usd=0.5)
            if self.said == "subclasses":
                messages = (OwnMessage("assistant", "hello", (OwnCall("t"),)),)
                return OwnResponse(messages, (OwnEvent("tool_call", name="t"),), cost_usd=0.5)
            if self.said == "lists":
                call, event = ToolCall("t", {"a": 1}), TraceEvent("tool_call", name="t")
                messages = [Message("user", "q"), Message("assistant", "hello", [call])]
                return ProviderResponse(messages, [event], cost_usd=0.5, retrieved_context=["text"], warnings=["w"])
            calls = {
                "endless call": ToolCall("t", input=endless),
                "long number": ToolCall("t", output=[10**5000]),
                "odd call": ToolCall("t", id=5),
            }
            if self.said in calls:
                return ProviderResponse((Message("assistant", "hello", (calls[self.said],)),), cost_usd=0.5)
            if self.said == "mapping":
                return {"text": "hello", "trace": [{"type": "tool_call", "input": 10**5000}], "cost_usd": 0.5}
            content = {"object": {"a": object()}, "endless": endless}.get(self.said, "hello")
            raw = {"request_attempts": "two"}
            finish = "length" if self.said == "endless" else None
            return ProviderResponse((Message("assistant", content),), cost_usd=0.5, raw=raw, finish_reason=finish)

    def pytest_agentv_providers():
        return [Odd]
    """


UNREADABLE = {
    "object": "the answer cannot be read: TypeError: Object of type object is not JSON serializable",
    "endless": "the answer cannot be read: ValueError: the values of the content of a message are nested more",
    "endless call": "the answer cannot be read: ValueError: the values of the input of the call of 't' are nested",
    "long number": "the answer cannot be read: ValueError: the values of the output of the call of 't' hold a whole",
    "mapping": "invoke() returned a mapping that is no JSON: Exceeds the limit",
    "odd call": "invoke() returned a ProviderResponse whose output_messages[0].tool_calls[0].id is a int: expected a",
    "nothing": "invoke() returned a mapping whose 'text' is None",
    "no message": "invoke() returned a ProviderResponse whose output_messages",
}


@pytest.fixture
def odd(project):
    """Return what runs a case for each answer of `ODD_ANSWERS`."""

    def run(*answers):
        project.write("conftest.py", ODD_ANSWERS)
        targets = "".join(f"  - {{name: {said}, provider: odd, said: {said}}}\n" for said in answers)
        project.write("targets.yaml", f"targets:\n{targets}")
        check = "assert: [contains: hello]"
        cases = "".join(f"  - {{id: {said}, target: {said}, input: q, {check}}}\n" for said in answers)
        project.write("qa.eval.yaml", f"cases:\n{cases}")
        return project.run("--agentv-include-trace")

    return run


def test_an_answer_that_cannot_be_read_is_an_error_of_the_target_that_keeps_its_cost(odd):
    run = odd(*UNREADABLE, "hello")
    for said, error in UNREADABLE.items():
        result = run.by_id[said]
        assert error in result["error"].partition("\n")[0]
        assert result["error_detail"] == {"stage": "provider", "kind": "no_answer" if said == "nothing" else "crash"}
        assert (result["attempts"], result["cost_source"]) == (1, "target")
    assert {result["execution_metrics"]["cost_usd"] for result in run.results} == {0.5}
    assert (run.by_id["hello"]["status"], run.by_id["hello"].get("request_attempts")) == ("pass", None)


def test_records_of_own_classes_and_in_lists_are_kept_by_a_resumed_run(odd, project):
    """The first were an error that lost the cost. The others were written as their `repr`."""
    for result in odd("subclasses", "lists").results:
        assert (result["status"], result["execution_metrics"]["cost_usd"]) == ("pass", 0.5)
        assert result["output_messages"][-1]["tool_calls"][0]["tool"] == "t"
        assert result["trace"][0]["name"] == "t"
    run = project.run(f"--agentv-resume={project.path / 'out-1.jsonl'}", "--agentv-include-trace")
    assert "skipped" not in run.text
    assert len((project.path / "out-1.jsonl").read_text().splitlines()) == 2


ODD_KINDS = """
    from pytest_agentv import Evaluator, EvaluatorError, Provider, ProviderError, ProviderResponse

    class Odd(Provider):
        kind = "odd"

        def open(self, environment):
            return self

        def invoke(self, request):
            if request.eval_id == "raised":
                raise ProviderError("gone", kind="unavailable")
            return ProviderResponse(error="gone", error_kind="unavailable", cost_usd=0.5)

        def invoke_batch(self, requests):
            return [ProviderResponse(error="gone", error_kind="unavailable", cost_usd=0.5) for request in requests]

    class Judge(Evaluator):
        kind = "judge"

        def evaluate(self, context):
            error = EvaluatorError("gone")
            error.kind = "unavailable"
            raise error

    def pytest_agentv_providers():
        return [Odd]

    def pytest_agentv_evaluators():
        return [Judge]
    """


def test_an_unknown_kind_of_an_error_is_a_crash_that_costs_no_record(project):
    project.write("conftest.py", ODD_KINDS)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: odd}
          - {name: together, provider: odd, provider_batching: true}
          - {name: canned, provider: mock, response: hello}
        """,
    )
    project.write(
        "qa.eval.yaml",
        """
        evaluators: [{contains: hello}]
        cases:
          - {id: raised, input: q}
          - {id: returned, input: q}
          - {id: batched, input: q, target: together}
          - {id: judged, input: q, target: canned, evaluators: [{type: judge}]}
        """,
    )
    run = project.run()
    for name, result in run.by_id.items():
        assert result["error"].startswith("gone (its kind 'unavailable' is unknown: expected timeout, auth, ")
        stage = "evaluator" if name == "judged" else "provider"
        assert result["error_detail"] == {"stage": stage, "kind": "crash"}
        cost = 0.5 if name in ("returned", "batched") else None
        assert result.get("execution_metrics", {}).get("cost_usd") == cost
    assert "4 errors)" in run.text
    assert "lost" not in run.text


SLOW_PARTS = """
    import asyncio
    from pytest_agentv import Provider

    class Sleepy(Provider):
        kind = "sleepy"
        asleep: str

        def open(self, environment):
            return Sleeper(self.asleep)

    class Sleeper:
        def __init__(self, asleep):
            self.asleep = asleep

        async def rest(self, part):
            open("calls", "a").write(f"{part} ")
            await asyncio.sleep(60 if part == self.asleep else 0)

        async def check(self):
            await self.rest("check")

        async def close(self):
            await self.rest("close")

        async def invoke(self, request):
            await self.rest("invoke")
            return "hello"

        async def invoke_batch(self, requests):
            await self.rest("batch")
            said = {"text": "hello", "cost_usd": 0.5}
            return [None if request.eval_id == "none" else said for request in requests]

    def pytest_agentv_providers():
        return [Sleepy]
    """


@pytest.fixture
def sleepy(project, suite):
    def run(asleep, keys, parts=SLOW_PARTS):
        project.write("conftest.py", parts)
        project.write("targets.yaml", f"targets: [{{name: default, provider: sleepy, asleep: {asleep}, {keys}}}]\n")
        project.write("a.eval.yaml", suite(a="hello", none="hello"))
        return project.run("--agentv-timeout=0.3", "--agentv-max-retries=0")

    return run


def test_a_batch_that_hangs_is_timed_out_like_other_calls(sleepy, project):
    run = sleepy("batch", "provider_batching: true")
    assert run.statuses == {"a": "pass", "none": "pass"}
    assert (project.path / "calls").read_text().split() == ["check", "batch", "invoke", "invoke", "close"]


def test_a_check_that_hangs_is_an_error_of_the_cases(sleepy):
    run = sleepy("check", "workers: 1")
    assert run.by_id["a"]["error"] == "target 'default' (targets.yaml:1) timed out after 0.3s"
    assert run.by_id["a"]["error_detail"] == {"stage": "setup", "kind": "timeout"}


def test_a_close_that_hangs_does_not_hold_up_the_end_of_the_run(sleepy):
    assert sleepy("close", "workers: 1").statuses == {"a": "pass", "none": "pass"}


NO_LISTS = {
    '{r.eval_id: "sorry" for r in requests}': "a value of type dict",
    '"ab"': "a value of type str",
    '{"yes", "no"}': "a value of type set",
    "None": "a value of type NoneType",
    '(each for each in ("yes", "no"))': "a generator",
}


def test_a_batch_that_is_no_list_of_answers_is_an_error_of_its_cases(project, suite):
    for number, value in enumerate(NO_LISTS):
        project.write(f"{number}/conftest.py", re.sub(r"return \[None if .*", f"return {value}", SLOW_PARTS))
        keys = "provider: sleepy, asleep: nothing, provider_batching: true"
        project.write(f"{number}/targets.yaml", f"targets: [{{name: default, {keys}}}]\n")
        project.write(f"{number}/a.eval.yaml", suite(a="hello", b="hello"))
    run = project.run()
    assert [result["error"].partition("invoke_batch() ")[2] for result in run.results] == [
        f"returned {found}, expected a list of answers" for found in NO_LISTS.values() for _ in "ab"
    ]
    assert (project.path / "calls").read_text().split().count("invoke") == 0, "nothing is paid for again"


def test_a_value_of_a_batch_that_is_no_answer_is_an_error_of_its_case_only(sleepy, project):
    run = sleepy("nothing", "provider_batching: true")
    assert run.statuses == {"a": "pass", "none": "error"}
    assert run.by_id["none"]["error"].startswith("target 'default' (targets.yaml:1): invoke_batch() returned None")
    assert run.by_id["none"]["error_detail"] == {"stage": "provider", "kind": "crash"}
    assert run.by_id["a"]["execution_metrics"]["cost_usd"] == 0.5
    assert (project.path / "calls").read_text().split() == ["check", "batch", "close"], "nothing is paid for again"


WORDLESS = """
    from pytest_agentv import Message, Provider, ProviderError, ProviderResponse

    class Wordless(Provider):
        kind = "wordless"

        def open(self, environment):
            return self

        def invoke(self, request):
            try:
                raise TimeoutError
            except TimeoutError as error:
                raise ProviderError(str(error), kind="network")

        def invoke_batch(self, requests):
            return [ProviderResponse((Message("assistant", "hello"),), error="") for _ in requests]

    def pytest_agentv_providers():
        return [Wordless]
    """


def test_an_error_without_a_word_is_an_error_that_says_what_it_can(project):
    project.write("conftest.py", WORDLESS)
    project.write(
        "targets.yaml",
        "targets: [{name: default, provider: wordless}, {name: b, provider: wordless, provider_batching: true}]\n",
    )
    check = "assert: [contains: hello]"
    project.write("qa.eval.yaml", f"cases: [{{id: a, input: q, {check}}}, {{id: b, input: q, target: b, {check}}}]\n")
    assert {name: result["error"] for name, result in project.run().by_id.items()} == {
        "a": "ProviderError without a text, raised after TimeoutError",
        "b": "the target gave an empty `error`, which does not say why there is no answer",
    }
