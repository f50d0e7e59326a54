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

pytestmark = pytest.mark.slow

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

TEMPLATE = r"""\ufeff{ // "folders": 1
 "folders": [ /* , */ {"path": "."}, {"path": "../x", "name": "X"}, {"path": "/a//b,}/*x*/"}, {"uri": "vscode-vfs://y"}
 , ],
 "settings": {
  "chat.promptFilesLocations": {
   "a/b": true, "../m/**/*.md": false, "*.md": true, "x-*/y": true, "/abs/*": true, "~/own": true
  },
  "chat.instructionsFilesLocations": {"i": true}, "chat.modeFilesLocations": "odd", "editor.fontSize": 12
 },
 "s": "\"//,]", "launch": {"a": [1]},
}
""".replace(r"\ufeff", "\ufeff")

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


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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
    folder = project.path / "agents/subagent-1"
    chats = code.calls("chat")
    assert {call["folder"] for call in chats} == {str(folder)}
    assert locks(project.path) == []
    assert names(folder) == [".github", "messages", "subagent-1.code-workspace"]
    assert names(folder / ".github/agents") == ["wakeup.md"]
    assert [len(chat["files"]) for chat in chats] == [1, 1], "messages of the request before were left"
    assert chats[0]["files"].keys() != chats[1]["files"].keys()
    # The window is woken up once, and then only brought to the front.
    assert [call["event"] for call in code.calls() if call["event"] != "answered"] == [
        *("open", "wakeup", "chat", "open", "chat")
    ]
    assert [call["argv"] for call in code.calls("open")] == [[f"{folder}/subagent-1.code-workspace"]] * 2
    (wakeup,) = code.calls("wakeup")
    assert wakeup["argv"] == [
        *("-r", "chat", "-m", "wakeup", f"Create an empty file named .alive in the folder {folder}")
    ]


@pytest.mark.scenario("VS Code provider")
def test_a_request_goes_out_in_a_file_with_the_linked_files_attached(project, code, write):
    write("one")
    text = (project.path / "a.eval.yaml").read_text()
    content = [
        *({"type": "file", "value": name} for name in ("data 1.txt", "a.instructions.md")),
        {"type": "text", "value": "Say {{userQuery}} one"},
    ]
    project.write("a.eval.yaml", text.replace('"content": "one"', f'"content": {json.dumps(content)}'))
    data, rules = project.write("data 1.txt", "1"), project.write("a.instructions.md", "be brief")
    project.run()
    (chat,) = code.calls("chat")
    ((name, request),) = chat["files"].items()
    messages, stamp = f"{project.path}/agents/subagent-1/messages", name.removesuffix("_req.md")
    assert (len(stamp), stamp.isdigit()) == (14, True)
    assert chat["argv"][:3] == ["-r", "chat", "-m"]
    assert len(bytes.fromhex(chat["argv"][3])) == 4
    assert chat["argv"][4:] == [
        *("-a", str(rules), "-a", str(data), "-a", f"{messages}/{name}"),
        f"Follow instructions in [{name}](file://{messages}/{name})",
    ]
    assert request.startswith("[[ ## task ## ]]\n\nRead each of these guideline files:")
    assert f"* [a.instructions.md](file://{rules})." in request
    assert f"* [data 1.txt](file://{data})." in request
    assert "Say {{userQuery}} one\n\n[[ ## sha256_tokens ## ]]\n\n" in request
    assert f"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b  {data}\n" in request
    assert f"\nmv {messages}/{stamp}_res.tmp.md {messages}/{stamp}_res.md\n" in request
    assert f"\nrm -f {project.path}/agents/subagent-1/subagent.lock\n" in request


