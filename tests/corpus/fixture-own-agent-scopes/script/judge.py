from pytest_agentv.sdk import Result, code_judge, create_target_client

@code_judge
def judge(case):
    client = create_target_client()
    first = client.invoke("What do you think?")
    second = client.invoke("Once more", target="default")
    return Result(1.0, [first.raw_text, second.raw_text])
