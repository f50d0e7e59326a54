"""Replies and messages of the APIs of models, as mappings: the objects of their packages are read by the same names."""

import re
from types import SimpleNamespace

import pytest

from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.api.base import ModelSettings
from pytest_agentv.providers.api.gemini import GeminiApi
from pytest_agentv.providers.base import require_answer
from pytest_agentv.providers.frameworks import chat, google_genai, openai_agents
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


def test_a_refusal_is_no_answer_but_its_tokens_are_kept(read):
    response = read(completion({"role": "assistant", "content": None, "refusal": "I will not."}))

    assert (response.error, response.error_kind) == ("the model refused: I will not.", "no_answer")
    assert response.token_usage is not None


@pytest.mark.parametrize("where", ["error", "choice"])
def test_an_answer_that_an_error_broke_off_is_no_answer(read, where):
    reply = completion({"role": "assistant", "content": "It is fo"})
    (reply if where == "error" else reply["choices"][0])["error"] = {"code": 502, "message": "overloaded"}

    assert require_answer(read(reply)).error == (
        "the answer is not whole: an error of the server broke it off (finish_reason=error)"
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (
            {"type": "message", "role": "assistant", "content": [], "usage": {}, "stop_reason": "refusal"},
            "the model refused (finish_reason=refusal)",
        ),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "a content filter stopped it (finish_reason=SAFETY)"),
        (
            {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]},
            "it was cut at the token limit (finish_reason=MAX_TOKENS)",
        ),
        (completion({"role": "assistant", "content": None}), "the model's reply is empty (finish_reason=stop)"),
    ],
)
def test_a_reply_without_an_answer_says_why(read, reply, reason):
    response = read(reply)

    assert (response.error, response.error_kind) == (f"the result holds no answer: {reason}", "no_answer")


def test_chat_messages_of_a_loop(read, told):
    response = read([USER, ASKED, FOUND, SAID])

    assert told(response) == ([("lookup", {"order": 7}, {"status": "sent"})], ["It is sent."])
    assert not response.is_text_only


def test_what_was_said_before_the_last_question_is_no_answer(read, told):
    assert told(read([USER, ASKED, FOUND, SAID, USER, {"role": "assistant", "content": "Yes."}])) == ([], ["Yes."])
    response = read([USER, SAID, USER])
    assert "nothing was said after the last message of the user" in response.error
    assert response.error_kind == "no_answer"


@pytest.mark.parametrize(("tier", "times"), [("default", 1), ("flex", 0.5), ("of-tomorrow", None)])
def test_a_service_tier_has_prices_of_its_own(read, tier, times):
    usage = {"input_tokens": 30, "output_tokens": 5}
    response = {"object": "response", "output": [], "model": "gpt-5", "usage": usage, "status": "completed"}
    chunk = {"object": "chat.completion.chunk", "model": "gpt-5", "choices": [{"delta": {"content": "four"}}]}
    counts = {"prompt_tokens": 30, "completion_tokens": 5}
    for usual in (completion(SAID, model="gpt-5"), response):
        cost = read({**usual, "service_tier": tier}).cost_usd
        assert cost == (times and pytest.approx(times * read(usual).cost_usd))
    streamed = chat.join([{**chunk, "service_tier": tier}, {**chunk, "choices": [], "usage": counts}])
    assert streamed["service_tier"] == tier


