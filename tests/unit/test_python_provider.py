import asyncio
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, candidate_answer
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python import Python, PythonProvider
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


def provider(source: str, name: str = "agent.py:run", **fields: object) -> PythonProvider:
    Path("agent.py").write_text(source)
    return PythonProvider("mine", Python.model_construct(callable=name).replace(**fields), Path.cwd())


def invoke(source: str, name: str = "agent.py:run", request: ProviderRequest = REQUEST, **fields: object) -> str:
    return candidate_answer(respond(source, name, request, **fields).output_messages)


def respond(
    source: str, name: str = "agent.py:run", request: ProviderRequest = REQUEST, **fields: object
) -> ProviderResponse:
    return asyncio.run(provider(source, name, **fields).invoke(request))


def fault(
    source: str,
    name: str = "agent.py:run",
    kind: ErrorKind = "config",
    request: ProviderRequest = REQUEST,
    **fields: object,
) -> str:
    with pytest.raises(ProviderError) as caught:
        respond(source, name, request, **fields)
    assert caught.value.kind == kind
    prefix = f"target 'mine': {name}"
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix)


@pytest.mark.parametrize(
    "source",
    [
        "def run(prompt): return prompt.upper()",
        "async def run(prompt): return prompt.upper()",
        "async def inner(prompt): return prompt.upper()\ndef run(prompt): return inner(prompt)",
        "class Agent:\n  def __call__(self, prompt): return prompt.upper()\nrun = Agent()",
        "class Agent:\n  async def __call__(self, prompt): return prompt.upper()\nrun = Agent()",
        "import functools\ndef f(a, prompt): return prompt.upper()\nrun = functools.partial(f, 1)",
        "import functools\nasync def f(a, prompt): return prompt.upper()\nrun = functools.partial(f, 1)",
        "run = str.upper",
    ],
)
def test_a_function_answers_sync_or_async(source: str) -> None:
    assert invoke(source) == "THE QUESTION"


def test_the_prompt_has_a_judges_system_prompt_and_the_guidelines_first() -> None:
    request = ProviderRequest(Prompt("question", "<file>rules</file>"), "case")

    assert invoke("def run(prompt): return prompt", request=request) == "<file>rules</file>\n\nquestion"
    judged = request.replace(system_prompt="judge")
    assert invoke("def run(prompt): return prompt", request=judged) == "judge\n\n<file>rules</file>\n\nquestion"


def test_arguments_and_the_request_are_handed_over() -> None:
    source = "def run(prompt, *, style, request): return f'{style} {request.eval_id} {request.attempt}'"

    assert invoke(source, arguments={"style": "terse"}) == "terse case 0"


def test_a_first_parameter_named_request_is_the_prompt() -> None:
    assert invoke("def run(request): return request") == "the question"


def test_a_mapping_has_the_shape_of_the_command_line_provider() -> None:
    response = respond(
        "def run(prompt):\n"
        "    call = {'tool': 'search', 'input': {'aB': (1, 2)}}\n"
        "    message = {'role': 'assistant', 'content': 'found', 'toolCalls': [call]}\n"
        "    return {'output_messages': [message], 'token_usage': {'input': 1, 'output': 2},"
        " 'cost_usd': 0.5, 'duration_ms': 7}\n"
    )

    assert response == ProviderResponse(
        output_messages=(Message("assistant", "found", (ToolCall("search", {"aB": [1, 2]}),)),),
        token_usage=TokenUsage(1, 2),
        cost_usd=0.5,
        duration_ms=7,
    )


def test_a_text_that_is_no_string_is_json() -> None:
    assert invoke("def run(prompt): return {'text': {'a': [1, None]}}") == '{"a":[1,null]}'


def test_messages_come_before_a_text_that_is_none() -> None:
    message = "{'role': 'assistant', 'content': 'hello'}"
    assert invoke(f"def run(prompt): return {{'text': None, 'output_messages': [{message}]}}") == "hello"


