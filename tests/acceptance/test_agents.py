"""Coding agents, the real programs: what they answer and do, how they fail, and what is left of them."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coding_agents import AGENTS, ARGUMENT, CLAUDE, KEY, PROGRAMS, Agent, World
from fake_llm import FakeLlm, Reply

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(PROGRAMS not in os.environ, reason=f"{PROGRAMS} names no folder with coding agents"),
]

EACH = [
    pytest.param(
        agent,
        id=agent.name,
        marks=pytest.mark.skipif(not agent.path.exists(), reason=f"{PROGRAMS} names no folder with {agent.program}"),
    )
    for agent in AGENTS.values()
]
each_agent = pytest.mark.parametrize("agent", EACH)
claude_only = pytest.mark.parametrize("agent", EACH[:1])

JUDGE = """
import json, sys

case = json.load(sys.stdin)
calls = [call for message in case["output_messages"] for call in message.get("tool_calls", [])]
score = case["candidate_answer"] == "It is 4." and [bool(call["output"]) for call in calls] == [True, True]
print(json.dumps({"score": int(score), "hits": [str(case["trace_summary"]["tool_names"])]}))
"""
DAEMON = "(setsid sleep 302 >/dev/null 2>&1 </dev/null &); echo up"


@contextmanager
def new_world(folder: Path) -> Iterator[World]:
    with FakeLlm() as server:
        world = World(folder, server)
        yield world
        world.kill_all()


def case_of(agent: Agent, play: str, target: str = "", **fields: object) -> dict[str, Any]:
    """Return a case whose question names the play that the server gives for it."""
    said = {"name": "said", "type": "heuristic", "hits": ["done"]}
    case = {"id": f"{play}-{agent.name}", "expected_outcome": "o", "input": f"play-{play}", "evaluators": [said]}
    return {**case, "target": target or agent.name, **fields}


def free(agent: Agent, **fields: object) -> dict[str, Any]:
    """Return a target whose shell runs anything."""
    return {"agent": agent.name, "name": f"{agent.name}-free", **agent.free_shell, **fields}


def calls_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for message in messages for call in message.get("tool_calls", [])]


# What agents answer and do


class Played:
    """One run of many cases through all agents, two processes and six cases in flight."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.input = world.folder / "notes" / "input.txt"
        self.rules = world.folder / "notes" / "style.instructions.md"
        self.unlinked = world.folder / "notes" / "secret plan.txt"
        for path in (self.input, self.rules, self.unlinked):
            world.write(str(path.relative_to(world.folder)), f"what {path.name} says\n")
        (world.folder / "desk").mkdir()
        world.write("judge.py", JUDGE)
        world.script(self._replies)
        world.write_targets(*(target for agent in world.agents for target in self._targets(agent)))
        world.write("a.eval.yaml", {"evalcases": [case for agent in world.agents for case in self._cases(agent)]})
        self.text = world.run("-n2", "--agentv-workers=6", "--agentv-include-trace", "-v")
        self.results = world.results()
        self.leftovers = world.leftovers()

    def result(self, play: str, agent: Agent) -> dict[str, Any]:
        assert f"{play}-{agent.name}" in self.results, self.text
        result = self.results[f"{play}-{agent.name}"]
        assert result["status"] == "pass", f"{result.get('error')}\n{self.log(result)}"
        return result

    def log(self, result: dict[str, Any]) -> str:
        return Path(result["log_file"]).read_text("utf-8")

    def outputs(self, play: str, agent: Agent) -> list[str]:
        return [agent.prints(event["output"]) for event in self.result(play, agent)["trace"]]

    def _replies(self, agent: Agent) -> list[Reply]:
        place = agent.shell("pwd; touch mine; sleep 1; ls -A")
        plays = {
            "tools": Reply("It is 4.", calls=(agent.shell("expr 2 + 2"), agent.shell("ls nowhere"))),
            "parallel": Reply(
                "done",
                calls=(agent.shell("expr 20 + 3"), agent.shell("expr 40 + 5")),
                is_parallel=True,
                cached_tokens=10,
            ),
            "files": Reply("done", calls=(agent.read(str(self.rules)), agent.read(str(self.input)))),
            "unlinked": Reply("done", calls=(agent.read(str(self.unlinked)),)),
            "place1": Reply("done", calls=(place,)),
            "place2": Reply("done", calls=(place,)),
            "desk": Reply("done", calls=(agent.shell("pwd"),)),
            "daemon": Reply("done", calls=(agent.shell(DAEMON),)),
            "judge": Reply('{"score": 1, "hits": ["polite"], "misses": [], "reasoning": "it is"}'),
        }
        return [Reply(**{**vars(reply), "when": f"play-{name}"}) for name, reply in plays.items()]

    def _targets(self, agent: Agent) -> list[dict[str, Any]]:
        model = {"claude": "sonnet", "codex": "gpt-5.4", "pi": "fake/other-model"}[agent.name]
        configured = {"model": model, "system_prompt": "Answer as a pirate.", "cwd": "desk"}
        return [
            {"agent": agent.name, "name": agent.name},
            free(agent),
            {**free(agent), "name": f"{agent.name}-configured", **configured},
            {
                "name": f"mock-{agent.name}",
                "provider": "mock",
                "response": "what the mock says",
                "judge_target": agent.name,
            },
        ]

    def _cases(self, agent: Agent) -> list[dict[str, Any]]:
        shell = agent.shown_shell("expr 2 + 2")
        trajectory = {
            "name": "calls",
            "type": "tool_trajectory",
            "mode": "exact",
            "expected": [{"tool": shell["tool"], "args": shell["input"]}, {"tool": shell["tool"]}],
        }
        judge = {"name": "judge", "type": "code_judge", "script": [sys.executable, "judge.py"]}
        files = [
            {"type": "file", "value": "notes/style.instructions.md"},
            {"type": "file", "value": "notes/input.txt"},
            {"type": "text", "value": "play-files"},
        ]
        return [
            case_of(agent, "tools", f"{agent.name}-free", evaluators=[trajectory, judge]),
            case_of(agent, "parallel", f"{agent.name}-free"),
            case_of(agent, "files", input=[{"role": "user", "content": files}]),
            case_of(agent, "unlinked"),
            case_of(agent, "place1", f"{agent.name}-free"),
            case_of(agent, "place2", f"{agent.name}-free"),
            case_of(agent, "desk", f"{agent.name}-configured"),
            case_of(agent, "daemon", f"{agent.name}-free"),
            case_of(agent, "judge", f"mock-{agent.name}", evaluators=[{"name": "judge", "type": "llm_judge"}]),
        ]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Shared by the tests, because each start of a program takes seconds."""
    with new_world(tmp_path_factory.mktemp("played")) as world:
        yield Played(world)


@each_agent
@pytest.mark.scenario("Codex CLI provider")
@pytest.mark.scenario("Claude Code provider invocation")
@pytest.mark.scenario("Claude Code JSONL output parsing")
def test_the_answer_comes_with_the_tool_calls_in_order_and_with_what_it_cost(played: Played, agent: Agent) -> None:
    result = played.result("tools", agent)
    first, second = result["trace"]
    shell = agent.shown_shell("expr 2 + 2")
    assert result["candidate_answer"] == "It is 4."
    assert (first["type"], first["name"], first["input"]) == ("tool_call", shell["tool"], shell["input"])
    assert agent.prints(first["output"]).strip() == "4"
    assert second["input"] == agent.shown_shell("ls nowhere")["input"]
    assert "cannot access 'nowhere'" in agent.prints(second["output"])
    metrics = result["execution_metrics"]
    assert metrics["token_usage"] == {"input": 90, "output": 15}  # of three requests
    assert metrics["duration_ms"] > 0
    assert ("cost_usd" in metrics) == (agent.name != "codex")  # which does not say
    assert result["attempts"] == 1


@each_agent
def test_the_path_of_an_agent_is_judged_by_a_trajectory_and_by_a_script(played: Played, agent: Agent) -> None:
    trajectory, judge = played.result("tools", agent)["evaluator_results"]
    assert (trajectory["score"], judge["score"]) == (1, 1)
    assert judge["hits"] == [str([agent.shown_shell("")["tool"]])]


@each_agent
def test_tools_called_at_once_have_their_own_results_and_cached_tokens_are_told_apart(
    played: Played, agent: Agent
) -> None:
    result = played.result("parallel", agent)
    printed = {event["input"]["command"]: agent.prints(event["output"]).strip() for event in result["trace"]}
    inputs = [agent.shown_shell(command)["input"]["command"] for command in ("expr 20 + 3", "expr 40 + 5")]
    assert printed == dict(zip(inputs, ["23", "45"], strict=True))
    assert result["execution_metrics"]["token_usage"] == {"input": 40, "output": 10, "cached": 20}


@each_agent
@pytest.mark.scenario("Claude Code input files")
def test_an_agent_reads_the_files_of_the_case_where_they_are(played: Played, agent: Agent) -> None:
    rules, text = played.outputs("files", agent)
    assert "what style.instructions.md says" in rules
    assert "what input.txt says" in text
    (asked, *_) = played.world.asked(agent, "play-files")
    assert f"file://{played.rules}" in asked
    assert f"file://{played.input}" in asked
    assert "guideline files" in asked


@claude_only
def test_claude_is_let_into_the_folders_of_the_files_and_into_no_other(played: Played, agent: Agent) -> None:
    (output,) = played.outputs("unlinked", agent)
    assert "requested permissions to read" in output
    assert "refused for lack of permission: (Read)" in played.log(played.result("unlinked", agent))


@each_agent
def test_cases_in_flight_have_folders_of_their_own_with_the_prompt_in_it(played: Played, agent: Agent) -> None:
    places = [output.split() for play in ("place1", "place2") for output in played.outputs(play, agent)]
    assert [names[1:] for names in places] == [["mine", "prompt.md"]] * 2
    assert places[0][0] != places[1][0]
    assert not any(Path(place[0]).exists() for place in places)


@each_agent
@pytest.mark.scenario("Claude Code model configuration")
@pytest.mark.scenario("Claude Code system prompt configuration")
@pytest.mark.scenario("Claude Code working directory")
@pytest.mark.scenario("Claude Code custom arguments")
def test_model_system_prompt_working_directory_and_arguments_are_those_of_the_target(
    played: Played, agent: Agent
) -> None:
    (output,) = played.outputs("desk", agent)
    assert output.strip() == str(played.world.folder / "desk")  # the shell ran because the arguments allow it
    (asked, *_) = played.world.asked(agent, "play-desk")
    model = json.loads(asked)["model"]
    assert model.startswith({"claude": "claude-sonnet", "codex": "gpt-5.4", "pi": "other-model"}[agent.name])
    assert "Answer as a pirate." in asked
    assert "unified diff" not in asked
    assert list((played.world.folder / "desk").iterdir()) == []


@each_agent
@pytest.mark.scenario("Claude Code system prompt configuration")
def test_by_default_an_agent_is_told_to_put_all_into_its_answer(played: Played, agent: Agent) -> None:
    (asked, *_) = played.world.asked(agent, "play-tools")
    assert "for each file its path and a unified diff" in asked


@each_agent
def test_an_agent_judges_the_answers_of_others(played: Played, agent: Agent) -> None:
    result = played.result("judge", agent)
    assert (result["score"], result["hits"]) == (1, ["polite"])
    (asked,) = played.world.asked(agent, "play-judge")
    assert "what the mock says" in asked


@each_agent
@pytest.mark.scenario("Claude Code stream logging")
def test_the_work_of_an_agent_is_logged_as_it_goes(played: Played, agent: Agent) -> None:
    result = played.result("tools", agent)
    path = Path(result["log_file"])
    assert path.parent == played.world.folder / ".agentv" / "logs" / agent.kind
    head, _, lines = path.read_text("utf-8").partition("\n\n")
    assert f"# target: {agent.name}-free\n# eval: tools-{agent.name}\n# attempt: 1\n# started: 2" in head
    # Codex complains on stderr when another Codex sets up the same home at the same moment.
    assert all(re.match(r"\[\+00:\d\d\] \[(stdout|stderr)\] ", line) for line in lines.splitlines()), lines
    assert re.search(r"\[stdout\] .*It is 4\.", lines)
    assert {"claude": "tool_use (Bash)", "codex": "command_execution", "pi": "(call_1) bash"}[agent.name] in lines


def test_nothing_of_the_agents_is_left_not_even_what_moved_away(played: Played) -> None:
    daemons = [agent.prints(played.result("daemon", agent)["trace"][0]["output"]) for agent in played.world.agents]
    assert [output.strip() for output in daemons] == ["up"] * len(played.world.agents)
    assert played.leftovers == []


# How agents fail


class Failed:
    """One run of cases that go wrong, all agents and eight cases in flight."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.script(self._replies)
        world.write_targets(*(target for agent in world.agents for target in self._targets(agent)))
        world.write("a.eval.yaml", {"evalcases": [case for agent in world.agents for case in self._cases(agent)]})
        self.text = world.run(
            *("--agentv-workers=8", "--agentv-max-retries=0", "--agentv-dump-prompts", "--agentv-dump-traces"),
            *("-rA", "-vv", "--showlocals", "--agentv-verbose", "--agentv-include-trace", "--junit-xml=junit.xml"),
            *("--log-file=run.log", "--log-file-level=DEBUG", "--log-level=DEBUG"),
        )
        self.results = world.results()
        self.leftovers = world.leftovers()

    def result(self, play: str, agent: Agent) -> dict[str, Any]:
        assert f"{play}-{agent.name}" in self.results, self.text
        result = self.results[f"{play}-{agent.name}"]
        assert result["status"] == "error", result
        assert result["error_detail"]["stage"] == "provider"
        return result

    def _replies(self, agent: Agent) -> list[Reply]:
        started = self.world.folder / f"up-{agent.name}"
        tool = agent.shell(f"touch {started}; setsid sleep 301 & sleep 300")
        plays = {
            "wrong-key": Reply(status=401, message="Incorrect API key provided"),
            "server-down": Reply(status=500),
            "silence": Reply(fault="hang"),
            "long-tool": Reply(fault="hang", calls=(tool,)),
            "turns": Reply(calls=(agent.read("nowhere"),)),
        }
        return [Reply(**{**vars(reply), "when": f"play-{name}"}) for name, reply in plays.items()]

    def _targets(self, agent: Agent) -> list[dict[str, Any]]:
        option = "--api-key" if agent.name == "pi" else "--model"
        secret = {"args": [*agent.target.get("args", ()), option, "${{ AGENTV_TEST_TOKEN }}"]}
        without_model = {"model": agent.target["model"] if agent.name == "pi" else ""}
        return [
            {"agent": agent.name, "name": agent.name},
            {"agent": agent.name, "name": f"{agent.name}-secret", "log_format": "json", **secret, **without_model},
            {**free(agent), "name": f"{agent.name}-short", "timeout_seconds": 4},
            {**free(agent), "name": f"{agent.name}-long", "timeout_seconds": 20},
            {"agent": agent.name, "name": f"{agent.name}-turns", "args": ["--max-turns", "1"]},
        ]

    def _cases(self, agent: Agent) -> list[dict[str, Any]]:
        cases = [
            case_of(agent, "wrong-key", f"{agent.name}-secret"),
            case_of(agent, "server-down"),
            case_of(agent, "silence", f"{agent.name}-short"),
            case_of(agent, "long-tool", f"{agent.name}-long"),
        ]
        return [*cases, case_of(agent, "turns", f"{agent.name}-turns")] if agent is CLAUDE else cases


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    with new_world(tmp_path_factory.mktemp("failed")) as world:
        yield Failed(world)


