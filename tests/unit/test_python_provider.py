import asyncio
import functools
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Message, ToolCall, candidate_answer
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.python import Python, PythonProvider, adapt_provider
from pytest_agentv.runtime.user_code import Outcome, UserLoop

EXPECTED = "a str, a mapping with 'text' or 'output_messages', a result of an agent framework, or a ProviderResponse"
REQUEST = ProviderRequest(Prompt("the question"), "case")


@pytest.fixture(autouse=True)
def clean_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before, path = set(sys.modules), list(sys.path)
    yield
    assert sys.path == path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def respond(source: str, **fields: object) -> ProviderResponse:
    Path("agent.py").write_text(source)
    settings = Python.model_construct(callable="agent.py:run").replace(**fields)
    environment = TargetEnvironment(Target("mine", "python"))
    return asyncio.run(PythonProvider(environment, settings).invoke(REQUEST))


def fault(source: str, kind: ErrorKind = "crash", **fields: object) -> str:
    with pytest.raises(ProviderError) as caught:
        respond(source, **fields)
    assert caught.value.kind == kind
    assert str(caught.value).startswith("target 'mine': agent.py:run")
    return str(caught.value).removeprefix("target 'mine': agent.py:run")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("'hello'", "output_messages is a str: expected a list"),
        ("({'role': 5},)", "output_messages[0].role is a int: expected a text"),
        ("(Message('assistant', '', tool_calls='s'),)", "output_messages[0].tool_calls is a str: expected a list"),
        (
            "(Message('assistant', '', (ToolCall(5),)),)",
            "output_messages[0].tool_calls[0].tool is a int: expected a text",
        ),
        ("trace=({'type': 'tool_call', 'id': 5},)", "trace[0].id is a int: expected a text"),
        ("trace=7", "trace is a int: expected a list"),
        ("retrieved_context='text'", "retrieved_context is a str: expected a list"),
        ("warnings=(1,)", "warnings[0] is a int: expected a text"),
        ("error=1", "error is a int: expected a text"),
        ("finish_reason=5", "finish_reason is a int: expected a text"),
        ("trace_ref=1", "trace_ref is a int: expected a text"),
        ("raw=None", "raw is a NoneType: expected a mapping"),
    ],
)
def test_a_response_of_ours_with_a_wrong_field_says_which_one(fields: str, message: str) -> None:
    text = fault(f"from pytest_agentv import *\ndef run(prompt): return ProviderResponse({fields})")
    assert text == f" returned a ProviderResponse whose {message}"


def test_a_mapping_in_place_of_a_message_is_read() -> None:
    source = (
        "from pytest_agentv import *\ndef run(prompt): return ProviderResponse([{'role': 'assistant', 'content': 'x'}])"
    )
    assert respond(source).output_messages == (Message("assistant", "x"),)


def test_a_mapping_in_place_of_a_message_needs_a_role() -> None:
    text = fault("from pytest_agentv import *\ndef run(prompt): return ProviderResponse([{'content': 'x'}])")
    assert text == " returned a ProviderResponse that is not valid: output_messages.0.role: Field required"


@pytest.mark.parametrize("calls", ["tool_calls", "toolCalls"])
@pytest.mark.parametrize("messages", ["output_messages", "outputMessages"])
def test_a_duration_of_a_tool_call_that_is_no_number_does_not_cost_the_answer(messages: str, calls: str) -> None:
    duration = "durationMs" if calls == "toolCalls" else "duration_ms"
    call = f"{{'tool': 's', 'input': {{'a': 1}}, '{duration}': float('nan')}}"
    message = f"{{'role': 'assistant', 'content': 'x', '{calls}': [{call}]}}"
    response = respond(f"def run(prompt): return {{'{messages}': ({message},)}}")
    assert response.output_messages == (Message("assistant", "x", (ToolCall("s", {"a": 1}),)),)


