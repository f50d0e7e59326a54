"""Eval cases in the test trees of IDEs: what VS Code's adapter and PyCharm's (TeamCity's) messages make of them."""

import json
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import warm
from ide_client import PIECE, read_messages
from thorough import tries, varied

from .conftest import WITH_WORKERS_ON_REQUEST

TESTS = Path(__file__).parents[1]

HOSTILE = [
    "plain",
    "m[gpt]",
    "a::b",
    "two  words",
    "line\nbreak",
    "sep\u2028arator",
    "日本 ü",
    "a/b",
    "-v",
    "@file",
    "x" * 500,
]
"""Ids of cases, each of which passes; `low` and `broken` do not."""


@dataclass
class Explorer:
    """The explorer's end of a run: what the client in it has sent."""

    exit_code: int
    output: str
    stream: bytes
    messages: list[dict[str, Any]] = field(init=False)
    longest: int = field(init=False)

    def __post_init__(self) -> None:
        pairs = list(read_messages(self.stream))
        self.messages = [message for _, message in pairs]
        self.longest = max((length for length, _ in pairs), default=0)

    @property
    def tree(self) -> dict[str, Any]:
        (message,) = self.messages
        assert message["status"] == "success", message["error"]
        return message["tests"]

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each test, by the name behind its file; one message tells one."""
        results = [result for message in self.messages for result in message["result"].values()]
        assert len({result["test"] for result in results}) == len(results), "two results of one test"
        return {result["test"].partition("::")[2]: result["outcome"] for result in results}


@pytest.fixture
def explore(project):
    """Run pytest in a process of its own, with the client in it and in its workers."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("the client needs named pipes")

    def run(*arguments: str, folder: Path = project.path) -> Explorer:
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        received: list[bytes] = []
        # Open for writing as well: the end of one process is not the end of the stream.
        held = os.open(pipe, os.O_RDWR)
        reader = threading.Thread(target=drain, args=(held, received))
        reader.start()
        try:
            finished = warm.run(
                [sys.executable, "-m", "pytest", "-p", "ide_client", *arguments],
                cwd=folder,
                env={**warm.environment_of_a_user(), "IDE_CLIENT_PIPE": str(pipe), "PYTHONPATH": str(TESTS)},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            os.write(held, END)
            reader.join()
            os.close(held)
            pipe.unlink()
        return Explorer(finished.returncode, finished.stdout + finished.stderr, b"".join(received).removesuffix(END))

    return run


END = b"\x00end\x00"


def drain(pipe: int, received: list[bytes]) -> None:
    while not b"".join(received[-2:]).endswith(END):
        received.append(os.read(pipe, 65536))


def case(eval_id, keyword="hello"):
    words = {"name": "words", "type": "heuristic", "hits": [keyword]}
    return {"id": eval_id, "expected_outcome": "says it", "input": "Say it", "evaluators": [words]}


@pytest.fixture
def project(project):
    project.write("pytest.ini", "[pytest]\n")
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    broken = case("broken") | {"input_messages": [{"role": "user", "content": [{"type": "file", "value": "lost.md"}]}]}
    del broken["input"]
    cases = [*map(case, HOSTILE), case("low", "nothing"), broken]
    project.write("evals/deep/qa.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(one)}\n" for one in cases))
    project.write("data.eval.jsonl", json.dumps(case("row")) + "\n")
    project.write("test_python.py", "class TestOne:\n    def test_method(self): ...\n")
    return project


def leaves(node):
    if node["type_"] == "test":
        return [node]
    return [leaf for child in node["children"] for leaf in leaves(child)]


def outline(node):
    """Return the tree as nested names, without the tests."""
    return {child["name"]: outline(child) for child in node.get("children", ()) if child["type_"] != "test"}


@WITH_WORKERS_ON_REQUEST
def test_the_explorer_shows_folders_files_and_cases_at_their_lines_and_runs_each_by_its_id(project, explore, mode):
    tree = explore("--collect-only").tree
    assert outline(tree) == {
        "data.eval.jsonl": {},
        "evals": {"deep": {"qa.eval.yaml": {}}},
        "test_python.py": {"TestOne": {}},
    }
    nodes = [leaf for leaf in leaves(tree) if leaf["path"].endswith(".yaml")]
    assert len(nodes) == len({node["id_"] for node in nodes}) == len(HOSTILE) + 2
    assert [node["lineno"] for node in nodes] == [str(line) for line in range(2, len(nodes) + 2)]
    assert [node["id_"] for node in nodes] == [
        f"{project.path}/evals/deep/qa.eval.yaml::{node['name']}" for node in nodes
    ]
    ids = [leaf["id_"] for leaf in leaves(tree)]
    # The explorer hands the ids over in a file, one on a line.
    travelled = "\n".join(ids).splitlines()
    assert travelled == ids
    run = explore(*mode, "--rootdir", str(project.path), *travelled)
    assert set(run.outcomes) == {eval_id.partition("::")[2] for eval_id in ids}
    assert {name: outcome for name, outcome in run.outcomes.items() if outcome != "success"} == {
        "low": "failure",
        "broken": "error",
    }
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert list(explore(ids[5]).outcomes) == [ids[5].partition("::")[2]]