def test_a_response_of_ours_is_handed_on() -> None:
    source = (
        "from pytest_agentv.model.messages import Message\n"
        "from pytest_agentv.providers.base import ProviderResponse\n"
        "def run(prompt): return ProviderResponse((Message('assistant', 'x'),), error='careful', duration_ms=1)\n"
    )

    assert respond(source) == ProviderResponse((Message("assistant", "x"),), error="careful", duration_ms=1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("'hello'", "output_messages is a str: expected a tuple of Message"),
        ("({'role': 'assistant'},)", "output_messages[0] is a dict: expected a Message"),
        (
            "(Message('assistant', 'x', tool_calls='search'),)",
            "output_messages[0].tool_calls is a str: expected a tuple",
        ),
        (
            "(Message('assistant', 'x', ({'tool': 's'},)),)",
            "output_messages[0].tool_calls[0] is a dict: expected a ToolCall",
        ),
        ("trace=({'type': 'tool_call'},)", "trace[0] is a dict: expected a TraceEvent"),
        ("trace=7", "trace is a int: expected a tuple of TraceEvent"),
        ("retrieved_context='text'", "retrieved_context is a str: expected a tuple of str"),
        ("warnings=(1,)", "warnings[0] is a int: expected a str"),
        ("error=1", "error is a int: expected a str"),
        ("finish_reason=b'stop'", "finish_reason is a bytes: expected a str"),
        ("trace_ref=1", "trace_ref is a int: expected a str"),
        ("raw=None", "raw is a NoneType: expected a dict"),
    ],
)
def test_a_response_of_ours_with_a_wrong_field_says_which_one(fields: str, message: str) -> None:
    text = fault(f"from pytest_agentv import *\ndef run(prompt): return ProviderResponse({fields})", kind="crash")
    assert text.startswith(f" returned a ProviderResponse whose {message}")


def test_lists_in_a_response_of_ours_are_fine() -> None:
    call = "ToolCall('search', {'q': 1})"
    source = (
        f"def run(prompt): return ProviderResponse([Message('assistant', 'x', [{call}])], trace=[], warnings=['w'])"
    )
    assert invoke(f"from pytest_agentv import *\n{source}") == "x"


@pytest.mark.parametrize("spelling", ["duration_ms", "durationMs"])
@pytest.mark.parametrize("messages", ["output_messages", "outputMessages"])
@pytest.mark.parametrize("calls", ["tool_calls", "toolCalls"])
def test_a_duration_of_a_tool_call_that_is_no_number_does_not_cost_the_answer(
    messages: str, calls: str, spelling: str
) -> None:
    call = f"{{'tool': 's', 'input': {{'a': 1}}, '{spelling}': float('nan')}}"
    message = f"{{'role': 'assistant', 'content': 'x', '{calls}': [{call}]}}"
    response = respond(f"def run(prompt): return {{'{messages}': ({message},)}}")
    assert response.output_messages == (Message("assistant", "x", (ToolCall("s", {"a": 1}),)),)
    assert response.warnings == ('the answer\'s duration_ms is "nan" and was left out: expected a number',)


def test_the_duration_falls_back_to_the_wall_clock() -> None:
    response = respond("import time\ndef run(prompt): time.sleep(0.1); return 'x'")

    assert response.duration_ms is not None
    assert 90 < response.duration_ms < 10_000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "None",
            f"None: expected {EXPECTED}",
        ),
        (
            "7",
            f"a value of type int: expected {EXPECTED}",
        ),
        ("{'answer': 1, 'b': 2}", "a mapping with 'answer', 'b': expected 'text' or 'output_messages'"),
        ("{}", "a mapping with no keys: expected 'text' or 'output_messages'"),
        ("{'text': 'x', 'trace_ref': 1}", None),
        ("{'text': {1, 2}}", "a mapping that is no JSON: Object of type set is not JSON serializable"),
        ("{'text': float('nan')}", "a mapping that is no JSON: Out of range float values are not JSON compliant"),
    ],
)
def test_another_value_is_an_error_that_says_what_was_expected(value: str, message: str | None) -> None:
    text = fault(f"def run(prompt): return {value}", kind="crash")

    if message is None:
        assert text.startswith(" returned a mapping that cannot be read: trace_ref:")
    else:
        assert text.removesuffix(": nan") == f" returned {message}"  # Python 3.12 adds the value


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("{'text': None}", "a mapping whose 'text' is None"),
        ("{'text': None, 'output_messages': []}", "a mapping whose 'text' is None"),
        ("{'output_messages': [{'role': 'assistant', 'content': None}]}", "a message whose 'content' is None"),
        (
            "{'text': None, 'output_messages': [{'role': 'assistant', 'content': None}]}",
            "a message whose 'content' is None",
        ),
    ],
)
def test_null_is_no_answer(value: str, what: str) -> None:
    text = fault(f"def run(prompt): return {value}", kind="no_answer")

    assert text == f" returned {what}: expected a text"


def test_an_exception_is_told_with_its_place_in_the_users_code() -> None:
    source = "def inner():\n    raise ValueError('no luck')\n\ndef run(prompt):\n    inner()\n"

    assert fault(source, kind="crash") == (" raised ValueError: no luck\n  agent.py:5 in run\n  agent.py:2 in inner")


def test_an_exception_of_an_async_function_is_told_the_same_way() -> None:
    assert fault("async def run(prompt):\n    raise RuntimeError", kind="crash") == (
        " raised RuntimeError\n  agent.py:2 in run"
    )