def test_the_first_chunk_of_azure_tells_of_filters_only(read, told):
    filters = {"object": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    chunk = {"object": "chat.completion.chunk", "model": "gpt-4o"}
    said = {**chunk, "choices": [{"delta": {"content": "four"}, "finish_reason": "stop"}]}

    response = read(Chunks((filters, said)))

    assert (told(response), response.finish_reason) == (([], ["four"]), "stop")


def test_searches_of_a_response_are_paid_for(read):
    usage = {"input_tokens": 30, "output_tokens": 5}
    reply = {"object": "response", "output": [], "model": "gpt-5", "usage": usage, "status": "completed"}
    search = {"type": "web_search_call", "id": "s1", "status": "completed", "action": {"query": "tents"}}

    assert read({**reply, "output": [search]}).cost_usd > read(reply).cost_usd + 0.005


@pytest.mark.parametrize(
    ("items", "searches", "files"),
    [
        (["search", "open_page", "find_in_page"], 1, 0),
        (["search", None, "search"], 3, 0),
        (["open_page"], 0, 0),
        (["file", "search", "file"], 1, 2),
    ],
)
def test_what_openai_searches_for_is_paid_for_by_the_call(read, items, searches, files):
    reply = {**RESPONSE, "output": [FILE if each == "file" else looked(each) for each in items]}

    assert read(reply).cost_usd == pytest.approx(read(RESPONSE).cost_usd + searches * 0.01 + files * 0.0025)


@pytest.mark.parametrize(
    ("item", "is_known"),
    [
        ({"type": "code_interpreter_call", "id": "c", "code": "1", "container_id": "x"}, False),
        ({"type": "image_generation_call", "id": "c", "result": "AAAA"}, False),
        ({"type": "shell_call", "id": "c", "environment": {"type": "container_reference", "container_id": "x"}}, False),
        ({"type": "shell_call", "id": "c", "environment": {"type": "local"}}, True),
        ({"type": "function_call", "call_id": "c", "name": "lookup", "arguments": "{}"}, True),
        ({"type": "mcp_call", "id": "c", "name": "lookup", "arguments": "{}"}, True),
    ],
)
def test_other_services_of_openai_have_no_known_price(read, item, is_known):
    assert (read({**RESPONSE, "output": [item]}).cost_usd is not None) == is_known


def test_searches_in_a_run_of_agents_are_paid_for_too(stand_in):
    replies = [SimpleNamespace(usage=RESPONSE["usage"], output=[FILE, looked("search")])]
    run = stand_in("agents", new_items=[], raw_responses=replies, final_output="Sent.", interruptions=[])

    (spent,) = openai_agents.read(run).spent

    assert (spent.billing.web_searches, spent.billing.file_searches) == (1, 1)


def test_what_openai_writes_into_a_cache_is_priced(read):
    counts = {"cached_tokens": 0, "cache_write_tokens": 1000}
    usual = completion(SAID, model="gpt-6-sol")
    usual["usage"] = {"prompt_tokens": 1000, "completion_tokens": 5}
    response = {**RESPONSE, "model": "gpt-6-sol", "usage": {"input_tokens": 1000, "output_tokens": 5}}
    for reply, details in ((usual, "prompt_tokens_details"), (response, "input_tokens_details")):
        written = read({**reply, "usage": {**reply["usage"], details: counts}})
        assert written.cost_usd == pytest.approx(read(reply).cost_usd + 1000 * 0.5e-6)


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


@pytest.mark.parametrize(
    ("told_by_gateway", "cost"),
    [
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, 0.21),
        ({"cost": {"total_cost": 0.3, "request_cost": 0.1}}, 0.3),
        ({"cost": True}, None),
        ({"cost": float("inf")}, None),
    ],
)
def test_the_cost_that_a_gateway_reports_is_read_as_of_an_openai_target(read, told_by_gateway, cost):
    usage = {"prompt_tokens": 30.0, "completion_tokens": 5, **told_by_gateway}
    response = read({**completion(SAID, model="?"), "usage": usage})

    assert response.cost_usd == (cost and pytest.approx(cost))
    assert response.token_usage == TokenUsage(30, 5)


def test_a_reply_may_be_an_object_with_attributes(read):
    details = SimpleNamespace(cached_tokens=4)
    usage = SimpleNamespace(prompt_tokens=30, completion_tokens=5, prompt_tokens_details=details)
    choice = SimpleNamespace(message=SimpleNamespace(content="four"), finish_reason="stop")

    assert read(SimpleNamespace(choices=[choice], usage=usage)).token_usage == TokenUsage(26, 5, 4)


