"""Replies and messages of the APIs of models, as mappings: the objects of their packages are read by the same names."""

import pytest

from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.python_calls import Chunks

CALL = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"order": 7}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": '{"status": "sent"}'}
SAID = {"role": "assistant", "content": "It is sent."}
RESPONSE = {
    "object": "response",
    "output": [],
    "model": "gpt-5",
    "usage": {"input_tokens": 30, "output_tokens": 5},
    "status": "completed",
}
FILE = {"type": "file_search_call", "id": "f", "status": "completed", "queries": ["a", "b"], "results": None}
USER = {"role": "user", "content": "Where is order 7?"}


def looked(action):
    """Return a call of the tool that searches the web; older ones do not tell the type of their action."""
    return {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": action}}


def completion(message, **fields):
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage, **fields}


def test_a_chat_completion(read, told):
    response = read(completion(SAID, model="gpt-4o"))

    assert told(response) == ([], ["It is sent."])
    assert response.token_usage == TokenUsage(26, 5, 4, 2)
    assert response.cost_usd == pytest.approx(26 * 2.5e-6 + 4 * 1.25e-6 + 5 * 10e-6)
    assert response.finish_reason == "stop"
    assert response.is_text_only


def test_a_cost_that_the_reply_tells_comes_first_and_an_unknown_model_has_none(read):
    told_by_router = completion(SAID, model="gpt-4o") | {
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 2}
    }

    assert read(told_by_router).cost_usd == 2
    assert read(completion(SAID, model="my-llama")).cost_usd is None


def test_what_was_said_before_the_last_question_is_no_answer(read, told):
    assert told(read([USER, ASKED, FOUND, SAID, USER, {"role": "assistant", "content": "Yes."}])) == ([], ["Yes."])
    response = read([USER, SAID, USER])
    assert "nothing was said after the last message of the user" in response.error
    assert response.error_kind == "no_answer"


