from pytest_agentv.sdk import CodeJudgeInput, Result, code_judge, create_target_client


@code_judge
def judge(case: CodeJudgeInput) -> Result:
    client = create_target_client()
    if client is None:
        return Result(score=0, reasoning="no client")
    replies = []
    for target in case.config["ask"]:
        try:
            replies.append(client.invoke("Is this polite?", system_prompt=case.config.get("system"), target=target).raw_text)
        except Exception as error:
            replies.append(f"{type(error).__name__}: {error}")
    info = client.get_info()
    said = f"{info.target_name}, {info.call_count} of {info.max_calls} calls, {', '.join(info.available_targets)}"
    return Result(score=float(replies[-1].startswith("yes")), hits=replies, reasoning=said)
