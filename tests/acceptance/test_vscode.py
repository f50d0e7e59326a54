"""Evals of VS Code, played by a stand-in program on PATH."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import warm
from code_stand_in import CodeStandIn, until
from thorough import varied

from pytest_agentv.providers import vscode
from pytest_agentv.providers import vscode as window

TARGETS = """
targets:
  - name: default
    provider: {provider}
    subagent_root: agents
    {more}
  - {{name: fine, provider: mock, response: hello fine}}
"""


SECONDS = {
    (vscode, "_POLL_SECONDS"): 0.1,
    (window, "_FOCUS_SECONDS"): 0.01,
    (window, "_OPEN_SECONDS"): 0.01,
    (window, "_READY_POLL_SECONDS"): 0.02,
}
"""How long it waits for the stand-in, which is faster than an editor."""

CONFTEST = "".join(
    f"import {module.__name__}\n{module.__name__}.{name} = {seconds}\n" for (module, name), seconds in SECONDS.items()
)
"""The same for runs in other processes, and for workers."""


@pytest.fixture
def code(tmp_path, monkeypatch):
    program = CodeStandIn(tmp_path / "bin")
    monkeypatch.setenv("PATH", program.path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for place, seconds in SECONDS.items():
        monkeypatch.setattr(*place, seconds)
    return program


@pytest.fixture
def write(project):
    """Write a target, and cases whose answers are to repeat their prompts."""
    project.write("conftest.py", CONFTEST)

    def files(*words, more="", provider="vscode", folder=".", extra=""):
        project.write(f"{folder}/targets.yaml", TARGETS.format(provider=provider, more=more))
        cases = [
            {
                "id": word,
                "expected_outcome": "hello",
                "input_messages": [{"role": "user", "content": word}],
                "evaluators": [{"name": "words", "type": "heuristic", "hits": [f"hello {word}"]}],
                **({"execution": {"target": "fine"}} if word == "fine" else {}),
            }
            for word in words
        ]
        project.write(f"{folder}/a.eval.yaml", json.dumps({"evalcases": cases}))

    return files


def locks(folder):
    return [path for path in folder.rglob("*.lock") if path.name == "subagent.lock"]


def in_flight(code):
    """Return the spans between a chat and its answer, by folder."""
    spans = {}
    for call in code.calls():
        if call["event"] == "chat":
            spans.setdefault(call["folder"], []).append([call["time"], None])
        elif call["event"] == "answered":
            folder = str(Path(call["entry"]).parents[1])
            next(span for span in spans[folder] if span[1] is None)[1] = call["time"]
    return spans


def assert_one_after_another(spans):
    ordered = sorted(spans)
    assert all(before[1] <= after[0] for before, after in pairwise(ordered)), ordered


@pytest.mark.scenario("VS Code provider")
@pytest.mark.scenario("VS Code Copilot provider")
@pytest.mark.parametrize(
    ("provider", "flags"),
    [("vscode-copilot", []), ("vscode", ["-n2"])],
    ids=str,
)
def test_each_case_is_asked_and_judged(project, code, write, provider, flags):
    write("one", "two", "fine", provider=provider)
    run = project.run(*flags)
    assert run.outcomes == {"passed": 3}
    assert run.by_id["one"]["candidate_answer"] == "hello one"
    assert {call["folder"] for call in code.calls("chat")} == {f"{project.path}/agents/subagent-1"}
    assert locks(project.path) == []


def test_linked_files_are_attached(project, code, write):
    write("one")
    text = (project.path / "a.eval.yaml").read_text()
    content = [{"type": "file", "value": "data.txt"}, {"type": "text", "value": "one"}]
    project.write("a.eval.yaml", text.replace('"content": "one"', f'"content": {json.dumps(content)}'))
    data = project.write("data.txt", "1 2 3")
    project.run()
    (chat,) = code.calls("chat")
    assert chat["argv"][4:6] == ["-a", str(data)]
    (request,) = chat["files"].values()
    assert f"* [data.txt](file://{data})." in request


@pytest.mark.scenario("VS Code worker cap")
@pytest.mark.parametrize(
    ("flags", "source"),
    [
        (["--agentv-workers=4"], "4 (--agentv-workers)"),
        (["-n2"], "3 (workers)"),
    ],
    ids=str,
)
def test_one_case_at_a_time_and_one_warning_whatever_was_asked_for(project, code, write, flags, source):
    code.behave(seconds=0.3)
    for folder in ("a", "b"):
        write("one", "two", more="workers: 3", folder=folder)
        path = project.path / folder / "targets.yaml"
        path.write_text(path.read_text().replace("subagent_root: agents", "subagent_root: ../agents"))
    run = project.run(*flags)
    assert run.outcomes == {"passed": 4, "warnings": 1}
    warning = f"targets.yaml:2: target 'default' runs with 1 worker instead of {source}: VS Code runs one case at"
    assert run.text.count(warning) == run.text.count("with 1 worker instead of") == 1
    spans = [span for each in in_flight(code).values() for span in each]
    assert len(spans) == 4
    assert_one_after_another(spans)
    assert [path.name for path in (project.path / "agents").iterdir()] == ["subagent-1"]


@pytest.mark.scenario("VS Code worker cap")
def test_with_one_worker_or_in_a_dry_run_nothing_is_said(project, code, write):
    write("one", more="workers: 1")
    assert project.run().outcomes == {"passed": 1}
    write("one", more="workers: 5")
    assert project.run("--agentv-dry-run").outcomes == {"passed": 1}
    assert len(code.calls("chat")) == 1


@pytest.mark.scenario("VS Code worker cap")
def test_other_targets_keep_their_workers_beside_it(project, code, write):
    code.behave(seconds=1)
    words = [f"fine-{number}" for number in range(4)]
    write("slow", *words)
    targets = (
        "targets: [{name: default, provider: vscode}, {name: fine, provider: python, callable: agent.py:answer}]\n"
    )
    project.write("targets.yaml", targets)
    project.write(
        "agent.py",
        "import threading\nall_are_here = threading.Barrier(4)\n"
        "def answer(prompt):\n    all_are_here.wait(20)\n    return 'hello ' + prompt\n",
    )
    cases = json.loads((project.path / "a.eval.yaml").read_text())["evalcases"]
    for case in cases[1:]:
        case["execution"] = {"target": "fine"}
    project.write("a.eval.yaml", json.dumps({"evalcases": [*cases[1:], cases[0]]}))
    assert project.run("--agentv-workers=4").outcomes == {"passed": 5, "warnings": 1}


@pytest.mark.scenario("VS Code provider")
@pytest.mark.scenario("Enabled for batching-capable provider")
def test_a_batch_goes_out_in_one_chat(project, code, write):
    write("one", "two", "three", more="provider_batching: true")
    run = project.run()
    assert run.outcomes == {"passed": 3}
    (chat,) = code.calls("chat")
    assert len(chat["files"]) == 4
    assert chat["argv"][-1].endswith("_orchestrator.md). Use #runSubagent tool.")


def test_a_case_that_a_batch_left_out_is_the_only_error(project, code, write):
    code.behave(left_out=[1])
    write("one", "two", "three", more="provider_batching: true")
    run = project.run("--agentv-timeout=1")
    assert run.statuses == {"one": "pass", "two": "error", "three": "pass"}
    assert run.by_id["two"]["error"].startswith("VS Code answered other cases of the batch, and not this one, within")
    assert (run.internals, locks(project.path)) == ([], [])


def test_a_time_out_is_repeated_and_then_an_error(project, code, write):
    code.behave(silent=True)
    code.open_windows(1)
    write("one", "fine")
    run = project.run("--agentv-timeout=2.5", "--agentv-max-retries=1")
    assert run.outcomes == {"passed": 1, "errors": 1}
    result = run.by_id["one"]
    assert (result["error_detail"]["kind"], result["attempts"]) == ("timeout", 2)
    assert result["error"].startswith(f"VS Code timed out after 2.5s: {project.path}/agents/subagent-1/messages/")
    assert (run.internals, locks(project.path)) == ([], [])


def test_a_missing_program_breaks_its_own_cases_before_anything_is_written(project, code, write):
    code.program.unlink()
    write("one", "fine")
    run = project.run()
    message = (
        "target 'default' (targets.yaml:2): VS Code's command line program 'code' was not found on PATH; install it "
        "(in VS Code: \"Shell Command: Install 'code' command in PATH\"), or name it in the targets file: "
        "`vscode_cmd: /path/to/code`"
    )
    assert run.by_id["one"]["error"] == message
    assert run.by_id["one"]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1, "errors": 1}, [])
    assert not (project.path / "agents").exists()


def test_a_workspace_template_that_cannot_be_used_is_named(project, code, write):
    write("one", more="workspace_template: my.code-workspace")
    project.write("my.code-workspace", '{\n  "folders" []\n}\n')
    run = project.run()
    assert run.by_id["one"]["error"] == (
        "workspace_template my.code-workspace:2: invalid JSON: Expecting ':' delimiter (column 13)"
    )
    assert code.calls() == []
    project.write("my.code-workspace", '{"folders": [{"path": "src"}]}')
    assert project.run().outcomes == {"passed": 1}
    workspace = json.loads((project.path / "agents/subagent-1/subagent-1.code-workspace").read_text())
    assert workspace == {"folders": [{"path": "."}, {"path": f"{project.path}/src"}]}


@pytest.mark.scenario("VS Code provider")
def test_without_waiting_and_in_rehearsal_there_is_no_answer_and_nothing_is_judged(project, code, write):
    """Such a case passed if its checks only forbid something, and a judge was paid for an empty answer."""
    code.behave(silent=True)
    write("one", more="wait: false")
    forbid = "evaluators: [{name: words, type: heuristic, misses: [sorry]}]"
    keys = {"waits": "wait: false", "rehearses": "dry_run: true"}
    keys |= {f"{name}-batch": f"{value}, provider_batching: true" for name, value in keys.items()}
    targets = "".join(
        f"  - {{name: {name}, provider: vscode, subagent_root: {name}, {value}}}\n" for name, value in keys.items()
    )
    project.write("targets.yaml", f"targets:\n{targets}")
    cases = "".join(f"  - {{id: {name}, target: {name}, input: one, {forbid}}}\n" for name in keys)
    project.write("a.eval.yaml", f"cases:\n{cases}")
    run = project.run("--agentv-cache")
    for name, result in run.by_id.items():
        error = (
            "the answer was not waited for, so there is none to judge: the target has `wait: false`"
            if name.startswith("waits")
            else "VS Code was not asked, so there is no answer to judge: the target has `dry_run: true`"
        )
        assert (result["candidate_answer"], result["error"]) == ("", error)
        assert result["error_detail"] == {"stage": "provider", "kind": "no_answer"}
        assert (project.path / name).exists() is name.startswith("waits")
    assert (run.outcomes["errors"], len(code.calls("chat"))) == (4, 2)


@pytest.mark.scenario("VS Code worker cap")
def test_as_a_judge_it_is_asked_one_question_at_a_time(project, code, write):
    code.behave(reply='{{"score": 1, "hits": [], "misses": []}}', seconds=0.2)
    words = [f"fine-{number}" for number in range(4)]
    write(*words)
    targets = project.path / "targets.yaml"
    targets.write_text(targets.read_text().replace("response: hello fine", "response: hello, judge_target: default"))
    cases = json.loads((project.path / "a.eval.yaml").read_text())["evalcases"]
    for case in cases:
        case.update(execution={"target": "fine"}, evaluators=[{"name": "judge", "type": "llm_judge"}])
    project.write("a.eval.yaml", json.dumps({"evalcases": cases}))
    assert project.run("--agentv-workers=4").statuses == dict.fromkeys(words, "pass")
    spans = [span for each in in_flight(code).values() for span in each]
    assert len(spans) == 4
    assert_one_after_another(spans)


class Started:
    """A pytest run in a process of its own."""

    def __init__(self, project, number=0, *args):
        self.out = project.path / f"started-{number}.jsonl"
        without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio")
        self.temp = project.path / f"temp-{number}"
        self.temp.mkdir(exist_ok=True)
        self.process = warm.Popen(
            [sys.executable, "-m", "pytest", "-q", *without, f"--agentv-out={self.out}", *args],
            cwd=project.path,
            env={**os.environ, "TMPDIR": str(self.temp)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def end(self):
        """Return the exit code and what was printed."""
        text = self.process.communicate(timeout=60)[0]
        assert list(self.temp.iterdir()) == [], text
        return self.process.returncode, text

    def answers(self):
        return [json.loads(line)["candidate_answer"] for line in self.out.read_text().splitlines()]


def test_several_runs_that_share_a_root_wait_for_each_other(project, code, write):
    code.behave(seconds=0.5)
    write("one", "two")
    runs = [Started(project, number) for number in range(3)]
    ends = [run.end() for run in runs]
    assert [code for code, _ in ends] == [0] * 3, ends
    assert [run.answers() for run in runs] == [["hello one", "hello two"]] * 3
    spans = [span for each in in_flight(code).values() for span in each]
    assert len(spans) == 6
    assert_one_after_another(spans)
    assert locks(project.path) == []


@pytest.mark.parametrize("mode", [{"silent": True}, varied({"chat_seconds": 30}), {"deaf": True}], ids=str)
def test_a_run_that_is_killed_does_not_block_the_next(project, code, write, mode):
    code.behave(**mode)
    write("one")
    killed = Started(project)
    until(lambda: code.calls("wakeup") if "silent" not in mode else code.calls("chat"))
    time.sleep(0.3)
    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate(timeout=20)
    assert len(locks(project.path)) == 1
    code.behave()
    started = time.monotonic()
    assert project.run().outcomes == {"passed": 1}
    assert time.monotonic() - started < 20
    assert [path.name for path in (project.path / "agents").iterdir()] == ["subagent-1"]
    assert locks(project.path) == []


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        varied({"chat_seconds": 30}, []),
        ({"deaf": True}, []),
        ({"silent": True}, ["-n2"]),
    ],
    ids=str,
)
def test_ctrl_c_leaves_no_lock(project, code, write, mode, flags):
    code.behave(**mode)
    write("one", "two")
    run = Started(project, 0, *flags)
    until(lambda: code.calls("wakeup") if "silent" not in mode else code.calls("chat"))
    time.sleep(0.3)
    started = time.monotonic()
    os.killpg(run.process.pid, signal.SIGINT)
    exit_code, text = run.end()
    assert time.monotonic() - started < 15
    assert exit_code == 2, text
    assert "INTERNALERROR" not in text
    until(lambda: locks(project.path) == [])


def test_the_editor_lives_on_after_the_run(project, code, write):
    code.behave(starts_editor=True, in_group=True)
    write("one")
    run = Started(project)
    assert run.end()[0] == 0
    pid = int((code.folder / "editor.pid").read_text())
    time.sleep(0.5)
    os.kill(pid, 0)
    os.kill(pid, signal.SIGKILL)
