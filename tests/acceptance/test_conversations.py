"""Conversations in flight: each target hears its own one, and what was paid for is not asked again after a kill."""

import json
import re
from collections import Counter

import pytest
from fake_llm import FakeLlm, Reply

from .conftest import SLOW_WITH_WORKERS, Project

TALKS = 50
TURNS = 3


def cases() -> str:
    def case(number: int) -> dict[str, object]:
        said = [{"input": f"q {number}.{turn}.", "assert": [{"contains": f"a {number}.{turn}."}]} for turn in (1, 2, 3)]
        return {"id": f"talk-{number}", "turns": said, "assert": [{"contains": f"a {number}.3."}]}

    return json.dumps({"cases": [case(number) for number in range(TALKS)]})


@pytest.mark.slow
@SLOW_WITH_WORKERS
def test_fifty_conversations_in_flight_with_a_model_never_mix(project: Project, mode: tuple[str, ...]) -> None:
    with FakeLlm() as server:
        replies = [
            Reply(f"a {number}.{turn}.", when=f"q {number}.{turn}.")
            for turn in (3, 2, 1)  # a request of the third turn holds the questions of those before
            for number in range(TALKS)
        ]
        url = server.script("talk", *replies)
        key = "sk-0123456789abcdef"
        target = {"name": "default", "provider": "openai", "base_url": f"{url}/v1", "api_key": key, "model": "team"}
        project.write("targets.yaml", json.dumps({"targets": [target]}))
        project.write("talk.eval.yaml", cases())
        run = project.run("--agentv-workers=50", mode=mode)
        assert run.outcomes == {"passed": TALKS}
        asked = server.asked("talk")
        assert len(asked) == TALKS * TURNS
        for request in asked:
            texts = [message["content"] for message in request.body["messages"]]
            number = re.findall(r"\d+", texts[1])[0]  # behind the instructions
            whole = [f"{who} {number}.{turn}." for turn in (1, 2, 3) for who in "qa"]
            assert texts[1:] == whole[: len(texts) - 1]
        assert server.most_in_flight["talk"] > TURNS


@pytest.mark.slow
@SLOW_WITH_WORKERS
def test_fifty_conversations_of_commands_with_sessions_never_mix(project: Project, mode: tuple[str, ...]) -> None:
    project.write("answer.sh", 'echo "$2" >> "session-$1"; sed s/q/a/ "session-$1"')
    command = {"name": "default", "provider": "cli", "command_template": "sh ./answer.sh {SESSION_ID} {PROMPT}"}
    project.write("targets.yaml", json.dumps({"targets": [{**command, "session": True}]}))
    project.write("talk.eval.yaml", cases())
    run = project.run("--agentv-workers=50", mode=mode)
    assert run.outcomes == {"passed": TALKS}
    sessions = [path.read_text().split() for path in project.path.glob("session-*")]
    expected = [[word for turn in (1, 2, 3) for word in ("q", f"{number}.{turn}.")] for number in range(TALKS)]
    assert sorted(sessions) == sorted(expected)


AGENT = """
    import os
    import signal

    def answer(messages):
        said = messages[-1]["content"]
        with open("calls.txt", "a") as file:
            print(len(messages), said, file=file)
        if said == "q 3" and not os.path.exists("go-on"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"text": f"a{said[1:]}", "cost_usd": 0.25}

    def user(prompt):
        with open("calls.txt", "a") as file:
            print("user", file=file)
        return {"text": "###STOP###" if "a 4" in prompt else "q 4", "cost_usd": 0.01}
"""
KILLED = """
    cases:
      - {id: done, input: q 0, assert: [{contains: a 0}]}
      - id: talk
        turns: [{input: q 1, assert: [contains: a 1]}, {input: q 2}, {input: q 3}]
        user: {target: user, goal: Say q 4, max_turns: 5}
        assert: [{contains: a 4}, {contains: a 3, turn: 3}, {cost: 1}]
"""


@pytest.mark.kills
def test_a_killed_run_goes_on_and_asks_no_turn_again(project: Project) -> None:
    project.write("agent.py", AGENT)
    targets = [{"name": name, "provider": "python"} for name in ("default", "user")]
    targets[0] |= {"callable": "agent.py:answer", "messages": True}
    targets[1] |= {"callable": "agent.py:user"}
    project.write("targets.yaml", json.dumps({"targets": targets}))
    project.write("talk.eval.yaml", KILLED)
    out = ("--agentv-out=out.jsonl", "--agentv-workers=1")
    resumed = (*out, "--agentv-resume=out.jsonl")
    assert project.run(*out, subprocess=True).exit_code != 0
    assert calls(project) == {"1 q 0": 1, "1 q 1": 1, "3 q 2": 1, "5 q 3": 1}
    project.write("go-on", "")

    assert project.run(*resumed, subprocess=True).outcomes == {"passed": 2}
    asked = {"1 q 0": 1, "1 q 1": 1, "3 q 2": 1, "5 q 3": 2, "7 q 4": 1, "user": 2}
    assert calls(project) == asked
    result = json.loads((project.path / "out.jsonl").read_text().splitlines()[-1])
    assert result["conversation"]["stopped"] == "user"
    assert result["conversation"]["user_metrics"]["cost_usd"] == 0.02
    assert result["spent"]["answer"]["cost_usd"] == 1  # the call that was killed told no cost
    assert result["spent"]["judge"]["cost_usd"] == 0.02
    assert result["execution_metrics"]["cost_usd"] == 1
    roles = [message["role"] for message in result["output_messages"]]
    assert roles == ["user", "assistant"] * 4

    project.write("talk.eval.yaml", KILLED.replace("contains: a 4", "contains: nothing"))
    assert project.run(*resumed, subprocess=True).outcomes == {"passed": 1, "failed": 1}
    assert calls(project) == asked  # only the checks have changed


def calls(project: Project) -> Counter[str]:
    return Counter((project.path / "calls.txt").read_text().splitlines())


@pytest.mark.parametrize("session", [True, False])
def test_a_turn_that_takes_too_long_is_an_error_of_its_turn(project: Project, session: bool) -> None:
    agent = """
        import asyncio

        async def answer(prompt, request):
            with open("calls.txt", "a") as file:
                print(request.turn, file=file)
            if request.turn == 2:
                await asyncio.Event().wait()
            return "hello"
    """
    project.write("agent.py", agent)
    target = {"name": "default", "provider": "python", "callable": "agent.py:answer", "session": session}
    project.write("targets.yaml", json.dumps({"targets": [target]}))
    turns = "[{input: hello}, {input: hello again}, {input: bye}]"
    project.write("talk.eval.yaml", f"cases: [{{id: talk, turns: {turns}, assert: [contains: hello]}}]")
    run = project.run("--agentv-timeout=0.2", "--agentv-max-retries=1")
    assert run.by_id["talk"]["error"].startswith("turn 2: ")
    assert run.by_id["talk"]["error_detail"] == {"stage": "provider", "kind": "timeout"}
    assert calls(project) == {"1": 1, "2": 1 if session else 2}  # a session would hear the message twice
