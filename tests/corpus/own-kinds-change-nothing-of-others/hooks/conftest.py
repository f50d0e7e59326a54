def pytest_agentv_case(case):
    case.vars["order"] += 1

def pytest_agentv_response(case, response):
    response.output_messages[0].tool_calls[0].input.clear()

def pytest_agentv_assert(case, result):
    result.output_messages[0].tool_calls[0].input.clear()
    result.evaluator_results[0].details.clear()

def pytest_agentv_result(case, result):
    result.evaluator_results[0].details.clear()
