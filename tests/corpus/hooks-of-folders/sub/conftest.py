from pathlib import Path


def note(*words):
    with Path("told-below.txt").open("a") as file:
        print(*words, file=file)


def pytest_agentv_case(case):
    note("case", case.eval_id)


def pytest_agentv_response(case, response):
    note("response", case.eval_id)


def pytest_agentv_assert(case, result):
    note("assert", case.eval_id)
    return None if case.eval_id == "c" else True


def pytest_agentv_result(case, result):
    note("result", case.eval_id)
