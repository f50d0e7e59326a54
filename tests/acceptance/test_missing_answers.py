"""A target that replies without an answer is an ERROR: checks for what must not be said would pass on nothing."""

import json
import os

import pytest
from thorough import varied

TARGETS = """
targets:
  - name: default
    provider: python
    callable: agent.py:answer
    judge_target: judge
  - {name: judge, provider: python, callable: agent.py:judge}
  - {name: program, provider: cli, command_template: "cat reply.json; echo called >> calls"}
  - {name: canned, provider: mock, response: " ", finish_reason: content_filter}
"""

AGENT = """
import json
from pathlib import Path

HERE = Path(__file__).parent


def answer(prompt):
    with (HERE / "calls").open("a") as file:
        file.write("called\\n")
    return json.loads((HERE / "reply.json").read_text())


def judge(prompt):
    with (HERE / "calls").open("a") as file:
        file.write("judged\\n")
    return json.loads((HERE / "judgement.json").read_text())
"""

NEGATIVE = """
evalcases:
  - id: a
    expected_outcome: does not curse
    input: hello
    evaluators:
      - {name: polite, type: heuristic, misses: [damn]}
"""

JUDGED = """
evalcases:
  - id: a
    expected_outcome: is polite
    input: hello
"""

WHOLE = {"text": '{"score": 1}', "finish_reason": "stop"}


@pytest.fixture
def run(project):
    """Return what runs one case against a reply; `calls` in the project's folder counts who was asked."""
    project.write("targets.yaml", TARGETS)
    project.write("agent.py", AGENT)

    def one(reply, *flags, suite=NEGATIVE, judgement=WHOLE):
        project.write("a.eval.yaml", suite)
        (project.path / "reply.json").write_text(json.dumps(reply))
        (project.path / "judgement.json").write_text(json.dumps(judgement))
        (project.path / "calls").write_text("")
        done = project.run(*flags)
        assert done.internals == []
        return done

    return one


def calls(project):
    return (project.path / "calls").read_text().split()


USAGE = {"token_usage": {"input": 3, "output": 16}, "cost_usd": 0.5}


@pytest.mark.parametrize(
    ("target", "finish_reason", "why"),
    [
        ("default", "content_filter", "a content filter stopped it"),
        ("default", "SAFETY", "a content filter stopped it"),
        ("default", "length", "it was cut at the token limit"),
        ("default", "refusal", "the model refused"),
        ("program", "content_filter", "a content filter stopped it"),
        varied("program", "length", "it was cut at the token limit"),
        varied("program", "refusal", "the model refused"),
    ],
)
def test_a_blank_answer_whose_finish_reason_tells_why_is_an_error_and_is_not_judged(
    run, project, target, finish_reason, why
):
    done = run({"text": " \n", "finish_reason": finish_reason, **USAGE}, f"--agentv-target={target}")

    (result,) = done.results
    assert (result["status"], result["score"], result["finish_reason"]) == ("error", 0, finish_reason)
    assert result["error"] == f"the target gave no answer: {why} (finish_reason={finish_reason})"
    assert result["error_detail"] == {"stage": "provider", "kind": "no_answer"}
    assert "evaluator_results" not in result
    assert result["execution_metrics"]["cost_usd"] == 0.5
    assert result["execution_metrics"]["token_usage"] == {"input": 3, "output": 16}
    assert (result["attempts"], calls(project)) == (1, ["called"])
    assert done.outcomes == {"error": 1} or done.outcomes == {"errors": 1}
    assert "The target gave no answer (no_answer)" in done.text


NULL = {"role": "assistant", "content": None}


def test_a_command_that_says_only_null_is_an_error_and_is_not_kept(run, project):
    flags = ("--agentv-target=program", "--agentv-cache")
    done = run({"output_messages": [NULL], **USAGE}, *flags)

    (result,) = done.results
    assert (result["status"], result["error_detail"]["kind"]) == ("error", "no_answer")
    assert result["error"] == "the target gave no answer: the content of its last message is null"
    assert result["execution_metrics"]["cost_usd"] == 0.5
    assert run({"text": "fine"}, *flags).results[0]["candidate_answer"] == "fine"