def test_tokens_and_prices_are_read_as_of_a_target(read):
    def chat(**usage):
        return read({**completion(SAID, model="gpt-4o"), "usage": usage})

    beside = {"reasoning_tokens": 7}
    grok = chat(prompt_tokens=30, completion_tokens=5, total_tokens=42, completion_tokens_details=beside)
    assert grok.token_usage == TokenUsage(30, 12, None, 7)
    spoken = chat(prompt_tokens=30, completion_tokens=5, completion_tokens_details={"audio_tokens": 4})
    assert (spoken.token_usage, spoken.cost_usd) == (TokenUsage(30, 5), None)
    assert (chat(completion_tokens=5).token_usage, chat(completion_tokens=5).cost_usd) == (None, None)

    def claude(**usage):
        content = [{"type": "text", "text": "Sent."}]
        model = {"type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
        return read({**model, "content": content, "usage": {"input_tokens": 30, **usage}})

    assert claude(output_tokens=5, service_tier="standard").cost_usd == pytest.approx(30 * 3e-6 + 5 * 15e-6)
    assert claude(output_tokens=5, inference_geo="us").cost_usd is None
    assert (claude().token_usage, claude().cost_usd) == (None, None)


def test_the_replies_of_a_loop_add_up(read, told):
    response = read([completion(ASKED, model="gpt-4o"), completion(SAID, model="gpt-4o")])

    assert told(response) == ([("lookup", {"order": 7}, ABSENT)], ["It is sent."])
    assert response.token_usage == TokenUsage(52, 10, 8, 4)
    assert not response.is_text_only
    assert read([completion(ASKED, model="gpt-4o"), completion(SAID, model="?")]).cost_usd is None


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


def test_a_response_and_items(read, told):
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is sent."}]}
    call = {"type": "function_call", "name": "lookup", "arguments": '{"order": 7}', "call_id": "c1"}
    search = {"type": "file_search_call", "id": "s1", "queries": ["order"], "results": [{"text": "a page"}]}
    usage = {"input_tokens": 30, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}}
    reply = {
        "object": "response",
        "output": [search, message],
        "model": "gpt-4o",
        "usage": usage,
        "status": "completed",
    }
    response = read(reply)

    assert told(response)[0] == [("file_search", ["order"], [{"text": "a page"}])]
    assert response.retrieved_context == ("a page",)
    assert response.token_usage == TokenUsage(30, 5, None, 2)
    items = [
        USER,
        {"type": "reasoning"},
        call,
        {"type": "function_call_output", "call_id": "c1", "output": "sent"},
        message,
    ]
    assert told(read(items)) == ([("lookup", {"order": 7}, "sent")], ["It is sent."])


def test_a_response_that_was_cut_or_failed_says_so(read):
    reply = {"object": "response", "output": [], "status": "incomplete"}

    assert read({**reply, "incomplete_details": {"reason": "max_output_tokens"}}).finish_reason == "max_output_tokens"
    failed = read({**reply, "status": "failed", "error": {"message": "overloaded"}})
    assert failed.error == "the response has failed: overloaded"


def test_an_anthropic_message_and_messages(read, told):
    text = {"type": "text", "text": "It is sent.", "citations": [{"cited_text": "a page"}]}
    call = {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"order": 7}}
    usage = {"input_tokens": 20, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}
    reply = {"type": "message", "role": "assistant", "content": [text], "usage": usage, "model": "claude-sonnet-4-5"}
    response = read({**reply, "stop_reason": "end_turn"})

    assert told(response) == ([], ["It is sent."])
    assert response.token_usage == TokenUsage(26, 5, 4)
    assert response.retrieved_context == ("a page",)
    usual = read({**reply, "usage": {**usage, "input_tokens": 26, "cache_creation_input_tokens": 0}})
    assert response.token_usage == usual.token_usage
    assert response.cost_usd > usual.cost_usd, "what is written into a cache costs more"
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sent"}]}
    messages = [USER, {"role": "assistant", "content": [call]}, result, {"role": "assistant", "content": [text]}]
    assert told(read(messages)) == ([("lookup", {"order": 7}, "sent")], ["It is sent."])


