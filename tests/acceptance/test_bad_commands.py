"""Commands that break, hang or answer strangely: each costs its own case only, and leaves nothing behind."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
from thorough import varied

HELLO = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]


def write_cases(project, cases, *, prompt="Say hello", evaluators=HELLO):
    """Write a case per target, with ids like the targets' names."""
    values = [
        {"id": name, "expected_outcome": "o", "input": prompt, "target": name, "evaluators": evaluators}
        for name in cases
    ]
    project.write(
        "a.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(value, ensure_ascii=False)}\n" for value in values)
    )


def write_targets(project, commands):
    targets = [
        {"name": name, "provider": "cli", **(command if isinstance(command, dict) else {"command_template": command})}
        for name, command in commands.items()
    ]
    project.write("targets.yaml", json.dumps({"targets": targets}, ensure_ascii=False))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def temp(tmp_path, monkeypatch):
    """Give runs a folder of their own for temporary files, so that what they leave can be seen."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    monkeypatch.setattr(tempfile, "tempdir", None)


DEAF = """
import os, signal, subprocess, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
child = [sys.executable, "-c", code]
children = [subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=own) for own in (False, True)]
for child in children:
    child.stdout.readline()
print(os.getpid(), *(child.pid for child in children), file=open("pids", "w"), flush=True)
time.sleep(60)
"""


@pytest.mark.kills
def test_a_command_that_ignores_being_asked_to_end_is_killed_with_all_its_children(project, temp, monkeypatch):
    monkeypatch.setattr("pytest_agentv.runtime.processes._TERM_SECONDS", 0.2)
    project.write("deaf.py", DEAF)
    write_targets(project, {"deaf": f"{sys.executable} deaf.py {{OUTPUT_FILE}}", "fine": "echo hello"})
    write_cases(project, ["deaf", "fine"])
    run = project.run("--agentv-timeout=1.5", "--agentv-max-retries=0")
    assert run.by_id["deaf"]["error"] == "CLI provider timed out after 1.5s"
    assert run.by_id["deaf"]["error_detail"] == {"stage": "provider", "kind": "timeout"}
    assert run.statuses["fine"] == "pass"
    pids = [int(pid) for pid in (project.path / "pids").read_text().split()]
    assert len(pids) == 3
    assert [pid for pid in pids if is_running(pid)] == []
    assert list(temp.iterdir()) == []


def test_children_that_a_command_leaves_in_the_background_are_ended_and_not_waited_for(project):
    write_targets(project, {"leaves": "sleep 60 & echo $! > pid; echo hello"})
    write_cases(project, ["leaves"])
    run = project.run()
    assert run.by_id["leaves"]["candidate_answer"] == "hello"
    assert run.by_id["leaves"]["duration_ms"] < 5000
    assert run.statuses == {"leaves": "pass"}
    assert not is_running(int((project.path / "pid").read_text()))


HOSTILE = {
    "quotes": "it's \"quoted\" and 'nested' \\ back",
    "lines": "first\n\nsecond\r\n\tthird\n",
    "substitutions": "$(touch ran) `touch ran` ${HOME} $HOME ; touch ran & | > ran < x && *?[a]~!#",
    "options": "--help -rf / -- -",
    "placeholders": "{PROMPT} {OUTPUT_FILE} {EVAL_ID} ${{ PATH }} {{ x }} %s %d",
    "nul": "before\0after",
    "unicode": "日本語 🎉 e\u0301 \u202ertl\u202c \ufeff \x1b[31mred\x07",
}


@pytest.mark.scenario("Placeholder substitution rules")
def test_a_hostile_prompt_reaches_the_command_as_it_is_and_runs_nothing(project):
    project.write("echo.py", "import json, sys\nprint(json.dumps({'text': json.dumps(sys.argv[1:])}))\n")
    write_targets(project, dict.fromkeys(HOSTILE, f"{sys.executable} echo.py {{PROMPT}} {{EVAL_ID}}"))
    values = [
        {"id": name, "expected_outcome": "o", "input": text, "target": name, "evaluators": HELLO}
        for name, text in HOSTILE.items()
    ]
    project.write(
        "a.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(value, ensure_ascii=False)}\n" for value in values)
    )
    run = project.run()
    for name, text in HOSTILE.items():
        prompt, eval_id = json.loads(run.by_id[name]["candidate_answer"])
        assert (prompt.strip(), eval_id) == (text.replace("\0", "").strip(), name)
    assert not (project.path / "ran").exists()
    assert run.outcomes == {"failed": len(HOSTILE), "warnings": 1}  # `{{ x }}` looks meant
    assert (run.internals, [line for line in run.lines if "\x1b" in line or "\x07" in line]) == ([], [])


def test_a_prompt_too_long_for_an_argument_can_be_piped(project):
    text = "0123456789" * 20_000 + " hello"
    write_targets(project, {"argument": "/bin/echo {PROMPT}", "piped": "printf %s {PROMPT} | cat"})
    write_cases(project, ["argument", "piped"], prompt=text)
    run = project.run()
    assert run.by_id["piped"]["candidate_answer"] == text
    assert run.by_id["argument"]["error"].endswith("Argument list too long (exit code 126)")
    assert run.statuses == {"argument": "error", "piped": "pass"}
    assert run.internals == []


STRANGE = {
    "escapes": (
        r"printf 'hello \033[31mred\033[0m \033]0;title\007 \033[2J'",
        "hello \x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
    ),
    "bytes": (
        r"printf 'hello \377\376 \200'",
        "Error occurred: The output of the command is not UTF-8: byte 0xff in line 1",
    ),
    "nul": (r"printf 'hello \0 nul'", "hello \0 nul"),
    "surrogate": (r"""printf '{"text": "hello \\ud83d"}'""", "hello \ufffd"),
    "pair": (r"""printf '{"text": "hello \\ud83d\\ude00"}'""", "hello 😀"),
    "separators": (r"printf 'hello \342\200\250 \302\205 x'", "hello \u2028 \x85 x"),
    "direction": (r"printf 'hello \342\200\256evil'", "hello \u202eevil"),
    "deep": ("printf 'hello '; yes [ | head -c 400000 | tr -d '\\n'", "hello " + "[" * 200_000),
    "number": (r"""printf '{"text": 7, "hello\\u001b[2J\\u202e": 1}'""", "7"),
    "huge-number": ("""printf '{"text": "hello", "cost_usd": 1e999}'""", "hello"),
}
"""Commands, and the answer that is recorded."""


def test_strange_answers_are_recorded_as_they_are_and_shown_safely(project):
    never = [{"name": "words", "type": "heuristic", "hits": ["nowhere"]}]
    write_targets(project, {name: command for name, (command, _) in STRANGE.items()})
    write_cases(project, STRANGE, evaluators=never)
    run = project.run("-rA")
    answers = {name: result["candidate_answer"] for name, result in run.by_id.items()}
    assert answers == {name: answer for name, (_, answer) in STRANGE.items()}
    assert (run.outcomes, run.internals) == ({"failed": len(STRANGE) - 1, "errors": 1, "warnings": 1}, [])
    assert [line for line in run.lines if any(ord(sign) < 32 or sign in "\x85\u2028\u202e\x7f" for sign in line)] == []


def test_strange_errors_are_shown_safely(project):
    noise = r"printf '\033[31mred\033[0m \007 \302\205 \342\200\256evil \377\rback' >&2; exit 1"
    write_targets(project, {"command": noise, "probe": {"command_template": "x", "healthcheck": None}})
    targets = json.loads((project.path / "targets.yaml").read_text())
    targets["targets"][1]["healthcheck"] = {"type": "command", "command_template": noise}
    project.write("targets.yaml", json.dumps(targets))
    write_cases(project, ["command", "probe"])
    run = project.run("-rA", "-v")
    assert run.by_id["command"]["error"] == "\x1b[31mred\x1b[0m \x07 \x85 \u202eevil \ufffd\rback (exit code 1)"
    assert (run.exit_code, run.outcomes, run.internals) == (2, {"errors": 2}, [])
    assert [line for line in run.lines if any(ord(sign) < 32 or sign in "\x85\u2028\u202e\x7f" for sign in line)] == []


def test_an_answer_of_a_megabyte_is_recorded_whole_and_shown_in_part(project):
    write_targets(project, {"long": "yes 0123456789 | head -c 1000000 | tr '\\n' ' '"})
    write_cases(project, ["long"])
    run = project.run(f"--junit-xml={project.path}/junit.xml")
    assert len(run.by_id["long"]["candidate_answer"]) == 1_000_000
    assert "Answer (1,000,000 characters):" in run.lines
    assert len(run.text) < 20_000
    assert (project.path / "junit.xml").stat().st_size < 20_000
    assert (run.outcomes, run.internals) == ({"failed": 1}, [])


@pytest.mark.parametrize(("encoding", "mode"), [("ascii", ("-n2",)), varied("latin-1", ())])
def test_a_terminal_that_knows_no_unicode_survives_answers_and_ids_with_it(project, monkeypatch, encoding, mode):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    if not mode:
        monkeypatch.setenv("PYTHONUTF8", "0")  # which starts a fresh process: once is enough
    write_targets(project, {"日本語": "echo 'answer: 日本語 🎉 é …'", "fails": r"printf '日本 \351' >&2; exit 1"})
    write_cases(project, ["日本語", "fails"])
    run = project.run(mode=mode, subprocess=True)
    assert run.by_id["日本語"]["candidate_answer"] == "answer: 日本語 🎉 é …"
    assert run.statuses == {"日本語": "fail", "fails": "error"}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"failed": 1, "errors": 1}, [])
    assert any("EVALUATION SUMMARY" in line for line in run.lines)