def test_agents_answer_in_their_own_ways(project, code, write):
    write("one")
    for mode in (
        {"keeps_lock": True},
        {"pieces": True, "reply": "hello {query}, written piece by piece ✓ äöü"},
        {"twice": True},
        {"encoding": "utf-8-sig", "reply": "a\r\nhello {query}"},
    ):
        code.behave(**mode)
        answer = project.run("--agentv-timeout=20").by_id["one"]["candidate_answer"]
        told = mode.get("reply", "hello {query}").format(query="one").replace("\r\n", "\n")
        assert answer in ([told, "a second answer"] if "twice" in mode else [told]), mode
        assert locks(project.path) == [], mode


@pytest.mark.parametrize(
    ("mode", "kind", "start", "end"),
    [
        ({"deaf": True}, "timeout", "VS Code timed out after 2s: its window on ", " was not ready for the request"),
        *(
            (
                {"reply": reply, "encoding": "latin-1"},
                "timeout",
                "VS Code timed out after 2s: ",
                "_res.md is there, but blank, no UTF-8 text, or still being written",
            )
            for reply in (" \n", "\xff")
        ),
        ({"exit_code": 3}, "process", "VS Code's command failed with exit code 3: ", ": the window is gone"),
        ({"chat_seconds": 60}, "process", "VS Code's command did not return within 1s: ", ": still thinking"),
    ],
    ids=str,
)
def test_a_request_without_an_answer_is_an_error_that_says_what_is_there(
    project, code, write, monkeypatch, mode, kind, start, end
):
    code.behave(**mode)
    monkeypatch.setattr(window, "_LAUNCH_SECONDS", 1.0)
    write("one")
    result = project.run("--agentv-timeout=2", "--agentv-max-retries=0").by_id["one"]
    assert (result["error_detail"]["kind"], result["error"][: len(start)], result["error"][-len(end) :]) == (
        *(kind, start, end),
    )
    assert locks(project.path) == []


def test_the_late_answer_to_a_request_is_not_taken_for_that_to_the_next(project, code, write):
    code.behave(until="late")
    write("one")
    assert project.run("--agentv-timeout=1", "--agentv-max-retries=0").statuses == {"one": "error"}
    code.behave(seconds=1)
    write("two")
    (code.folder / "late").touch()
    assert project.run().by_id["two"]["candidate_answer"] == "hello two"
    code.wait_for("answered", 2)
    first, second = (next(iter(chat["files"])) for chat in code.calls("chat"))
    assert first < second, "two requests had the same name"
    assert locks(project.path) == []


def test_folders_are_taken_by_number_and_locks_of_others_are_never_broken(project, code, write):
    for name in ("subagent-10", "subagent-9", "subagent-x", "other"):
        (project.path / "agents" / name).mkdir(parents=True)
    (project.path / "agents/subagent-3").touch()
    write("one")
    taken = []
    for text in ("", "pytest-agentv on another host", "not json"):
        run = project.run()
        assert run.by_id["one"]["candidate_answer"] == "hello one"
        folder = Path(code.calls("chat")[-1]["folder"])
        taken.append(folder.name)
        (folder / "subagent.lock").write_text(text)
        os.utime(folder / "subagent.lock", (0, 0))
    assert taken == ["subagent-9", "subagent-10", "subagent-11"]
    assert sorted(path.read_text() for path in locks(project.path)) == ["", "not json", "pytest-agentv on another host"]


def test_a_folder_that_another_program_takes_while_its_answer_is_waited_for_is_left_to_it(project, code, write):
    code.behave(silent=True)
    write("one")
    run = Started(project)
    code.wait_for("chat")
    (lock,) = locks(project.path)
    lock.unlink()  # as the agent of an earlier request does: it is written again
    until(lock.exists)
    lock.write_text("")
    assert "another program took subagent-1 before its answer was there" in run.end()[1]
    assert lock.read_text() == "", "the lock of another program was removed"