def test_the_first_chunk_of_azure_tells_of_filters_only(read, told):
    filters = {"object": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    chunk = {"object": "chat.completion.chunk", "model": "gpt-4o"}
    said = {**chunk, "choices": [{"delta": {"content": "four"}, "finish_reason": "stop"}]}

    response = read(Chunks((filters, said)))

    assert (told(response), response.finish_reason) == (([], ["four"]), "stop")


@pytest.mark.parametrize(
    ("item", "is_known"),
    [
        ({"type": "code_interpreter_call", "id": "c", "code": "1", "container_id": "x"}, False),
        ({"type": "image_generation_call", "id": "c", "result": "AAAA"}, False),
        ({"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "tents"}}, False),
        ({"type": "file_search_call", "id": "f", "results": [{"text": "a page"}]}, False),
        ({"type": "shell_call", "id": "c", "environment": {"type": "container_reference", "container_id": "x"}}, False),
        ({"type": "shell_call", "id": "c", "environment": {"type": "local"}}, True),
        ({"type": "function_call", "call_id": "c", "name": "lookup", "arguments": "{}"}, True),
        ({"type": "mcp_call", "id": "c", "name": "lookup", "arguments": "{}"}, True),
    ],
)
def test_other_services_of_openai_have_no_known_price(read, item, is_known):
    assert (read({**RESPONSE, "output": [item]}).cost_usd is not None) == is_known


@pytest.mark.parametrize("written", ["42", '{"a": 1}'])
def test_the_free_text_of_a_tool_is_not_parsed(read, told, written):
    custom = {"id": "c", "type": "custom", "custom": {"name": "run", "input": written}}
    item = {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": written}
    code = {"type": "code_interpreter_call", "id": "c", "code": written, "outputs": None}

    chunk = {"object": "chat.completion.chunk"}
    begun = {**custom, "index": 0, "custom": {"name": "run", "input": written[:1]}}
    deltas = [{"tool_calls": [begun]}, {"tool_calls": [{"index": 0, "custom": {"input": written[1:]}}]}]
    chunks = [{**chunk, "choices": [{"delta": delta, "finish_reason": "tool_calls"}]} for delta in deltas]

    for reply in (completion({"role": "assistant", "tool_calls": [custom]}), Chunks(tuple(chunks))):
        assert told(read(reply))[0] == [("run", written, ABSENT)]
    assert told(read({**RESPONSE, "output": [item, code]}))[0] == [
        ("run", written, ABSENT),
        ("code_interpreter", written, ABSENT),
    ]


def test_the_deprecated_call_of_a_function_is_read(read, told):
    called = {"name": "lookup", "arguments": '{"order": 7}'}
    asked = {"role": "assistant", "content": "I look.", "function_call": called}
    result = {"role": "function", "name": "lookup", "content": "sent"}
    start, end = ({"name": "lookup", "arguments": ""}, {"arguments": '{"order": 7}'})
    chunks = [
        {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "I look.", "function_call": start}}]},
        {"object": "chat.completion.chunk", "choices": [{"delta": {"function_call": end}, "finish_reason": "stop"}]},
    ]

    for reply in (completion(asked), Chunks(tuple(chunks))):
        assert told(read(reply)) == ([("lookup", {"order": 7}, ABSENT)], ["I look."])
    assert told(read([USER, asked, result, SAID]))[0] == [("lookup", {"order": 7}, "sent")]


@pytest.mark.parametrize("arguments", ["order 7", "[" * 100_000])
def test_arguments_that_are_no_json_stay_a_text(read, told, arguments):
    """Arguments that are nested too deeply lost an answer that was paid for."""
    call = {"id": "c1", "function": {"name": "lookup", "arguments": arguments}}

    assert told(read([{"role": "assistant", "tool_calls": [call]}]))[0] == [("lookup", arguments, ABSENT)]


def test_messages_with_what_else_is_known(read, told):
    response = read({
        "messages": [USER, ASKED, FOUND, SAID],
        "token_usage": {"input": 1, "output": 2, "reasoning": 1},
        "costUsd": 0.5,
        "retrieved_context": ["a page"],
    })  # fmt: skip

    assert told(response)[1] == ["It is sent."]
    assert (response.token_usage, response.cost_usd) == (TokenUsage(1, 2, None, 1), 0.5)
    assert response.retrieved_context == ("a page",)


def test_a_response_that_was_cut_or_failed_says_so(read):
    reply = {"object": "response", "output": [], "status": "incomplete"}

    assert read({**reply, "incomplete_details": {"reason": "max_output_tokens"}}).finish_reason == "max_output_tokens"
    failed = read({**reply, "status": "failed", "error": {"message": "overloaded"}})
    assert failed.error == "the response has failed: overloaded"


def test_an_anthropic_message(read, told):
    text = {"type": "text", "text": "It is sent.", "citations": [{"cited_text": "a page"}]}
    usage = {"input_tokens": 20, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}
    reply = {"type": "message", "role": "assistant", "content": [text], "usage": usage, "model": "claude-sonnet-4-5"}
    response = read({**reply, "stop_reason": "end_turn"})

    assert told(response) == ([], ["It is sent."])
    assert response.token_usage == TokenUsage(26, 5, 4)
    assert response.retrieved_context == ("a page",)
    usual = read({**reply, "usage": {**usage, "input_tokens": 26, "cache_creation_input_tokens": 0}})
    assert response.token_usage == usual.token_usage
    assert response.cost_usd > usual.cost_usd, "what is written into a cache costs more"


def test_a_gemini_reply(read, told):
    chunk = {"retrievedContext": {"text": "a page"}}
    parts = [{"text": "hmm", "thought": True}, {"functionCall": {"name": "lookup", "args": {"order": 7}}}]
    candidate = {
        "content": {"role": "model", "parts": parts},
        "finishReason": "STOP",
        "groundingMetadata": {"groundingChunks": [chunk]},
    }
    usage = {"promptTokenCount": 30, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}
    response = read({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"})

    assert told(response) == ([("lookup", {"order": 7}, ABSENT)], [])
    assert response.token_usage == TokenUsage(26, 7, 4, 2)
    assert response.retrieved_context == ("a page",)
    assert read({"promptFeedback": {"blockReason": "SAFETY"}}).error == "the prompt was blocked: SAFETY"
