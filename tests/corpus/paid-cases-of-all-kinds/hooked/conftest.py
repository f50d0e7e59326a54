def pytest_agentv_case(case):
    return case.replace(target="model") if "paid" in case.eval_id else None