@each_agent
@pytest.mark.scenario("Claude Code error handling")
@pytest.mark.scenario("Codex CLI provider")
def test_a_key_that_is_refused_is_told_as_such(failed: Failed, agent: Agent) -> None:
    result = failed.result("wrong-key", agent)
    assert result["error_detail"]["kind"] == "auth"
    how = "failed" if agent.name == "pi" else "exited with code 1"  # pi ends with 0 whatever happens
    assert re.search(rf"{how}: .*401.* Incorrect API key provided to the key (Bearer )?\*\*\*", result["error"])
    assert result["error"].endswith(f"\nlog: {result['log_file']}")
    assert "Incorrect API key provided to the key" in Path(result["log_file"]).read_text("utf-8")


@each_agent
def test_a_server_that_is_down_is_an_error_of_the_network_and_no_bad_answer(failed: Failed, agent: Agent) -> None:
    result = failed.result("server-down", agent)
    assert result["error_detail"]["kind"] == "network"
    assert "high demand" in result["error"] or "500 the server says no" in result["error"]


@each_agent
@pytest.mark.scenario("Claude Code timeout handling")
@pytest.mark.parametrize(("play", "seconds"), [("silence", 4), ("long-tool", 20)])
def test_an_agent_that_takes_too_long_is_stopped(failed: Failed, agent: Agent, play: str, seconds: int) -> None:
    result = failed.result(play, agent)
    assert result["error_detail"]["kind"] == "timeout"
    assert f" timed out after {seconds}s" in result["error"]
    assert result["duration_ms"] < (seconds + 10) * 1000
    assert play == "silence" or (failed.world.folder / f"up-{agent.name}").exists()


