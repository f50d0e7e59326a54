"""Judge scripts that break: a broken judge is an error, a bad judgement a score of 0, and neither ends the run."""

import json
import sys
from pathlib import Path

import pytest

from pytest_agentv.runtime import processes

SHAPE = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} on standard '
    "output, and everything else on standard error"
)


@pytest.fixture
def judged(project):
    """Return what runs a case per script, each judged by it, and a last one that a good judge passes."""
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    project.write("good.py", 'print(\'{"score": 1, "hits": ["fine"]}\')\n')

    def run(scripts, *flags):
        cases = []
        for name, script in {**scripts, "good": "good.py"}.items():
            command = script if isinstance(script, list) else [sys.executable, script]
            judge = {"name": "judge", "type": "code_judge", "script": command}
            cases.append({"id": name, "expected_outcome": "o", "input": "q", "evaluators": [judge]})
        project.write("a.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(case)}\n" for case in cases))
        finished = project.run(*flags)
        assert finished.statuses["good"] == "pass"
        assert list(finished.by_id) == [*scripts, "good"]
        assert finished.internals == []
        return finished

    return run


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


BROKEN = {
    "crashes": (
        "import sys\nprint('half a res')\nsys.stderr.write('looking\\n')\nraise ValueError('no such table')\n",
        "Code evaluator exited with code 1 (script: {python} {script}): looking\n"
        "Traceback (most recent call last):\n"
        '  File "{folder}/{script}", line 4, in <module>\n'
        "    raise ValueError('no such table')\n"
        "ValueError: no such table",
        "process",
    ),
    "exits": (
        "import sys\nsys.exit(3)\n",
        "Code evaluator exited with code 3 (script: {python} {script}): it wrote nothing on standard error",
        "process",
    ),
    "killed": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "Code evaluator was killed by SIGKILL (script: {python} {script}): it wrote nothing on standard error",
        "process",
    ),
    "floods": (
        "import sys\nwhile True: sys.stdout.write('x' * 100_000)\n",
        "Code evaluator was stopped because it printed too much (script: {python} {script}): it wrote nothing on "
        "standard error",
        "process",
    ),
}
"""Scripts, the error that comes of each, and its kind."""
HANGING = {
    "hangs": (
        "import sys, time\nprint('{}', flush=True)\nsys.stderr.write('waiting for the "
        "database')\nsys.stderr.flush()\ntime.sleep(60)\n",
        "Code evaluator timed out after 2 s (script: {python} {script}): waiting for the database",
        "timeout",
    ),
}
"""A script that a run of its own ends: under its limit the others would be ended on a busy machine."""


@pytest.mark.scenario("Code evaluator execution")
@pytest.mark.parametrize(("limit", "broken"), [(60, BROKEN), (2, HANGING)], ids=["broken", "hanging"])
def test_a_judge_that_breaks_makes_its_case_an_error_with_what_the_script_said(project, judged, limit, broken):
    for name, (script, _, _) in broken.items():
        project.write(f"{name}.py", script)
    run = judged({name: f"{name}.py" for name in broken}, f"--agentv-timeout={limit}")
    for name, (_, text, kind) in broken.items():
        message = text.format(python=sys.executable, script=f"{name}.py", folder=project.path)
        result = run.by_id[name]
        assert (result["status"], result["score"], result["error"]) == ("error", 0, message)
        assert result["error_detail"] == {"stage": "evaluator", "kind": kind}
        assert result["candidate_answer"] == "hello world"
        assert result["misses"] == [f"Evaluator 'judge' failed: {message}"]
        (evaluation,) = result["evaluator_results"]
        assert (evaluation["score"], evaluation["error"]) == (0, message)
    if broken is BROKEN:
        assert run.by_id["crashes"]["evaluator_results"][0]["raw_output"] == "half a res\n"
        assert len(run.by_id["floods"]["evaluator_results"][0]["raw_output"]) < 11_000
    assert (run.exit_code, run.outcomes) == (1, {"passed": 1, "errors": len(broken)})


def test_a_crash_of_a_judge_is_shown_with_its_traceback_and_where_the_case_stands(project, judged):
    project.write("crashes.py", "raise ValueError('no such table')\n")
    run = judged({"crashes": "crashes.py"})
    start = next(number for number, line in enumerate(run.lines) if "ERROR at setup of crashes" in line)
    shown = run.lines[start + 1 : start + 17]
    assert shown.pop(13).startswith("Target: default, 1 attempt, ")
    assert shown == [
        "The answer could not be judged (process)",
        "",
        f"Code evaluator exited with code 1 (script: {sys.executable} crashes.py): Traceback (most recent call last):",
        f'  File "{project.path}/crashes.py", line 1, in <module>',
        "    raise ValueError('no such table')",
        "ValueError: no such table",
        "",
        "Evaluator  Type        Score  Weight  Verdict",
        "judge      code_judge  0.000       1  error",
        "",
        "Answer (11 characters):",
        "  hello world",
        "",
        "Case:   a.eval.yaml:2",
        "Rerun:  pytest a.eval.yaml::crashes",
    ]