LONG = tries(16, 40)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [varied("x", id="ascii"), pytest.param("日", id="cjk")])
@pytest.mark.parametrize("length", [varied(20, id="usual-id"), pytest.param(125, id="long-id")])
def test_long_failures_of_two_workers_reach_the_explorer_whole(project, explore, sign, length):
    answer = json.dumps({"name": "default", "provider": "mock", "response": f"{sign * 80}\n" * 200}, ensure_ascii=False)
    project.write("targets.yaml", f"targets:\n  - {answer}\n")
    cases = [case(f"{sign}-{number}-{'long' * length}", f"{sign}nothing" * 100) for number in range(LONG)]
    project.write("long.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(one)}\n" for one in cases))
    run = explore("-n", "2", "long.eval.yaml")
    assert len(run.outcomes) == LONG
    assert set(run.outcomes.values()) == {"failure"}
    assert 1000 < run.longest <= PIECE
    assert all("long.eval.yaml:" in next(iter(message["result"].values()))["message"] for message in run.messages)


def test_what_is_wrong_with_evals_hides_nothing_else(project, explore):
    project.write("broken.eval.yaml", "evalcases: [\n")
    project.write("targets.yaml", "targets: [broken\n")
    project.write("evals/targets.yaml", "targets: [{name: default, provider: azure}]\n")
    (message,) = explore("--collect-only").messages
    assert message["status"] == "error"
    assert [text for text in message["error"] if "broken.eval.yaml:" in text] == message["error"]
    assert len(leaves(message["tests"])) == len(HOSTILE) + 2 + 2
    project.write("pytest.ini", "[pytest]\nagentv_threshold = high\n")
    (message,) = explore("--collect-only").messages
    assert [leaf["name"] for leaf in leaves(message["tests"])] == ["test_method"]


MESSAGE = re.compile(r"##teamcity\[(\w+) (.*?)(?<!\|)\]")
ATTRIBUTE = re.compile(r"(\w+)='((?:\|.|[^'|])*)'")


def service_messages(output):
    """Return the name and the attributes of each message that PyCharm builds its tree from."""
    found = []
    for name, text in MESSAGE.findall(output):
        attributes = {key: value.replace("|n", "\n").replace("||", "|") for key, value in ATTRIBUTE.findall(text)}
        found.append((name, attributes))
    return found


def tree_of(messages):
    """Return of each test how it ended. Tests of two workers may overlap, one test with itself may not."""
    running, ended = {}, {}
    for kind, attributes in messages:
        name = attributes.get("name")
        if kind == "testStarted":
            assert name not in {**running, **ended}, f"{name} started twice"
            running[name] = "passed"
        elif kind == "testFailed":
            running[name] = "error" if attributes["message"] == "test setup failed" else "failed"
        elif kind == "testFinished":
            ended[name] = running.pop(name)
    assert running == {}, "started, and not finished"
    return ended


WORDS = {"pass": "passed", "fail": "failed", "error": "error"}
CASES = {f"case-{number}": ("pass", "fail", "error")[number % 3] for number in range(12)}
"""Ids, each with how the case ends."""
DELAY = 250


@pytest.fixture
def teamcity(project):
    slow = {"name": "slow", "provider": "mock", "response": "hello", "delay_ms": DELAY}
    broken = {"name": "broken", "provider": "cli", "command_template": "exit 3"}
    keywords = {"pass": "hello", "fail": "nothing", "error": "hello"}
    cases = [
        case(name, keywords[end]) | {"target": "broken" if end == "error" else "slow"} for name, end in CASES.items()
    ]
    project.write("targets.yaml", json.dumps({"targets": [slow, broken]}))
    project.write("qa/qa.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(one)}\n" for one in cases))

    def run(*arguments):
        out = project.path / "out.jsonl"
        finished = warm.run(
            [sys.executable, "-m", "pytest", "--teamcity", f"--agentv-out={out}", "qa", *arguments],
            cwd=project.path,
            env=warm.environment_of_a_user(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return service_messages(finished.stdout), [json.loads(line) for line in out.read_text("utf-8").splitlines()]

    return run


@pytest.mark.parametrize("mode", [("-n", "2", "--agentv-workers=6"), varied(())], ids=["n2", "plain"])
def test_pycharm_is_told_how_where_and_why_each_case_ended_and_how_long_it_took(teamcity, mode):
    messages, records = teamcity(*mode)
    shown = {name.rpartition(".")[2]: outcome for name, outcome in tree_of(messages).items()}
    records = {record["eval_id"]: record for record in records}
    assert {name: record["status"] for name, record in records.items()} == CASES
    assert shown == {name: WORDS[end] for name, end in CASES.items()}
    details = {
        attributes["name"].rpartition(".")[2]: attributes["details"]
        for kind, attributes in messages
        if kind == "testFailed"
    }
    assert set(details) == {name for name, end in CASES.items() if end != "pass"}
    for name, text in details.items():
        assert f"qa/qa.eval.yaml:{records[name]['line']}" in text
        assert ("missing: nothing" if CASES[name] == "fail" else "exited with code 3") in text
        assert "pytest_agentv/" not in text
    assert {attributes["metainfo"] for kind, attributes in messages if kind == "testStarted"} == set(CASES)
    for kind, attributes in messages:
        name = attributes.get("name", "").rpartition(".")[2]
        if kind == "testFinished" and CASES[name] == "fail":
            assert abs(int(attributes["duration"]) - records[name]["duration_ms"]) <= 100, "that of another phase"
            assert records[name]["duration_ms"] >= DELAY
