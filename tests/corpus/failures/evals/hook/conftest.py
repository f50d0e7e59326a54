def pytest_agentv_assert(case, result):
    if case.eval_id == "refused":
        return "the answer names a price, and prices are secret"
    if case.eval_id == "asserted":
        answer = result.candidate_answer
        assert "$" in answer, "no price in dollars"
    if case.eval_id == "broken":
        raise KeyError("limit")
    return True if case.eval_id == "allowed" else None
