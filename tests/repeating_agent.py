"""An agent whose prompts say what each answer of a case is, and notes what it is asked; projects of tests run it."""

import asyncio
import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

NOTES = "asked.txt"
ANSWERED = "answered.txt"
TARGETS = "targets: [{name: default, provider: python, callable: repeating_agent.py:answer, workers: %d}]\n"
EVALUATORS = "evaluators: [{name: words, type: heuristic, hits: [hello]}]\n"


_started = time.time()
_answered: set[tuple[str, int]] = set()


async def answer(prompt: str, request: Any) -> Any:
    """Do what the sign of the answer's number says.

    Say hello (p) or something else (f), fail (e), wait for ever (w); once, kill the process (k) or press Ctrl-C (i).
    """
    name = f"{request.eval_id} {request.answer}\n"
    _note(NOTES, name)
    sign = prompt[request.answer % len(prompt)]
    await asyncio.sleep(0.01)
    if sign == "e":
        raise RuntimeError("HTTP 503")
    if sign == "w":
        await asyncio.sleep(3600)
    if sign == "k" and _is_first():
        while not _answered <= _stored():  # noqa: ASYNC110 - another thread writes it
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    if sign == "i" and _is_first():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(3600)
    _note(ANSWERED, name)
    _answered.add((request.eval_id, request.answer))
    text = "bye" if sign == "f" else f"hello {request.answer}"
    return {"text": text, "cost_usd": 0.25, "token_usage": {"input": 10, "output": 5}}


def _note(name: str, line: str) -> None:
    with Path(name).open("a") as file:
        file.write(line)


def _stored() -> set[tuple[str, int]]:
    """Return the answers that the run has in the store: all that a kill must not lose."""
    sql = "select eval_id, n from answer where response is not null and created > ?"
    try:
        with closing(sqlite3.connect("file:.agentv/answers.sqlite?mode=ro", timeout=20, uri=True)) as db:
            return set(db.execute(sql, (_started,)).fetchall())
    except sqlite3.OperationalError:  # the run has not made it yet
        return set()


def _is_first() -> bool:
    try:
        Path("killed").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def asked(folder: Path, name: str = NOTES) -> list[str]:
    """Return what was asked, as `case 0`, sorted, since this was last called."""
    path = folder / name
    lines = sorted(path.read_text().splitlines()) if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def answered(folder: Path) -> set[str]:
    """Return what the agent gave an answer to, since this was last called."""
    return set(asked(folder, ANSWERED))


def counts(lines: list[str]) -> dict[str, int]:
    """Return how many answers each case was asked for; none of them twice."""
    assert len(set(lines)) == len(lines), f"asked twice: {lines}"
    return dict(Counter(line.split()[0] for line in lines))


def write_project(project: Any, *, workers: int = 1) -> None:
    project.write("repeating_agent.py", Path(__file__).read_text())
    project.write("targets.yaml", TARGETS % workers)


def write_suite(project: Any, cases: dict[str, str], name: str = "a.eval.yaml", **header: object) -> None:
    """Write a case for each prompt; what follows a prompt after a `|` are more keys of the case."""
    lines = [f"{key}: {value}\n" for key, value in header.items()]
    entries = []
    for eval_id, prompt in cases.items():
        text, _, keys = prompt.partition("|")
        entries.append(f"  - {{id: {eval_id}, expected_outcome: hello, input: {text}{', ' + keys if keys else ''}}}\n")
    project.write(name, "".join([*lines, EVALUATORS, "evalcases:\n", *entries]))