CALLED = """
evalcases:
  - {id: a, expected_outcome: searches, input: hello, evaluators: [{tool-called: search, times: 1}]}
"""
CALL = {"type": "tool_call", "name": "search"}


@pytest.mark.parametrize("target", ["default", "program"])
@pytest.mark.parametrize("reply", [{"text": None}, {"output_messages": [NULL]}])
def test_null_beside_the_calls_of_a_trace_is_judged_and_kept(run, project, target, reply):
    for asked in (1, 0):
        flags = (f"--agentv-target={target}", "--agentv-cache")
        (result,) = run({**reply, "trace": [CALL]}, *flags, suite=CALLED).results
        assert (result["status"], result["candidate_answer"], len(calls(project))) == ("pass", "", asked)


@pytest.mark.parametrize(
    ("events", "status", "error"),
    [([CALL], "pass", None), ([], "error", "the target gave no answer: the content of its last message is null")],
)
def test_a_trace_file_may_hold_the_calls_beside_null(run, project, events, status, error):
    project.write("trace.json", json.dumps(events))
    reply = {"text": None, "trace_ref": "trace.json"}
    (result,) = run(reply, "--agentv-target=program", suite=CALLED).results
    assert (result["status"], result.get("error")) == (status, error)


@pytest.mark.parametrize("target", ["default", "program"])
@pytest.mark.parametrize(
    "reply",
    [
        {"text": "fine", "output_messages": [NULL]},
        {"output_messages": [{"role": "assistant", "content": "fine"}, NULL]},
    ],
)
def test_null_hides_no_answer_beside_it_or_before_it(run, target, reply):
    (result,) = run(reply, f"--agentv-target={target}").results
    assert (result["status"], result["candidate_answer"]) == ("pass", "fine")


def test_a_mock_plays_a_filtered_answer(run):
    (result,) = run({}, "--agentv-target=canned").results
    assert (result["status"], result["error_detail"]["kind"]) == ("error", "no_answer")


def test_an_answer_that_was_cut_is_judged_and_the_record_and_the_failure_text_say_so(run):
    done = run({"text": "damn, it is fo", "finish_reason": "length"})

    (result,) = done.results
    assert (result["status"], result["finish_reason"]) == ("fail", "length")
    assert "Answer (14 characters; it was cut at the token limit):" in done.text
    assert "finish_reason=length" in done.text


def test_a_whole_answer_has_its_finish_reason_in_the_record(run):
    (result,) = run({"text": "fine", "finish_reason": "stop"}).results
    assert (result["status"], result["finish_reason"]) == ("pass", "stop")


def test_a_blank_answer_of_a_program_that_reports_no_reason_is_judged_as_before(run):
    (result,) = run({"text": ""}).results
    assert result["status"] == "pass"
    assert "finish_reason" not in result


@pytest.mark.parametrize(
    ("judgement", "error"),
    [
        (
            {"text": '{"score": 1}', "finish_reason": "length"},
            "the reply of the judge 'judge' is not whole: it was cut at the token limit (finish_reason=length)",
        ),
        (
            {"text": '{"score": 1}', "finish_reason": "content_filter"},
            "the reply of the judge 'judge' is not whole: a content filter stopped it (finish_reason=content_filter)",
        ),
        (
            {"text": "", "finish_reason": "length"},
            "the judge 'judge' could not be asked: the target gave no answer: it was cut at the token limit "
            "(finish_reason=length)",
        ),
    ],
)
def test_a_judge_that_was_cut_or_filtered_is_an_error(run, project, judgement, error):
    (result,) = run({"text": "fine"}, suite=JUDGED, judgement=judgement).results

    assert (result["status"], result["error"]) == ("error", error)
    assert result["error_detail"] == {"stage": "evaluator", "kind": "no_answer"}
    assert calls(project) == ["called", "judged"]