@claude_only
def test_an_agent_that_gives_up_has_no_answer(failed: Failed, agent: Agent) -> None:
    error = failed.result("turns", agent)["error"]
    assert "exited with code 1: error_max_turns: Reached maximum number of turns (1)" in error


def test_nothing_of_the_agents_that_failed_is_left(failed: Failed) -> None:
    assert failed.leftovers == []


def test_no_secret_of_an_agent_is_written_anywhere(failed: Failed) -> None:
    files = [path for path in failed.world.folder.rglob("*") if path.is_file() and "base" not in path.parts]
    texts = {str(path.relative_to(failed.world.folder)): path.read_text("utf-8", "replace") for path in files}
    texts["the terminal"] = failed.text
    assert {"out.jsonl", "junit.xml", "run.log"} < texts.keys()
    assert sum(".agentv/logs/" in name for name in texts) == len(failed.results)
    assert "***" in failed.text
    secrets = [secret[start : start + 8] for secret in (KEY, ARGUMENT) for start in range(len(secret) - 7)]
    assert [name for name, text in texts.items() if any(secret in text for secret in secrets)] == []


@each_agent
def test_the_programs_were_given_the_secrets_that_are_hidden(failed: Failed, agent: Agent) -> None:
    keys = {request.api_key for request in failed.world.server.asked(agent.name)}
    shown = failed.world.asked(agent, ARGUMENT)
    assert any(KEY in str(key) for key in keys)
    assert shown or any(ARGUMENT in str(key) for key in keys)


