"""Judge scripts in Python that are imported once and called for many cases."""

from collections.abc import Mapping, Sequence

from pytest_agentv.evaluators.scripts.script import ProcessRun
from pytest_agentv.runtime.processes.fork_server import Program, run_forked
from pytest_agentv.runtime.processes.process import ProcessResult


def forked_from(interpreter: str, words: tuple[str, ...], memory_mb: int, variables: Mapping[str, str]) -> ProcessRun:
    """Return a function that runs the script like `run_process`, in a process forked from a warm one.

    `variables` are those of one call. All other variables belong to the warm process.
    """

    async def run(
        argv: Sequence[str],  # noqa: ARG001 - the words are known
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_seconds: float | None,
    ) -> ProcessResult:
        shared = tuple(sorted(item for item in env.items() if item[0] not in variables))
        program = Program(interpreter, words, cwd, shared)
        return await run_forked(
            program, stdin, variables=variables, timeout_seconds=timeout_seconds, memory_mb=memory_mb
        )

    return run