@pytest.mark.parametrize(
    ("provider", "command", "folder"),
    [("vscode", "my code", "vscode-agents"), ("vscode-insiders", "code-insiders", "vscode-insiders-agents")],
)
@pytest.mark.scenario("VS Code provider")
def test_each_edition_has_its_own_folder_in_the_home_of_the_user_and_a_command_may_have_words_behind_it(
    project, code, write, provider, command, folder
):
    code.program.rename(code.folder / command)
    write("one", provider=provider)
    words = f"vscode_cmd: \"'{command}' --profile evals\"" if provider == "vscode" else ""
    targets = project.path / "targets.yaml"
    targets.write_text(targets.read_text().replace("subagent_root: agents", words))
    assert project.run().statuses == {"one": "pass"}
    assert names(Path(os.environ["HOME"]) / ".subagent") == [folder]
    assert (code.calls("chat")[0]["argv"][:2] == ["--profile", "evals"]) is (provider == "vscode")


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
    messages = f"{project.path}/agents/subagent-1/messages"
    stamp = next(iter(chat["files"]))[:14]
    requests = [f"{stamp}_{number}_req.md" for number in range(3)]
    assert sorted(chat["files"]) == [*requests, f"{stamp}_orchestrator.md"]
    entry = f"{messages}/{stamp}_orchestrator.md"
    assert chat["argv"][4:] == [
        *("-a", entry),
        f"Follow instructions in [{stamp}_orchestrator.md](file://{entry}). Use #runSubagent tool.",
    ]
    text = chat["files"][f"{stamp}_orchestrator.md"]
    assert "".join(f"{number}. messages/{name}\n" for number, name in enumerate(requests, 1)) in text
    assert f"ls {messages}/{stamp}_0_res.md " in text
    assert f"&& rm -f {project.path}/agents/subagent-1/subagent.lock\n" in text
    assert all("rm -f" not in chat["files"][name] for name in requests), "a request would unlock the folder"
    assert f"renaming that file to: {messages}/{stamp}_2_res.md\n" in chat["files"][requests[2]]


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


def test_the_folders_and_chat_settings_of_a_workspace_template_are_added_as_vs_code_reads_them(project, code, write):
    """The folder `vscode-workspace-templates` of the corpus shows templates that cannot be used."""
    write("one", more="workspace_template: my.code-workspace")
    project.write("my.code-workspace", TEMPLATE)
    assert project.run().outcomes == {"passed": 1}
    path, above = project.path, project.path.parent
    file = path / "agents/subagent-1/subagent-1.code-workspace"
    assert json.loads(file.read_text()) == {
        "folders": [
            *({"path": "."}, {"path": str(path)}, {"path": f"{above}/x", "name": "X"}, {"path": "/a/b,}/*x*"}),
            {"uri": "vscode-vfs://y"},
        ],
        "settings": {
            "chat.promptFilesLocations": {
                f"{path}/a/b": True,
                f"{above}/m/**/*.md": False,
                f"{path}/*.md": True,
                f"{path}/x-*/y": True,
                "/abs/*": True,
                "~/own": True,
            },
            "chat.instructionsFilesLocations": {f"{path}/i": True},
            "chat.modeFilesLocations": "odd",
            "editor.fontSize": 12,
        },
        "s": '"//,]',
        "launch": {"a": [1]},
    }
    written = file.stat().st_mtime_ns
    assert project.run().outcomes == {"passed": 1}
    assert file.stat().st_mtime_ns == written, "VS Code would load it again"
    project.write("my.code-workspace", '{"folders": []}')
    assert project.run().outcomes == {"passed": 1}
    assert json.loads(file.read_text())["folders"] == [{"path": "."}]


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
    # Waiting for one's turn does not count.
    limits = ("--agentv-timeout=4", "--agentv-max-retries=0")
    runs = [Started(project, number, *limits) for number in range(3)]
    ends = [run.end() for run in runs]
    assert [code for code, _ in ends] == [0] * 3, ends
    assert [run.answers() for run in runs] == [["hello one", "hello two"]] * 3
    spans = [span for each in in_flight(code).values() for span in each]
    assert len(spans) == 6
    assert_one_after_another(spans)
    assert locks(project.path) == []


@pytest.mark.kills
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


@pytest.mark.kills
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
