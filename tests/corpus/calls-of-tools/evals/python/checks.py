def reads(tool_calls):
    return any(call.tool == "read" for call in tool_calls)