NULL = "'output_messages': [{'role': 'assistant', 'content': None}]"


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("7", "crash", f"a value of type int: expected {EXPECTED}"),
        ("{'answer': 1, 'b': 2}", "crash", "a mapping with 'answer', 'b': expected 'text' or 'output_messages'"),
        ("{}", "crash", "a mapping with no keys: expected 'text' or 'output_messages'"),
        ("{'text': 'x', 'trace_ref': 1}", "crash", "a mapping that cannot be read: trace_ref:"),
        ("{'text': {1, 2}}", "crash", "a mapping that is no JSON: Object of type set is not JSON serializable"),
        ("{'text': float('nan')}", "no_answer", "a mapping whose 'text' is None: expected a text"),
        ("{'text': None, 'output_messages': []}", "no_answer", "a mapping whose 'text' is None: expected a text"),
        (f"{{{NULL}}}", "no_answer", "a message whose 'content' is None: expected a text"),
        (f"{{'text': None, {NULL}}}", "no_answer", "a message whose 'content' is None: expected a text"),
    ],
)
def test_another_value_is_an_error_that_says_what_was_expected(value: str, kind: ErrorKind, message: str) -> None:
    assert fault(f"def run(prompt): return {value}", kind=kind).startswith(f" returned {message}")


@pytest.mark.parametrize(
    ("broken", "why"),
    [("raise KeyError('x')", "KeyError"), ("return 5", "TypeError"), ("raise SystemExit", "SystemExit")],
)
def test_an_exception_that_cannot_tell_its_text_is_told_with_its_place(broken: str, why: str) -> None:
    odd = f"class Odd(Exception):\n    def __str__(self):\n        {broken}\n"

    assert fault(f"{odd}def run(prompt):\n    raise Odd") == (
        f" raised Odd: (its text cannot be shown: {why})\n  agent.py:5 in run"
    )


def test_a_sync_function_is_abandoned_when_its_time_is_over() -> None:
    source = "import threading\ngate = threading.Event()\ndef run(prompt): gate.wait(60)"
    started, before = time.monotonic(), threading.enumerate()

    text = fault(source, kind="timeout", timeout_seconds=0.1)

    assert text == " timed out after 0.1s; a sync function cannot be stopped: its thread runs on until it returns"
    assert time.monotonic() - started < 5
    new = [thread for thread in threading.enumerate() if thread not in before]
    (thread,) = [thread for thread in new if thread.name == "agentv-python"]
    assert thread.daemon
    _gate_of_agent().set()
    thread.join(5)


def _gate_of_agent() -> threading.Event:
    # The newest: other tests import theirs in this process as well.
    *_, module = [module for name, module in sys.modules.items() if re.fullmatch("agentv_[0-9a-f]{12}_agent", name)]
    gate: threading.Event = module.gate
    return gate


@pytest.mark.scenario("Metrics schema validation")
@pytest.mark.parametrize(
    ("cost", "shown"),
    [("'1'", '"1"'), ("float('nan')", '"NaN"'), ("__import__('decimal').Decimal('0.5')", '"0.5"')],
)
def test_a_metric_that_is_no_number_does_not_cost_the_answer(cost: str, shown: str) -> None:
    response = respond(f"def run(prompt): return {{'text': 'x', 'cost_usd': {cost}, 'duration_ms': 7}}")

    assert candidate_answer(response.output_messages) == "x"
    assert (response.cost_usd, response.duration_ms) == (None, 7)
    assert response.warnings == (f"the answer's cost_usd is {shown} and was left out: expected a number",)


DEEP = """
def run(prompt):
    x = 1
    for _ in range({levels}):
        x = [x]
    return {{'text': {text}, 'output_messages': {messages}, 'duration_ms': {duration}, 'cost_usd': {cost}}}
"""


@pytest.mark.parametrize("levels", [300, 5000])
@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({"text": "x", "messages": "[]", "duration": "1", "cost": "0.5"}, 0.5),
        ({"text": "'a'", "messages": "5", "duration": "x", "cost": "0.5"}, 0.5),
        ({"text": "'a'", "messages": "5", "duration": "x", "cost": "x"}, None),
    ],
)
def test_what_is_nested_too_deeply_is_told_and_does_not_cost_the_figures(
    levels: int, fields: dict[str, str], cost: float | None
) -> None:
    """The error was a bare `WireError` or `RecursionError`, without the function."""
    source = DEEP.format(levels=levels, **fields)
    if cost is None:
        assert fault(source).startswith(" returned a mapping that ")
    else:
        response = respond(source)
        assert response.cost_usd == cost
        assert (response.error or "").startswith("target 'mine': agent.py:run returned a mapping that ")