# Runs that are broken off


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_agents_and_their_tools_end_with_the_run(tmp_path: Path, number: signal.Signals) -> None:
    with new_world(tmp_path) as world:
        break_off(world, number)
        assert world.leftovers() == []
        # A killed run can write nothing. Ctrl-C ends the case on turn with an error of its own.
        kinds = [result["error_detail"]["kind"] for result in world.results().values()]
        assert kinds == (["cancelled"] if number == signal.SIGINT else [])


def break_off(world: World, number: signal.Signals) -> None:
    """Run a case through each agent, and send a signal when all of them have a tool running."""

    tool = "(setsid setsid sleep 303 </dev/null >/dev/null 2>&1 &); sleep 304"
    world.script(lambda agent: [Reply(fault="hang", calls=(agent.shell(tool),))])
    world.write_targets(*(free(agent) for agent in world.agents))
    cases = [case_of(agent, "work", f"{agent.name}-free") for agent in world.agents]
    world.write("a.eval.yaml", {"evalcases": cases})
    run = world.start("--agentv-workers=3")
    deadline = time.monotonic() + 60
    while sum(command.startswith("sleep 30") for command in world.living().values()) < 2 * len(world.agents):
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < deadline, world.living()
        time.sleep(0.05)
    started = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(run.pid, number)
    else:
        run.kill()
    text = world.end(run, seconds=20)
    assert time.monotonic() - started < 10
    assert run.returncode == (2 if number == signal.SIGINT else -number)
    assert number == signal.SIGKILL or "! KeyboardInterrupt !" in text
    assert "Traceback" not in text


