def pytest_agentv_case(case):
    if case.eval_id == "case":
        raise RuntimeError("case")


def pytest_agentv_response(case, response):
    if case.eval_id == "response":
        raise RuntimeError("response")


def pytest_agentv_assert(case, result):
    if case.eval_id == "assert":
        raise RuntimeError("assert")


def pytest_agentv_result(case, result):
    if result.eval_id == "result":
        raise RuntimeError("result")