def test_what_a_generator_returns_is_not_lost_silently() -> None:
    with pytest.raises(ProviderError, match="ends with `return` and a str: yield it, or it is lost"):
        respond("def run(prompt):\n    yield 'hel'\n    return 'lo'")


def test_an_answer_that_is_there_survives_a_function_that_blocks_the_loop_next() -> None:
    loop, blocked, over = UserLoop(), threading.Event(), threading.Event()

    async def hold() -> None:
        blocked.wait(5)

    async def answer() -> str:
        return "hello"

    async def block() -> None:
        over.wait(10)

    async def ask_all() -> Outcome[str]:
        holding = asyncio.create_task(loop.call(hold, None))
        await asyncio.sleep(0)
        quick, slow = (asyncio.create_task(loop.call(each, 20)) for each in (answer, block))
        await asyncio.sleep(0)
        blocked.set()  # from here both begin in one turn of the loop
        try:
            return await asyncio.wait_for(quick, 5)
        finally:
            over.set()
            await asyncio.gather(holding, slow)

    assert asyncio.run(ask_all()).value == "hello"
    loop.close()


OWN = ProviderRequest(Prompt("the question", "the rules"), "case", system_prompt="the contract")


def answer(value: object) -> str:
    return candidate_answer(asyncio.run(adapt_provider(value, "mine").invoke(OWN)).output_messages)


class Provider:
    mode = "agent"

    async def invoke(self, request: ProviderRequest) -> Any:
        return ProviderResponse((Message("assistant", request.eval_id),))


class SyncRunnable:
    def invoke(self, prompt: str) -> str:
        return prompt


class Both(SyncRunnable):
    """As chains of some libraries: to be called, and with an `invoke` that is not async."""

    def __call__(self, prompt: str) -> str:
        return "called"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda prompt: prompt, "the contract\n\nthe rules\n\nthe question"),
        (functools.partial(lambda word, prompt: word, "partial"), "partial"),
        (lambda prompt, request: request.eval_id, "case"),
        (lambda prompt: ProviderResponse((Message("assistant", "a response"),)), "a response"),
        (Provider(), "case"),
        (Both(), "called"),
        (SyncRunnable().invoke, "the contract\n\nthe rules\n\nthe question"),
    ],
)
def test_functions_methods_and_providers_are_asked(value: object, expected: str) -> None:
    assert answer(value) == expected


class Markup(str):
    """As that of template engines, which escapes what is added to it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "escaped"

    def __add__(self, other: str) -> str:
        return Markup(f"{str.__str__(self)}(escaped)")


@pytest.mark.parametrize(
    "value", [Markup("yes"), ProviderResponse((Message("assistant", Markup("yes")),))], ids=["text", "response"]
)
def test_an_answer_is_a_plain_text_as_the_cache_returns_it(value: object) -> None:
    found = answer(lambda prompt: value)

    assert type(found) is str
    assert found == "yes"


@pytest.mark.parametrize(
    ("value", "found", "hint"),
    [
        (5, "a value of type int", ""),
        (int, "the class int", ""),
        (
            SyncRunnable(),
            "a value of type SyncRunnable",
            "; its `invoke` is not async: hand over `object.invoke` itself",
        ),
    ],
)
def test_anything_else_is_refused_with_what_was_expected(value: object, found: str, hint: str) -> None:
    with pytest.raises(ProviderError) as caught:
        adapt_provider(value, "mine")
    expected = "a function that takes the prompt, or an object with an async `invoke`"
    assert (str(caught.value), caught.value.kind) == (f"mine is {found}: expected {expected}{hint}", "config")