UNREADABLE = {
    "garbage": ("looks good", f"Code evaluator did not print one JSON object: {SHAPE}; it printed: looks good"),
    "nothing": ("", f"Code evaluator printed nothing: {SHAPE}"),
    "two": (
        '{"score": 1}\n{"score": 1}',
        f'Code evaluator did not print one JSON object: {SHAPE}; it printed: {{"score": 1}}\n{{"score": 1}}',
    ),
    "list": ("[1]", f"Code evaluator did not print one JSON object: {SHAPE}; it printed: [1]"),
    "nan": (
        '{"score": 1, "details": {"mean": NaN}}',
        "Code evaluator printed NaN, which is no JSON: print a number, or null in details; "
        'it printed: {"score": 1, "details": {"mean": NaN}}',
    ),
    "no-score": ('{"hits": []}', f'Code evaluator printed no `score`: {SHAPE}; it printed: {{"hits": []}}'),
    "word": ('{"score": "high"}', 'Code evaluator printed a `score` that is no number: "high"; print one from 0 to 1'),
    "details": (
        '{"score": 1, "details": [1]}',
        'Code evaluator printed `details` that are no JSON object: [1]; print a mapping such as {"reason": "…"}, or '
        "leave them out",
    ),
    "chatty": ("x" * 5000, f"Code evaluator did not print one JSON object: {SHAPE}; it printed: {'x' * 200}…"),
}
"""What judges print, and the miss that comes of it."""


@pytest.mark.scenario("Details payload is not valid JSON")
def test_a_judge_that_ends_well_but_prints_no_judgement_scores_0_and_is_told_how_to_mend_it(project, judged):
    for name, (output, _) in UNREADABLE.items():
        project.write(f"{name}.py", f"import sys\nsys.stdout.write({output!r})\n")
    run = judged({name: f"{name}.py" for name in UNREADABLE})
    for name, (output, message) in UNREADABLE.items():
        result = run.by_id[name]
        assert (result["status"], result["score"], result["misses"]) == ("error", 0, [message])
        assert (result["error"], result["error_detail"]) == (message, {"stage": "evaluator", "kind": "process"})
        assert result["evaluator_results"][0]["raw_output"] == output
    assert (run.exit_code, run.outcomes) == (1, {"passed": 1, "errors": len(UNREADABLE)})
    assert run.lines.count(UNREADABLE["garbage"][1]) == 1


def test_output_of_a_judge_that_is_no_utf8_is_recorded_and_shown(project, judged):
    project.write("bytes.py", "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\x00\\x1b[31m')\n")
    run = judged({"bytes": "bytes.py"})
    assert run.by_id["bytes"]["evaluator_results"][0]["raw_output"] == "��\x00\x1b[31m"
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert "\x1b[31m" not in run.text


def test_a_script_that_is_named_by_its_path_has_to_be_there(project, judged):
    project.write("a.eval.yaml", "")
    project.write(
        "targets.yaml", "targets: [{name: default, provider: cli, command_template: touch ran; echo hello}]\n"
    )
    judge = "{name: judge, type: code_judge, script: judges/lost.py}"
    project.write(
        "a.eval.yaml", f"evalcases:\n  - {{id: lost, expected_outcome: o, input: q, evaluators: [{judge}]}}\n"
    )
    run = project.run()
    message = (
        "a.eval.yaml:2: evalcases[0].evaluators[0].script: file 'judges/lost.py' was not found; "
        "searched: judges/lost.py"
    )
    assert run.by_id["lost"]["error"] == message
    assert run.by_id["lost"]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert (run.exit_code, run.internals, run.lines.count(message)) == (1, [], 1)
    assert not (project.path / "ran").exists()


def test_a_command_that_is_not_there_is_an_error_that_names_it(project, judged):
    run = judged({"lost": ["agentv-no-such-program", "x"], "lost-file": "lost.py"})
    assert run.by_id["lost"]["error"] == (
        f"Code evaluator could not be started (script: agentv-no-such-program x, cwd: {project.path}): "
        "cannot run 'agentv-no-such-program': no such program, neither as a path nor on PATH"
    )
    assert run.by_id["lost"]["error_detail"] == {"stage": "evaluator", "kind": "config"}
    assert run.by_id["lost-file"]["error"].startswith(f"Code evaluator exited with code 2 (script: {sys.executable} ")
    assert run.outcomes == {"passed": 1, "errors": 2}


