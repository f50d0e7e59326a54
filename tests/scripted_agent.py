"""An agent that does what its prompts say and notes its calls; the text of this file is what projects of tests run."""

import asyncio
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTES = "calls.jsonl"
LONGEST_WAIT = 60.0
"""Seconds after which what a prompt waits for will not happen any more."""

TARGETS = "targets: [{name: default, provider: python, callable: agent.py:answer, workers: 1}]\n"


async def answer(prompt: str, request: Any) -> str:
    """Carry the prompt's steps out, which are parted by semicolons; the last thing said is the answer."""
    _note("start", request.eval_id)
    said = "hello"
    try:
        for step in prompt.split("; "):
            word, *arguments = step.split()
            said = await STEPS[word](*arguments) or said
    finally:
        _note("end", request.eval_id)
    return said


async def say(*words: str) -> str:
    return " ".join(words)


async def sleep(seconds: str) -> None:
    await asyncio.sleep(float(seconds))


async def start_of(eval_id: str) -> None:
    await _until(lambda: eval_id in read_calls(_folder()).started)


async def end_of(eval_id: str) -> None:
    await _until(lambda: eval_id in read_calls(_folder()).ended)


async def lines(count: str, file: str) -> None:
    path = _folder() / file
    await _until(lambda: path.exists() and path.read_bytes().count(b"\n") >= int(count))


async def in_flight(count: str) -> None:
    """Wait until so many cases have been in flight, and a moment longer: one too many would be seen."""
    await _until(lambda: read_calls(_folder()).most >= int(count))
    await asyncio.sleep(0.03)


async def fail(*words: str) -> None:
    raise RuntimeError(" ".join(words))


async def fail_once(mark: str) -> None:
    if _is_first(mark):
        raise RuntimeError("not yet")


async def say_once(mark: str, word: str) -> str | None:
    return word if _is_first(mark) else None


async def die_once(mark: str) -> None:
    if _is_first(mark):
        os.kill(os.getpid(), signal.SIGKILL)


async def delete(folder: str) -> None:
    shutil.rmtree(_folder() / folder)


async def log(*words: str) -> None:
    logging.getLogger("agent").warning(" ".join(words))


async def variable(name: str) -> str:
    return os.environ[name]


STEPS: Mapping[str, Callable[..., Any]] = {
    step.__name__: step
    for step in (
        *(say, sleep, start_of, end_of, lines, in_flight, fail, fail_once, say_once, die_once, delete, log, variable),
    )
}


@dataclass(frozen=True)
class Calls:
    """What was called, in the order of time, over all processes."""

    notes: list[dict[str, Any]]

    @property
    def started(self) -> list[str]:
        return [note["id"] for note in self.notes if note["event"] == "start"]

    @property
    def ended(self) -> list[str]:
        return [note["id"] for note in self.notes if note["event"] == "end"]

    @property
    def most(self) -> int:
        """The most calls in flight at a time."""
        running = most = 0
        for note in self.notes:
            running += 1 if note["event"] == "start" else -1
            most = max(most, running)
        return most

    def of(self, word: str) -> "Calls":
        """Return the calls of cases whose ids start with a word."""
        return Calls([note for note in self.notes if note["id"].startswith(word)])

    @property
    def by_process(self) -> "list[Calls]":
        return [Calls([note for note in self.notes if note["pid"] == pid]) for pid in {n["pid"] for n in self.notes}]


def read_calls(folder: Path) -> Calls:
    path = folder / NOTES
    text = path.read_text() if path.exists() else ""
    return Calls([json.loads(line) for line in text.split("\n")[:-1]])


def write_agent(project: Any, targets: str = TARGETS) -> None:
    """Give a project this agent as its targets."""
    project.write("agent.py", Path(__file__).read_text())
    project.write("targets.yaml", targets)


def write_plugin(project, code):
    """Write a plugin. A hook of a conftest around items would keep cases from running ahead of them."""
    project.write("a_plugin.py", code)
    project.write("conftest.py", 'pytest_plugins = ["a_plugin"]\n')


def write_cases(project: Any, prompts: Mapping[str, str], name: str = "a.eval.yaml", **keys: Mapping[str, Any]) -> None:
    """Write a case for each prompt, which passes when the answer holds a hello; more keys of cases go by id."""
    cases = [
        {
            "id": eval_id,
            "expected_outcome": "says hello",
            "input": prompt,
            "evaluators": [{"name": "words", "type": "heuristic", "hits": ["hello"]}],
            **keys.get(eval_id, {}),
        }
        for eval_id, prompt in prompts.items()
    ]
    project.write(name, "evalcases:\n" + "".join(f"  - {json.dumps(case)}\n" for case in cases))


def numbered(count: int, prompt: str = "say hello", word: str = "case") -> dict[str, str]:
    return {f"{word}-{number}": prompt for number in range(count)}


def figures(lines_of_run: Iterable[str]) -> list[str]:
    """Return the lines of a summary that hold no times."""
    printed = list(lines_of_run)
    start = next(index for index, line in enumerate(printed) if "EVALUATION SUMMARY" in line)
    timed = ("Time:", "Results written to:")
    return [line for line in printed[start:-1] if not line.startswith(timed)]


def _note(event: str, eval_id: str) -> None:
    line = json.dumps({"event": event, "id": eval_id, "pid": os.getpid(), "at": time.monotonic()}) + "\n"
    descriptor = os.open(_folder() / NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())  # in one piece, so that processes do not mix theirs
    os.close(descriptor)


def _folder() -> Path:
    return Path(__file__).parent


def _is_first(mark: str) -> bool:
    try:
        (_folder() / mark).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("waited in vain")
        await asyncio.sleep(0.005)
