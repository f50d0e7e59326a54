def doubtful(case):
    return [each.model_copy(update={"weight": float("nan")}) for each in case.evaluators]


CHANGES = {
    "threshold-text": lambda case: {"threshold": "0.5"},
    "threshold-below": lambda case: {"threshold": -1},
    "threshold-nan": lambda case: {"threshold": float("nan")},
    "threshold-true": lambda case: {"threshold": True},
    "pass-rate": lambda case: {"repeat": 2, "min_pass_rate": -1},
    "repeat-none": lambda case: {"repeat": 0},
    "repeat-many": lambda case: {"repeat": 1000},
    "repeat-float": lambda case: {"repeat": 2.0},
    "required": lambda case: {"required": "no"},
    "outcome": lambda case: {"expected_outcome": None},
    "group": lambda case: {"group": 7},
    "evaluators-text": lambda case: {"evaluators": "words"},
    "evaluators-empty": lambda case: {"evaluators": ()},
    "evaluators-mapping": lambda case: {"evaluators": [{"type": "contains"}]},
    "weight-nan": lambda case: {"evaluators": doubtful(case)},
    "other-id": lambda case: {"eval_id": "other"},
    "fine": lambda case: {"threshold": 0, "repeat": 1, "min_pass_rate": 1, "group": "g", "target": None,
                          "evaluators": list(case.evaluators)},
}


def pytest_agentv_case(case):
    if case.eval_id == "case-number":
        return 5
    return case.replace(**CHANGES[case.eval_id](case)) if case.eval_id in CHANGES else None


def pytest_agentv_response(case, response):
    if case.eval_id == "response-number":
        return 5
    if case.eval_id == "response-text":
        return response.replace(output_messages="fine")
    if case.eval_id == "response-exit":
        raise SystemExit(3)


def pytest_agentv_assert(case, result):
    return 5 if case.eval_id == "assert-number" else None
