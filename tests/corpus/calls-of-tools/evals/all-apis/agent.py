USER = {"role": "user", "content": "Delete order 7"}
DONE = {"role": "assistant", "content": "Done."}


def calling(*calls):
    return [USER, {"role": "assistant", "content": "", "tool_calls": list(calls)}, DONE]


def saying(*parts, role="assistant"):
    return [USER, {"role": role, "content": list(parts)}, DONE]


def with_result(call, result, role="tool"):
    return [USER, {"role": "assistant", "content": [call]}, {"role": role, "content": [result]}, DONE]


SDK_CALL = {"type": "tool-call", "toolCallId": "1", "toolName": "delete_order", "input": {"id": 7}}
SDK_RESULT = {
    "type": "tool-result",
    "toolCallId": "1",
    "toolName": "delete_order",
    "output": {"type": "text", "value": "gone"},
}
BEDROCK_CALL = {"toolUse": {"toolUseId": "1", "name": "delete_order", "input": {"id": 7}}}
BEDROCK_RESULT = {"toolResult": {"toolUseId": "1", "content": [{"json": {"gone": True}}]}}
OPENAI = {"id": "1", "function": {"name": "delete_order", "arguments": '{"id": 7}'}}

CONVERSATIONS = {
    "flat-args": calling({"name": "delete_order", "args": {"id": 7}, "id": "1", "type": "tool_call"}),
    "flat-arguments": calling({"name": "delete_order", "arguments": '{"id": 7}'}),
    "flat-input": calling({"name": "delete_order", "input": {"id": 7}}),
    "parts-of-the-ai-sdk": with_result(SDK_CALL, SDK_RESULT),
    "camel-case": [
        USER,
        {"role": "assistant", "toolCalls": [OPENAI]},
        {"role": "tool", "toolCallId": "1", "content": "gone"},
        DONE,
    ],
    "blocks-of-bedrock": [
        {"role": "user", "content": [{"text": "Delete order 7"}]},
        *with_result(BEDROCK_CALL, BEDROCK_RESULT, role="user")[1:3],
        {"role": "assistant", "content": [{"text": "Done."}]},
    ],
    "human-and-ai": [
        {"role": "human", "content": "Delete order 7"},
        {"role": "ai", "content": "", "tool_calls": [OPENAI]},
        {"role": "ai", "content": "Done."},
    ],
    "output-messages": {
        "output_messages": [{"role": "ai", "content": [SDK_CALL, {"type": "text", "text": "Done."}]}],
    },
    "without-a-name": calling({"args": {"id": 7}}),
    "unknown-part": saying({"type": "tool-approval-request", "toolName": "delete_order"}),
    "unknown-role": [USER, {"role": "bot", "content": "Done."}],
}


def answer(prompt):
    return CONVERSATIONS[prompt.strip()]
