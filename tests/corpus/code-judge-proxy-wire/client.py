"""Ask targets with the client of the SDK, and show the case as the SDK reads it."""

import os

from pytest_agentv import sdk

os.environ["http_proxy"] = "http://127.0.0.1:1"  # the proxy of the system is not used


def failure(call, *given, **more):
    try:
        return repr(call(*given, **more))
    except sdk.TargetInvocationError as error:
        return [str(error), error.status_code]


@sdk.code_judge
def judge(case):
    client = sdk.create_target_client()
    told = [
        repr(client.invoke("größe", system_prompt="s", eval_case_id="case", attempt=0, target="main")),
        failure(client.invoke, "q", target="x"),
        failure(client.invoke, "q", target="broken"),
        failure(client.invoke_batch, [{"question": "q"}] * 3),
        [reply.raw_text for reply in client.invoke_batch([sdk.InvokeRequest("a"), {"question": "b", "target": "x"}])],
        repr(client.get_info()),
        failure(sdk.TargetClient(client._url, "wrong").get_info),
        failure(sdk.TargetClient("http://127.0.0.1:1", "t").get_info),
    ]
    return sdk.Result(1, hits=[repr(case)], details={"told": told})
