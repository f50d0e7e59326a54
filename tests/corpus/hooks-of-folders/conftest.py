from pathlib import Path

from pytest_agentv import Message, ToolCall


def note(*words):
    with Path("told.txt").open("a") as file:
        print(*words, file=file)


def pytest_agentv_assert(case, result):
    return "far" if case.eval_id != "b" else True


def pytest_agentv_response(case, response):
    return response.replace(output_messages=[Message("assistant", "hello", [ToolCall("t")])])


def pytest_agentv_result(case, result):
    note(case and case.eval_id, result.eval_id, result.status)


def pytest_agentv_summary(results):
    note("end:", [(result.eval_id, result.score, type(result).__name__) for result in results])
