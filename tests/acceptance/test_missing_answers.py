"""A target that replies without an answer is an ERROR: checks for what must not be said would pass on nothing."""

import json
import os
from collections import Counter

TARGETS = """
targets:
  - {name: function, provider: python, callable: agent.py:answer, judge_target: judge}
  - {name: program, provider: cli, command_template: "echo {EVAL_ID} >> calls; printf %s {PROMPT}"}
  - {name: canned, provider: mock, response: " ", finish_reason: content_filter}
  - {name: cut-judge, provider: mock, response: '{"score": 1}', finish_reason: length}
  - {name: filtered-judge, provider: mock, response: '{"score": 1}', finish_reason: content_filter}
  - {name: silent-judge, provider: mock, response: "", finish_reason: length}
  - {name: judge, provider: python, callable: agent.py:judge}
"""
AGENT = """
import json
from pathlib import Path

CALLS = Path(__file__).with_name("calls")

def answer(prompt, request):
    with CALLS.open("a") as file:
        print(request.eval_id, file=file)
    return json.loads(prompt)

def judge(prompt, request):
    with CALLS.open("a") as file:
        print("judge", file=file)
    is_first = CALLS.read_text().count("judge") == 1
    return {"text": '{"score": 1}', "finish_reason": "length" if is_first else "stop"}
"""
"""Agents whose questions are their replies, and a judge whose first reply is cut."""

NULL = {"role": "assistant", "content": None}
CALL = {"type": "tool_call", "name": "search"}
USAGE = {"token_usage": {"input": 3, "output": 16}, "cost_usd": 0.5}
POLITE = {"name": "polite", "type": "heuristic", "misses": ["damn"]}
SEARCHES = {"tool-called": "search", "times": 1}
FILTERED, CUT, REFUSED, EMPTY = (
    "the target gave no answer: a content filter stopped it (finish_reason=content_filter)",
    "the target gave no answer: it was cut at the token limit (finish_reason=length)",
    "the target gave no answer: the model refused (finish_reason=refusal)",
    "the target gave no answer: the content of its last message is null",
)
REPLIES = {
    "filter": ({"text": " \n", "finish_reason": "content_filter", **USAGE}, POLITE, FILTERED),
    "safety": ({"text": "", "finish_reason": "SAFETY"}, POLITE, FILTERED.replace("content_filter)", "SAFETY)")),
    "cut-before-a-word": ({"text": "", "finish_reason": "length"}, POLITE, CUT),
    "refusal": ({"text": "", "finish_reason": "refusal"}, POLITE, REFUSED),
    "null": ({"output_messages": [NULL], **USAGE}, POLITE, EMPTY),
    "null-and-calls": ({"text": None, "trace": [CALL]}, SEARCHES, None),
    "null-message-and-calls": ({"output_messages": [NULL], "trace": [CALL]}, SEARCHES, None),
    "null-and-an-empty-trace": ({"text": None, "trace_ref": "empty.json"}, SEARCHES, EMPTY),
    "null-and-a-trace": ({"text": None, "trace_ref": "trace.json"}, SEARCHES, None),
    "null-beside-a-text": ({"text": "fine", "output_messages": [NULL]}, POLITE, None),
    "null-after-a-text": ({"output_messages": [{"role": "assistant", "content": "fine"}, NULL]}, POLITE, None),
    "cut": ({"text": "fine, it is fo", "finish_reason": "length"}, POLITE, None),
    "whole": ({"text": "fine", "finish_reason": "stop"}, POLITE, None),
    "blank": ({"text": ""}, POLITE, None),
}
"""By the id of a case: the reply, what judges it, and the error."""
JUDGES = {
    "cut-judge": "the reply of the judge 'cut-judge' is not whole: it was cut at the token limit "
    "(finish_reason=length)",
    "filtered-judge": "the reply of the judge 'filtered-judge' is not whole: a content filter stopped it "
    "(finish_reason=content_filter)",
    "silent-judge": f"the judge 'silent-judge' could not be asked: {CUT}",
}
KEPT = {"null-and-calls", "null-message-and-calls", "null-and-a-trace", "null-beside-a-text", "null-after-a-text"}


def targets_of(name):
    # A function that returns null returns no answer, and says so in words of its own.
    return ("program",) if name in ("null", "null-and-a-trace", "null-and-an-empty-trace") else ("function", "program")