def test_a_judge_that_hangs_with_children_and_ignores_being_asked_to_end_is_gone_afterwards(
    project, judged, monkeypatch
):
    monkeypatch.setattr(processes, "_TERM_SECONDS", 0.2)
    project.write(
        "deaf.py",
        """
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
        child.stdout.readline()
        open("pids", "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(60)
        """,
    )
    run = judged({"deaf": "deaf.py"}, "--agentv-timeout=1")
    assert run.by_id["deaf"]["error_detail"] == {"stage": "evaluator", "kind": "timeout"}
    pids = [int(pid) for pid in (project.path / "pids").read_text().split()]
    assert len(pids) == 2
    assert [pid for pid in pids if is_running(pid)] == []


def test_the_other_evaluators_of_a_case_still_judge_when_one_breaks(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    project.write("crashes.py", "1 / 0\n")
    project.write(
        "a.eval.yaml",
        f"""
        evalcases:
          - id: a
            expected_outcome: o
            input: q
            threshold: 0.4
            evaluators:
              - {{name: broken, type: code_judge, script: [{sys.executable}, crashes.py]}}
              - {{name: words, type: heuristic, hits: [hello]}}
        """,
    )
    run = project.run()
    result = run.by_id["a"]
    assert [(entry["name"], entry["score"]) for entry in result["evaluator_results"]] == [("broken", 0), ("words", 1)]
    # Half the score would do, but nobody knows what the broken judge would have said.
    assert (result["status"], result["score"], run.exit_code) == ("error", 0.5, 1)


@pytest.mark.parametrize("kind", ["raise RuntimeError('no licence')", "return 5"])
def test_an_evaluator_of_a_plugin_that_breaks_is_an_error_of_its_case(project, kind):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    project.write(
        "conftest.py",
        f"""
        class Broken:
            async def evaluate(self, context):
                {kind}

        def pytest_agentv_evaluators():
            return {{"mine": lambda spec, services: Broken()}}
        """,
    )
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - {id: a, expected_outcome: o, input: q, evaluators: [{name: m, type: mine}]}
          - {id: b, expected_outcome: o, input: q, evaluators: [{name: w, type: heuristic, hits: [hello]}]}
        """,
    )
    run = project.run()
    raised = "RuntimeError: no licence\n  conftest.py:3 in evaluate"
    messages = {"raise": raised, "return": "evaluate() returned int, expected a Score"}
    assert run.by_id["a"]["error"] == messages[kind.split()[0]]
    assert run.by_id["a"]["error_detail"] == {"stage": "evaluator", "kind": "crash"}
    assert run.statuses == {"a": "error", "b": "pass"}
    assert (run.exit_code, run.internals) == (1, [])


def test_a_judging_model_that_cannot_be_asked_is_an_error_and_no_bad_score(project):
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello, judge_target: judge}
          - {name: judge, provider: cli, command_template: "echo out of order >&2; exit 1"}
        """,
    )
    project.write("a.eval.yaml", "evalcases:\n  - {id: a, expected_outcome: o, input: q}\n")
    run = project.run()
    message = "the judge 'judge' could not be asked: out of order (exit code 1)"
    assert (run.by_id["a"]["status"], run.by_id["a"]["error"]) == ("error", message)
    assert run.by_id["a"]["error_detail"] == {"stage": "evaluator", "kind": "process"}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"errors": 1}, [])


@pytest.mark.scenario("LLM judge evaluation failure")
def test_a_judging_model_that_replies_without_json_scores_0_and_its_reply_is_kept(project):
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello, judge_target: judge}
          - {name: judge, provider: mock, response: I like it}
        """,
    )
    judge = "[{name: j, type: llm_judge}]"
    project.write("a.eval.yaml", f"evalcases:\n  - {{id: a, expected_outcome: o, input: q, evaluators: {judge}}}\n")
    run = project.run()
    (evaluation,) = run.by_id["a"]["evaluator_results"]
    assert (run.by_id["a"]["status"], evaluation["score"], evaluation["raw_output"]) == ("error", 0, "I like it")
    assert (evaluation["hits"], evaluation["misses"]) == ([], [])
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"errors": 1}, [])


def test_a_judge_that_closes_its_input_unread_counts_by_what_it_prints(project, judged):
    project.write("closes.py", "import os\nos.close(0)\nprint('{\"score\": 1}')\n")
    project.write(
        "targets.yaml", "targets: [{name: default, provider: cli, command_template: yes hello | head -c 500000}]\n"
    )
    run = judged({"closes": "closes.py"})
    assert run.statuses["closes"] == "pass"
    assert len(run.by_id["closes"]["candidate_answer"]) > 490_000