def test_a_gemini_reply_in_both_spellings(read, told):
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
    blocked = read({"prompt_feedback": {"block_reason": "SAFETY"}, "candidates": None})
    assert blocked.error == "the prompt was blocked: SAFETY"


def test_gemini_tells_the_tools_that_google_ran(read, told):
    code = [{"executableCode": {"code": "print(1)"}}, {"codeExecutionResult": {"output": "1"}}]
    search = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["tent"]}}}
    found = {"tool_response": {"id": "s", "response": {"n": 2}}}
    parts = [*code, search, found, {"tool_call": {"tool_type": "URL_CONTEXT"}}, {"text": "one"}]

    assert told(read({"candidates": [{"content": {"role": "model", "parts": parts}}]})) == (
        [
            ("code_execution", {"code": "print(1)"}, "1"),
            ("google_search", {"queries": ["tent"]}, {"n": 2}),
            ("url_context", {}, ABSENT),
        ],
        ["one"],
    )


def drawn(kind, count):
    return {"candidatesTokensDetails": [{"modality": kind, "tokenCount": count}]}


@pytest.mark.parametrize(
    ("usage", "grounding", "is_known"),
    [
        ({"trafficType": "ON_DEMAND"}, None, True),
        ({"trafficType": "ON_DEMAND_FLEX"}, None, None),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, None, False),
        (drawn("TEXT", 5), {"webSearchQueries": []}, True),
        (drawn("IMAGE", 5), None, False),
        ({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 30}]}, None, False),
        ({}, {"webSearchQueries": ["tents"]}, False),
        ({}, {"groundingChunks": [{"web": {"uri": "u"}}, {"retrievedContext": {"text": "a page"}}]}, True),
        ({}, {"groundingChunks": [{"maps": {"uri": "u"}}]}, None),
    ],
)
@pytest.mark.parametrize("is_object", [False, True])
def test_a_gemini_reply_is_priced_as_that_to_a_target(read, usage, grounding, is_known, is_object):
    """`is_known` is None where it depends on the price tables."""
    said = {"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}
    counts = {"promptTokenCount": 30, "candidatesTokenCount": 5, **usage}
    candidate = said if grounding is None else {**said, "groundingMetadata": grounding}
    reply = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-2.5-flash"}
    value = as_object(reply) if is_object else reply

    (spent,) = google_genai.read_reply(value).spent

    of_target = GeminiApi(ModelSettings("gemini-2.5-flash"), {}).read(reply)
    assert (spent.usage, spent.billing) == (of_target.usage, of_target.billing)
    assert is_known in (None, read(value).cost_usd is not None)


def test_a_tool_of_google_is_paid_for_as_in_a_reply_to_a_target():
    parts = [{"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["tents"]}}}, {"text": "hi"}]
    counts = {"promptTokenCount": 30, "candidatesTokenCount": 5}
    reply = {"candidates": [{"content": {"role": "model", "parts": parts}}], "usageMetadata": counts}

    of_target = GeminiApi(ModelSettings("gemini-2.5-flash"), {}).read(reply)
    assert google_genai.read_reply(as_object(reply)).spent[0].billing == of_target.billing


def as_object(value):
    """Return the reply of google-genai: objects with the names of Python, and None for what is missing."""
    if isinstance(value, list):
        return list(map(as_object, value))
    if not isinstance(value, dict):
        return value
    fields = {re.sub("[A-Z]", lambda at: "_" + at[0].lower(), key): as_object(value[key]) for key in value}
    return SimpleNamespace(**{"maps": None, "image": None, "web_search_queries": None, **fields})


def test_gemini_contents_join_results_by_the_name_of_the_tool(read, told):
    contents = [
        {"role": "user", "parts": [{"text": "Where?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "lookup", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "lookup", "response": {"status": "sent"}}}]},
        {"role": "model", "parts": [{"text": "It is sent."}]},
    ]

    assert told(read(contents)) == ([("lookup", {}, {"status": "sent"})], ["It is sent."])