def write(project, **cases):
    project.write("targets.yaml", TARGETS)
    project.write("agent.py", AGENT)
    project.write("a.eval.yaml", json.dumps({"evalcases": [{"id": name, **case} for name, case in cases.items()]}))


def test_a_reply_without_an_answer_is_an_error_that_is_not_judged_and_not_kept(project):
    project.write("trace.json", json.dumps([CALL]))
    project.write("empty.json", "[]")
    cases = {
        f"{target}-{name}": {"target": target, "input": json.dumps(reply), "evaluators": [check]}
        for name, (reply, check, _) in REPLIES.items()
        for target in targets_of(name)
    }
    write(project, **cases, canned={"target": "canned", "input": "hi", "evaluators": [POLITE]})

    run = project.run("--agentv-cache")

    assert run.internals == []
    errors = {f"{target}-{name}": why for name, (_, _, why) in REPLIES.items() for target in targets_of(name)}
    assert {name: result.get("error") for name, result in run.by_id.items()} == {**errors, "canned": FILTERED}
    for name, result in run.by_id.items():
        assert result["status"] == ("pass" if errors.get(name, FILTERED) is None else "error")
        if result["status"] == "error":
            assert result["error_detail"] == {"stage": "provider", "kind": "no_answer"}
            assert (result["score"], result["attempts"], "evaluator_results" in result) == (0, 1, False)
    for name in ("function-filter", "program-null"):
        assert run.by_id[name]["execution_metrics"]["cost_usd"] == 0.5
        assert run.by_id[name]["execution_metrics"]["token_usage"] == {"input": 3, "output": 16}
    assert run.by_id["function-safety"]["finish_reason"] == "SAFETY"
    assert run.by_id["function-cut"]["finish_reason"] == "length"
    assert "finish_reason" not in run.by_id["function-blank"]
    assert {run.by_id[f"function-null-{name}"]["candidate_answer"] for name in ("beside-a-text", "after-a-text")} == {
        "fine"
    }
    assert "The target gave no answer (no_answer)" in run.text
    calls = project.path / "calls"
    assert Counter(calls.read_text().split()) == Counter(list(cases))
    calls.unlink()
    project.run("--agentv-cache")
    kept = KEPT | {"whole", "blank"}
    again = {name for name in cases if name.partition("-")[2] not in kept}
    assert set(calls.read_text().split()) == again, "nothing that is cut or missing is kept"


def test_an_answer_that_was_cut_is_told_in_the_failure(project):
    reply = {"text": "damn, it is fo", "finish_reason": "length"}
    write(project, a={"target": "function", "input": json.dumps(reply), "evaluators": [POLITE]})
    run = project.run()
    assert run.statuses == {"a": "fail"}
    assert "Answer (14 characters; it was cut at the token limit):" in run.text
    assert "finish_reason=length" in run.text


def test_a_judge_that_was_cut_or_filtered_is_an_error_and_is_not_kept(project):
    fine = {"target": "function", "input": '{"text": "fine"}', "expected_outcome": "is polite"}
    write(project, default=fine, **{name: {**fine, "target": f"judged-by-{name}"} for name in JUDGES})
    judged = "  - {{name: judged-by-{0}, provider: mock, response: fine, judge_target: {0}}}\n"
    project.write("targets.yaml", TARGETS + "".join(map(judged.format, JUDGES)))
    for number, status in enumerate(("error", "pass"), start=1):
        run = project.run("--agentv-cache")
        assert run.by_id["default"]["status"] == status
        for name, error in JUDGES.items():
            assert run.by_id[name]["error"] == error
            assert run.by_id[name]["error_detail"] == {"stage": "evaluator", "kind": "no_answer"}
        assert (project.path / "calls").read_text().split().count("judge") == number


def test_a_trace_file_that_is_no_file_is_an_error(project):
    os.mkfifo(project.path / "trace.jsonl")
    reply = {"text": "fine", "cost_usd": 0.5, "trace_ref": str(project.path / "trace.jsonl")}
    write(project, a={"target": "function", "input": json.dumps(reply), "evaluators": [POLITE]})
    (result,) = project.run().results
    assert result["status"] == "error"
    assert (result["candidate_answer"], result["execution_metrics"]["cost_usd"]) == ("fine", 0.5)
    assert "cannot read this trace file: it is a named pipe, not a regular file" in result["error"]
