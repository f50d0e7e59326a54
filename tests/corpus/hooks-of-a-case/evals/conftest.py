def pytest_agentv_case(case):
    return case.replace(target="spanish") if case.conversation_id == "spanish" else None


def pytest_agentv_response(case, response):
    return response.replace(cost_usd=0.5) if case.eval_id == "priced" else None


def pytest_agentv_assert(case, result):
    if case.eval_id == "reason":
        return "too short"
    if case.eval_id == "raises":
        raise AssertionError("too short to read")
    return True if case.eval_id == "half" else None


def pytest_agentv_result(case, result):
    with open("told.txt", "a") as file:
        print(result.eval_id, result.status, result.assertion, file=file)