@pytest.mark.parametrize(
    "reply", [{"text": "", "finish_reason": "length"}, {"text": "It is fo", "finish_reason": "length"}]
)
def test_what_was_cut_is_never_cached(run, project, reply):
    run(reply, "--agentv-cache")
    assert calls(project) == ["called"]
    run(reply, "--agentv-cache")
    assert calls(project) == ["called"]


def test_a_judgement_that_was_cut_is_never_cached(run, project):
    cut = {"text": '{"score": 1}', "finish_reason": "length"}
    run({"text": "fine"}, "--agentv-cache", suite=JUDGED, judgement=cut)
    (result,) = run({"text": "fine"}, "--agentv-cache", suite=JUDGED).results
    assert (result["status"], calls(project)) == ("pass", ["judged"])


BATCH = """
targets:
  - name: default
    provider: cli
    provider_batching: true
    judge_target: judge
    command_template: cat batch.jsonl
  - {name: judge, provider: python, callable: agent.py:judge}
"""


def test_a_case_that_the_batch_left_out_is_an_error_of_the_provider_and_is_not_judged(run, project):
    project.write("targets.yaml", BATCH)
    project.write("batch.jsonl", '{"id": "a", "text": "hi"}\n{"id": "c", "text": "", "finish_reason": "length"}\n')
    suite = JUDGED + "".join(JUDGED.partition("evalcases:")[2].replace("id: a", f"id: {name}") for name in "bc")

    done = run({}, suite=suite)

    assert done.statuses == {"a": "pass", "b": "error", "c": "error"}
    assert calls(project) == ["judged"]
    left_out = done.by_id["b"]
    assert left_out["error_detail"] == {"stage": "provider", "kind": "no_answer"}
    assert left_out["error"] == "Batch output missing id 'b'"
    assert left_out["score"] == 0
    assert "evaluator_results" not in left_out
    assert done.by_id["c"]["error_detail"] == {"stage": "provider", "kind": "no_answer"}


ODD = {
    "text": "fine",
    "usage": {"input": 1},
    "cost": 2,
    "metadata": {},
    "tokenUsage": {"input": 1, "output": 2, "total": 3},
    "id": "a",
}


@pytest.mark.parametrize("target", ["default", "program"])
def test_keys_of_an_answer_that_nobody_reads_are_warned_of_once_per_target(run, project, target):
    suite = NEGATIVE + NEGATIVE.partition("evalcases:")[2].replace("id: a", "id: b")

    done = run(ODD, f"--agentv-target={target}", suite=suite)

    assert done.statuses == {"a": "pass", "b": "pass"}
    warnings = [line.partition("AgentvWarning: ")[2] for line in done.lines if "AgentvWarning: " in line]
    place = "targets.yaml:2" if target == "default" else "targets.yaml:7"
    head = f"{place}: target '{target}': the answer has a key that is not read: "
    assert warnings == [
        f"{head}'usage' (did you mean 'token_usage'?)",
        f"{head}'cost' (did you mean 'cost_usd'?)",
        f"{head}'metadata' (known keys: text, output_messages, trace, trace_ref, token_usage, cost_usd, duration_ms, "
        "finish_reason, retrieved_context)",
        f"{head}'token_usage.total' (known keys: input, output, cached, reasoning)",
    ]


def test_an_answer_that_is_read_whole_is_not_warned_of(run):
    assert "AgentvWarning" not in run({"text": "fine", "tokenUsage": {"input": 1, "output": 2}}).text


def test_a_trace_file_that_is_no_file_is_an_error(run, project):
    os.mkfifo(project.path / "trace.jsonl")
    (result,) = run({"text": "fine", "cost_usd": 0.5, "trace_ref": str(project.path / "trace.jsonl")}).results
    assert result["status"] == "error"
    assert (result["candidate_answer"], result["execution_metrics"]["cost_usd"]) == ("fine", 0.5)
    assert "cannot read this trace file: it is a named pipe, not a regular file" in result["error"]