@pytest.mark.parametrize("head", ["def", "async def"])
def test_a_function_that_exits_ends_no_run(head: str) -> None:
    source = f"import sys\n{head} run(prompt):\n    sys.exit(3)"

    assert fault(source, kind="crash") == " raised SystemExit: 3\n  agent.py:3 in run"


@pytest.mark.parametrize(
    ("broken", "why"),
    [("raise KeyError('x')", "KeyError"), ("return 5", "TypeError"), ("raise SystemExit", "SystemExit")],
)
def test_an_exception_that_cannot_tell_its_text_is_told_with_its_place(broken: str, why: str) -> None:
    odd = f"class Odd(Exception):\n    def __str__(self):\n        {broken}\n"

    assert fault(f"{odd}def run(prompt):\n    raise Odd", kind="crash") == (
        f" raised Odd: (its text cannot be shown: {why})\n  agent.py:5 in run"
    )


@pytest.mark.parametrize("head", ["def", "async def"])
def test_a_timeout_of_the_functions_own_is_one(head: str) -> None:
    source = f"{head} run(prompt):\n    raise TimeoutError('the model is slow')"

    assert fault(source, kind="timeout") == " raised TimeoutError: the model is slow\n  agent.py:2 in run"


def test_a_function_may_say_itself_of_which_kind_its_failure_is() -> None:
    source = (
        "from pytest_agentv.errors import ProviderError\n"
        "def run(prompt): raise ProviderError('slow down', 'rate_limit')\n"
    )

    with pytest.raises(ProviderError, match=r"^slow down$") as caught:
        respond(source)

    assert caught.value.kind == "rate_limit"


@pytest.mark.parametrize(("own", "run"), [(0.1, None), (None, 0.1), (0.1, 50), (50, 0.1)])
def test_an_async_function_is_cancelled_when_its_time_is_over(own: float | None, run: float | None) -> None:
    source = (
        "import asyncio, pathlib\n"
        "async def run(prompt):\n"
        "    try:\n        await asyncio.sleep(1000)\n"
        "    finally:\n        pathlib.Path('cleaned').touch()\n"
    )

    request = REQUEST.replace(timeout_seconds=run)

    assert fault(source, kind="timeout", request=request, timeout_seconds=own) == " timed out after 0.1s"
    assert Path("cleaned").exists()


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


def test_cancelling_is_not_reported_as_a_failure() -> None:
    source = "import asyncio\nasync def run(prompt): await asyncio.sleep(1000)"

    async def scenario() -> None:
        asked = provider(source)
        await asked.check()
        task = asyncio.ensure_future(asked.invoke(REQUEST))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_sync_functions_run_side_by_side() -> None:
    source = "import threading\nbarrier = threading.Barrier(5)\ndef run(prompt): barrier.wait(10); return 'x'"

    async def scenario() -> list[ProviderResponse]:
        asked = provider(source)
        return await asyncio.gather(*(asked.invoke(REQUEST) for _ in range(5)))

    assert len(asyncio.run(scenario())) == 5


def test_a_file_is_imported_once_by_all_who_name_it() -> None:
    source = (
        "import pathlib\n"
        "log = pathlib.Path('log')\n"
        "log.write_text((log.read_text() if log.exists() else '') + 'x')\n"
        "def run(prompt): return prompt\n"
        "def other(prompt): return prompt\n"
    )

    async def scenario() -> None:
        first, second = provider(source), provider(source, "./agent.py:other")
        await asyncio.gather(first.check(), first.invoke(REQUEST), first.invoke(REQUEST), second.invoke(REQUEST))

    asyncio.run(scenario())

    assert Path("log").read_text() == "x"


def test_files_of_the_same_name_are_different_modules() -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "agent.py").write_text(f"def run(prompt): return '{folder}'")

    assert invoke("", "a/agent.py:run") == "a"
    assert invoke("", "b/agent.py:run") == "b"


def test_the_folder_of_a_file_is_importable_while_it_is_imported() -> None:
    Path("sibling_of_agent.py").write_text("WORD = 'found'")

    assert invoke("from sibling_of_agent import WORD\ndef run(prompt): return WORD") == "found"


def test_a_module_of_a_package_is_imported() -> None:
    Path("my_agents_package").mkdir()
    Path("my_agents_package/__init__.py").touch()
    Path("my_agents_package/one.py").write_text("def run(prompt): return 'one'")

    assert invoke("", "my_agents_package.one:run") == "one"


def test_a_function_with_other_parameters_is_an_error_of_the_configuration() -> None:
    assert fault("def run(prompt, size): ...", arguments={"style": 1}) == (
        " cannot be called as function(prompt, style=…): missing a required argument: 'size'"
    )


