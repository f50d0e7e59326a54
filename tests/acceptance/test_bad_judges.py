"""Judge scripts that break: a broken judge is an error, a bad judgement a score of 0, and neither ends the run."""

import json
import sys
from pathlib import Path

import pytest


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


@pytest.mark.kills
def test_a_judge_that_hangs_with_children_and_ignores_being_asked_to_end_is_gone_afterwards(
    project, judged, monkeypatch
):
    monkeypatch.setattr("pytest_agentv.runtime.processes._TERM_SECONDS", 0.2)
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
