"""`reuse: true`: a judge script that is imported once gives the results of a script that is started for each case."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from thorough import varied

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context, Services, build_payload
from pytest_agentv.evaluators.script import CodeJudge, python_words
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.model.text import pretty_json
from pytest_agentv.runtime.fork_server import Program, run_forked
from pytest_agentv.runtime.loop import close_all
from pytest_agentv.runtime.process_tree import read_processes

HEAD = "from pytest_agentv.sdk import Result, code_judge\n\n@code_judge\n"


def context_of(answer: str = "hello", **environment: str) -> Context:
    case = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "question", (), ({"role": "user"},))
    services = Services(environment={**os.environ, **environment})
    return Context(case=case, prompt=Prompt("q"), candidate_answer=answer, services=services)


def write(folder: Path, body: str) -> None:
    (folder / "judge.py").write_text(HEAD + textwrap.dedent(body).strip() + "\n", encoding="utf-8")


def judge_of(folder: Path, *, reuse: object, **keys: object) -> CodeJudge:
    return CodeJudge(script=(sys.executable, "judge.py", "word"), cwd=str(folder), reuse=reuse, name="j", **keys)


async def outcome(judge: CodeJudge, context: Context) -> Score | tuple[str, str]:
    try:
        score = await judge.evaluate(context)
    except EvaluatorError as error:
        return error.kind, str(error)
    return score


def both_ways(folder: Path, context: Context | None = None) -> list[Score | tuple[str, str]]:
    """Judge with a process of its own, and with one that is forked."""

    async def run() -> list[Score | tuple[str, str]]:
        context_ = context or context_of()
        found = [await outcome(judge_of(folder, reuse=reuse), context_) for reuse in (False, True)]
        await close_all()
        return found

    return asyncio.run(run())


JUDGES = {
    "result": "def judge(case): return Result(score=case.candidate_answer == 'hello', hits=['é'], details={'a': 1})",
    "mapping": "def judge(case): return {'score': 0.25, 'reasoning': case.question}",
    "async": "async def judge(case): return {'score': 0.5}",
    "folder": "def judge(case):\n import os, sys\n return {'score': 1, 'hits': [os.getcwd(), *sys.argv, sys.path[0]]}",
    "environment": "def judge(case):\n import os\n return {'score': 1, 'hits': [os.environ['GREETING']]}",
    "prints": "def judge(case):\n print('to standard error')\n return {'score': 1}",
    "config": "def judge(case): return {'score': 1, 'hits': [str(case.config)]}",
    "no result": "def judge(case): return 'good'",
    "score too high": "def judge(case): return {'score': 7}",
    "killed": "def judge(case):\n import os\n os.kill(os.getpid(), 9)",
    "killed by a signal with a name": "def judge(case):\n import os, signal\n os.kill(os.getpid(), signal.SIGTERM)",
    "exits": "def judge(case):\n import sys\n sys.exit(3)",
    "exits with a reason": "def judge(case): raise SystemExit('no idea')",
    "raises": "def judge(case): raise ValueError('no idea')",
}


ALIKE = ("mapping", "folder", "config", "score too high", "killed", "exits with a reason")
"""Judges that take the ways of others."""


@pytest.mark.parametrize("body", [varied(body) if name in ALIKE else body for name, body in JUDGES.items()], ids=JUDGES)
def test_a_reused_judge_gives_the_result_of_a_process_of_its_own(tmp_path: Path, body: str) -> None:
    write(tmp_path, body)
    bare, reused = both_ways(tmp_path, context_of(GREETING="moin"))
    if isinstance(bare, Score):
        assert reused == bare
    else:  # below the first lines there are places in our own code
        assert isinstance(reused, tuple)
        assert [reused[0], reused[1].splitlines()[0]] == [bare[0], bare[1].splitlines()[0]]


def test_the_import_happens_once_and_each_case_has_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(
        "import os\n"
        "open('imports.txt', 'a').write('once\\n')\n"
        "seen = []\n"
        "def judge(case):\n"
        "    seen.append(case.candidate_answer)\n"
        "    return {'score': 1, 'hits': [str(os.getpid())], 'misses': list(seen)}\n"
    )

    async def run() -> list[Score]:
        judge = judge_of(tmp_path, reuse=True)
        found = await asyncio.gather(*(judge.evaluate(context_of(f"answer {n}")) for n in range(20)))
        await close_all()
        return found

    scores = asyncio.run(run())
    assert (tmp_path / "imports.txt").read_text() == "once\n"
    assert len({score.hits for score in scores}) == 20
    assert [score.misses for score in scores] == [(f"answer {n}",) for n in range(20)]


@pytest.mark.parametrize("broken", ["import no_such_module", "raise RuntimeError('at import')", "1 +"])
def test_a_script_that_cannot_be_imported_fails_as_a_process_of_its_own_does(tmp_path: Path, broken: str) -> None:
    (tmp_path / "judge.py").write_text(f"{broken}\n")
    bare, reused = both_ways(tmp_path)
    assert isinstance(bare, tuple)
    assert isinstance(reused, tuple)
    assert reused[0] == bare[0] == "process"
    assert reused[1].splitlines()[-1] == bare[1].splitlines()[-1]


def test_a_script_without_judge_is_told(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("print(1)\n")
    kind, message = both_ways(tmp_path)[1]
    assert kind == "process"
    assert "judge.py has no function `judge(case)`, which `reuse: true` calls" in message


def test_a_judgement_that_hangs_ends_alone(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        def judge(case):
            import subprocess, time
            if case.candidate_answer == "hang":
                subprocess.Popen(["sleep", "1000"])
                open("started", "w").close()
                time.sleep(1000)
            return {"score": 1}
        """,
    )

    async def run() -> list[Score | tuple[str, str]]:
        judge = judge_of(tmp_path, reuse=True)
        first = await outcome(judge, context_of())
        hung = await outcome(judge, context_of("hang").replace(timeout_seconds=1))
        last = await outcome(judge, context_of())
        await close_all()
        return [first, hung, last]

    first, hung, last = asyncio.run(run())
    assert first == last
    assert isinstance(hung, tuple)
    assert hung[0] == "timeout"
    assert hung[1].startswith("Code evaluator timed out after 1 s")
    assert (tmp_path / "started").exists()
    assert left_in(tmp_path) == []


