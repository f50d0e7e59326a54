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


UNREADABLE = {
    "nan": (
        '{"score": 1, "details": {"mean": NaN}}',
        f"Code evaluator did not print one JSON object: {SHAPE}; it printed: "
        '{"score": 1, "details": {"mean": NaN}}',
    ),
    "word": ('{"score": "high"}', 'Code evaluator printed a `score` that is no number: "high"; print one from 0 to 1'),
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


def test_a_judge_that_closes_its_input_unread_counts_by_what_it_prints(project, judged):
    project.write("closes.py", "import os\nos.close(0)\nprint('{\"score\": 1}')\n")
    project.write(
        "targets.yaml", "targets: [{name: default, provider: cli, command_template: yes hello | head -c 500000}]\n"
    )
    run = judged({"closes": "closes.py"})
    assert run.statuses["closes"] == "pass"
    assert len(run.by_id["closes"]["candidate_answer"]) > 490_000