# Conversations


@each_agent
def test_a_conversation_in_a_workspace_goes_on_by_the_id_that_the_agent_gave(agent: Agent, tmp_path: Path) -> None:
    with new_world(tmp_path) as world:
        note = agent.shell("echo Ann > name.txt")
        world.script(lambda _: [Reply("Hello Ann", calls=(note,)), Reply("You are Ann")])
        args = [word for word in agent.target.get("args", ()) if word != "--ephemeral"]
        args += agent.free_shell.get("args", ())
        world.write_targets({"agent": agent.name, "name": agent.name, "args": args})
        world.write("desk/notes.txt", "nothing yet\n")
        turns = [{"input": "My name is Ann", "assert": [{"contains": "Hello"}]}, {"input": "Who am I?"}]
        checks = [
            {"contains": "You are Ann"},
            {"command": "grep -q Ann name.txt && grep -q yet notes.txt"},
            {"contains": "+Ann", "file": "diff"},
            {"equals": ["name.txt"], "file": "changed"},
        ]
        case = {"id": "talk", "target": agent.name, "workspace": "desk", "turns": turns, "assert": checks}
        world.write("a.eval.yaml", {"cases": [case]})
        text = world.run("a.eval.yaml")
        result = world.results()["talk"]
        assert result["status"] == "pass", f"{result.get('error')}\n{text}"
        first, *_, last = world.asked(agent, "My name is Ann")  # it goes on with what was said
        assert "Who am I?" not in first
        assert last.index("My name is Ann") < last.index("Hello Ann") < last.index("Who am I?")
        assert "@[User]" not in last
        usage = result["execution_metrics"]["token_usage"]
        assert (usage["input"], usage["output"]) == (90, 15), usage  # those of both turns, each once
        assert [path.name for path in (world.folder / "desk").iterdir()] == ["notes.txt"]
        assert world.leftovers() == []