def test_an_import_that_hangs_times_out_and_the_next_case_imports_again(tmp_path: Path) -> None:
    write(tmp_path, "def judge(case): return {'score': 1}")
    script = tmp_path / "judge.py"
    script.write_text(f"import os, time\nif not os.path.exists('go'):\n    time.sleep(1000)\n{script.read_text()}")

    async def run() -> list[Score | tuple[str, str]]:
        judge = judge_of(tmp_path, reuse=True)
        hung = await outcome(judge, context_of().replace(timeout_seconds=0.5))
        (tmp_path / "go").touch()
        fine = await outcome(judge, context_of())
        await close_all()
        return [hung, fine]

    hung, fine = asyncio.run(run())
    assert isinstance(hung, tuple)
    assert hung[0] == "timeout"
    assert isinstance(fine, Score)
    assert left_in(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold to the limit")
def test_a_judgement_may_take_so_much_memory(tmp_path: Path) -> None:
    write(tmp_path, "def judge(case): return {'score': len(bytearray(200_000_000)) > 0}")

    async def run(reuse: object) -> Score | tuple[str, str]:
        found = await outcome(judge_of(tmp_path, reuse=reuse), context_of())
        await close_all()
        return found

    assert isinstance(asyncio.run(run({"memory_mb": 400})), Score)
    refused = asyncio.run(run({"memory_mb": 100}))
    assert isinstance(refused, tuple)
    assert "MemoryError" in refused[1]


def test_a_cancelled_judgement_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path, "def judge(case):\n import time\n open('started', 'w').close()\n time.sleep(1000)")

    async def run() -> None:
        task = asyncio.create_task(judge_of(tmp_path, reuse=True).evaluate(context_of()))
        await until((tmp_path / "started").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waiting = asyncio.create_task(judge_of(tmp_path, reuse=True).evaluate(context_of()))
        await asyncio.sleep(0)  # it has asked for a process, and is cancelled before it learns which
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await close_all()

    asyncio.run(run())
    assert left_in(tmp_path) == []


def test_a_killed_server_is_told_and_its_processes_end(tmp_path: Path) -> None:
    write(tmp_path, "def judge(case):\n import time\n open('started', 'w').close()\n time.sleep(1000)")

    async def run() -> tuple[str, str] | Score:
        task = asyncio.create_task(outcome(judge_of(tmp_path, reuse=True), context_of()))
        await until((tmp_path / "started").exists)
        for info in read_processes():
            if info.pid == info.session and info.parent == os.getpid() and working_in(info.pid, tmp_path):
                os.kill(info.pid, signal.SIGKILL)
        found = await task
        await close_all()
        return found

    found = asyncio.run(run())
    assert isinstance(found, tuple)
    assert found[0] == "process"
    assert "was killed by SIGKILL" in found[1]
    assert left_in(tmp_path) == []


KILLED = """
import os, signal

with open("imports", "a") as imports:
    imports.write("x")
if os.path.getsize("imports") <= {times}:
    os.kill(os.getpid(), signal.SIGKILL)

def judge(case):
    return {{"score": 1, "hits": [str(os.getppid())]}}
"""


def judgements(folder: Path, count: int = 1) -> list[Score | tuple[str, str]]:
    """Judge at the same time."""

    async def run() -> list[Score | tuple[str, str]]:
        found = await asyncio.gather(*(outcome(judge_of(folder, reuse=True), context_of()) for _ in range(count)))
        await close_all()
        return found

    return asyncio.run(run())


def test_a_server_that_is_killed_while_it_imports_is_started_again(tmp_path: Path) -> None:
    """Each case that waits for it has an answer that was paid for."""
    (tmp_path / "judge.py").write_text(KILLED.format(times=2))
    found = judgements(tmp_path, 3)
    assert [judged.value for judged in found if isinstance(judged, Score)] == [1, 1, 1]
    assert (tmp_path / "imports").read_text() == "xxx"
    assert left_in(tmp_path) == []


def test_an_import_that_is_always_killed_is_told_after_three_tries(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(KILLED.format(times=1000))
    found = judgements(tmp_path, 3)
    assert (tmp_path / "imports").read_text() == "xxx"
    for judged in found:
        assert isinstance(judged, tuple)
        assert "the process that imports the script ended by signal 9: it said nothing" in judged[1]


def test_what_an_import_said_at_last_shows_no_half_of_a_secret(tmp_path: Path) -> None:
    key = "sk-Zq9Secret0123456789abcdefXY"
    says = f"import os, sys\nsys.stderr.write('{key}' + 'y' * 1974)\nsys.stderr.flush()\nos._exit(3)\n"
    (tmp_path / "judge.py").write_text(says)

    with masking(Masker([key])):
        (told,) = judgements(tmp_path, 1)

    assert "the process that imports the script ended: " in told[1]
    assert "Secret" not in told[1]


def test_a_server_that_is_killed_between_cases_is_replaced_whenever_that_happens(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(KILLED.format(times=0))

    async def run() -> list[Score | tuple[str, str]]:
        found = []
        for _ in range(5):
            found.append(judged := await outcome(judge_of(tmp_path, reuse=True), context_of()))
            assert isinstance(judged, Score), judged
            os.kill(int(judged.hits[0]), signal.SIGKILL)
        await close_all()
        return found

    found = asyncio.run(run())
    assert len({judged.hits for judged in found if isinstance(judged, Score)}) == 5
    assert left_in(tmp_path) == []


RUN = """
import asyncio, os, sys
from pytest_agentv.runtime.fork_server import Program, run_forked

program = Program(sys.executable, ("judge.py",), os.getcwd(), tuple(os.environ.items()))
asyncio.run(run_forked(program, sys.argv[1].encode(), variables={}, timeout_seconds=None, memory_mb=100))
"""


@pytest.mark.parametrize("when", ["importing", "judging"])
def test_a_killed_run_leaves_no_process(tmp_path: Path, when: str) -> None:
    hang = "import time\nopen('started', 'w').close()\ntime.sleep(1000)\n"
    judge = f"def judge(case):\n{textwrap.indent(hang, '    ')}"
    (tmp_path / "judge.py").write_text(hang if when == "importing" else judge)
    payload = pretty_json(build_payload(context_of(), None))
    with subprocess.Popen([sys.executable, "-c", RUN, payload], cwd=tmp_path) as process:
        asyncio.run(until((tmp_path / "started").exists))
        process.kill()
    assert left_in(tmp_path) == []


def test_an_interpreter_without_this_package_is_told(tmp_path: Path) -> None:
    write(tmp_path, "def judge(case): return 1")
    program = Program(sys.executable, ("judge.py",), str(tmp_path), (("PYTHONPATH", ""), ("PYTHONHOME", "/nowhere")))

    async def run() -> None:
        try:
            await run_forked(program, b"", variables={}, timeout_seconds=30, memory_mb=100)
        finally:
            await close_all()

    with pytest.raises(Exception, match="the process that imports the script ended: "):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python", "judge.py", "-x"), ("python", ("judge.py", "-x"))),
        (("/usr/bin/python3.11", "a/judge.py"), ("/usr/bin/python3.11", ("a/judge.py",))),
        (("shebang.py",), ("python3", ("shebang.py",))),
        (("plain.py",), None),
        (("missing.py",), None),
        (("node", "judge.js"), None),
        (("python", "-m", "judge"), None),
        (("sh", "-lc", "python judge.py"), None),
    ],
)
def test_the_interpreter_and_the_script_of_a_command(
    tmp_path: Path, command: tuple[str, ...], expected: tuple[str, tuple[str, ...]] | None
) -> None:
    (tmp_path / "shebang.py").write_text("#!/usr/bin/env -S python3\n")
    (tmp_path / "plain.py").write_text("print(1)\n")
    assert python_words(command, tmp_path) == expected


def test_a_script_that_is_no_python_cannot_be_reused() -> None:
    with pytest.raises(ValidationError, match="a `script` in Python"):
        CodeJudge(script=("node", "judge.js"), reuse=True)


def working_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


def left_in(folder: Path) -> list[int]:
    """Return the processes that still work in a folder, after a moment to end."""
    deadline = time.monotonic() + 10
    while (left := [i.pid for i in read_processes() if i.state != "Z" and working_in(i.pid, folder)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    return left


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.01)