def test_a_function_without_parameters_is_an_error_of_the_configuration() -> None:
    assert fault("def run(): ...") == " cannot be called as function(prompt): too many positional arguments"


@pytest.mark.parametrize("name", ["agent.py", ":run", "agent.py:", "agent"])
def test_a_name_without_a_function_is_an_error(name: str) -> None:
    assert fault("", name) == ": expected 'package.module:function' or 'path/to/file.py:function'"


def test_a_file_that_is_not_there_is_an_error_with_the_nearest_name() -> None:
    assert fault("", "agnet.py:run") == f": there is no file {Path.cwd()}/agnet.py (did you mean 'agent.py'?)"


def test_a_function_that_is_not_there_is_an_error_with_the_nearest_name() -> None:
    source = "def answer(prompt): ..."

    assert fault(source, "agent.py:anwser") == ": agent.py has no function 'anwser' (did you mean 'answer'?)"


def test_what_is_no_function_is_an_error() -> None:
    assert fault("run = 7") == (
        ": 'run' of agent.py is a value of type int, expected a function, or an agent of a framework that is known"
    )


def test_a_module_that_is_not_there_is_an_error() -> None:
    assert fault("", "no_such_module_x:run") == (
        ": cannot import no_such_module_x: ModuleNotFoundError: No module named 'no_such_module_x'"
    )


def test_a_file_that_cannot_be_imported_is_an_error_with_its_line() -> None:
    assert fault("x = 1\nimport no_such_module_y\n") == (
        ": cannot import agent.py: ModuleNotFoundError: No module named 'no_such_module_y'\n  agent.py:2 in <module>"
    )


def test_a_file_that_is_no_python_is_an_error_with_its_line() -> None:
    assert fault("def run(:\n") == ": cannot import agent.py: SyntaxError: invalid syntax (agent.py, line 1)"


def test_a_script_that_exits_when_imported_is_an_error_each_time() -> None:
    source = "import sys\nsys.exit('usage')"

    async def scenario() -> list[str]:
        asked, texts = provider(source), []
        for _ in range(2):
            with pytest.raises(ProviderError) as caught:
                await asked.check()
            texts.append(str(caught.value))
        return texts

    assert (
        asyncio.run(scenario())
        == ["target 'mine': agent.py:run: cannot import agent.py: SystemExit: usage\n  agent.py:2 in <module>"] * 2
    )


def test_a_sync_function_that_needs_a_loop_says_what_to_write() -> None:
    message = fault("import asyncio\ndef run(prompt):\n    asyncio.get_running_loop()", kind="crash")
    assert "raised RuntimeError: no running event loop (a sync function runs in a thread that has no event" in message


@pytest.mark.scenario("Metrics schema validation")
@pytest.mark.parametrize(
    ("cost", "shown"),
    [("'1'", '"1"'), ("float('nan')", '"nan"'), ("__import__('decimal').Decimal('0.5')", "\"Decimal('0.5')\"")],
)
def test_a_metric_that_is_no_number_does_not_cost_the_answer(cost: str, shown: str) -> None:
    response = respond(f"def run(prompt): return {{'text': 'x', 'cost_usd': {cost}, 'duration_ms': 7}}")

    assert candidate_answer(response.output_messages) == "x"
    assert (response.cost_usd, response.duration_ms) == (None, 7)
    assert response.warnings == (f"the answer's cost_usd is {shown} and was left out: expected a number",)


def test_a_mapping_that_is_nested_too_deeply_is_told() -> None:
    source = "def run(prompt):\n    x = 'hello'\n    for _ in range(5000):\n        x = [x]\n    return {'text': x}"
    text = fault(source, kind="crash")
    assert text.startswith(" returned a mapping that ")  # the JSON writer of some versions of Python goes deeper
    assert "is nested " in text


DEEP_FIGURE = """
def run(prompt):
    x = 1
    for _ in range({levels}):
        x = [x]
    return {{'text': 'a', 'output_messages': 5, 'duration_ms': x, 'cost_usd': {cost}}}
"""


@pytest.mark.parametrize("levels", [300, 5000])
def test_a_mapping_whose_figures_are_nested_too_deeply_is_told(levels: int) -> None:
    """The error was a bare `WireError` or `RecursionError`, without the function."""
    assert fault(DEEP_FIGURE.format(levels=levels, cost="x"), kind="crash").startswith(" returned a mapping that ")


@pytest.mark.parametrize("levels", [300, 5000])
def test_a_figure_that_is_nested_too_deeply_does_not_cost_the_others(levels: int) -> None:
    response = respond(DEEP_FIGURE.format(levels=levels, cost="0.5"))
    assert response.cost_usd == 0.5
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
