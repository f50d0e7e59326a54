"""Writes the dumps that a run asks for: the prompt of a case, and the trace of each attempt."""

from pytest_agentv.engine.answers import Answered
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import FileError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.prompts.prompt import Prompt


def dump_job_prompt(job: CaseJob, pool: TargetPool, prompt: Prompt) -> None:
    """Write the prompt of a case. Raises `FileError`, before anything is paid for."""
    folder = job.options.dump_prompts
    if folder is None or job.answer:  # all answers have the same prompt
        return
    from pytest_agentv.reporting.dumps import dump_prompt  # noqa: PLC0415 - for runs that ask for it

    dump_prompt(
        folder,
        job.case.eval_id,
        prompt,
        guideline_paths=job.case.guideline_paths,
        masker=pool.masker,
        qualifier=job.dump_qualifier,
    )


def dump_job_traces(job: CaseJob, pool: TargetPool, attempts: int, answered: Answered | None) -> None:
    """Write a file per attempt. Only the last attempt can have a trace.

    A file that cannot be written is only a warning, so that a paid answer is never lost to a debug file.
    """
    folder = job.options.dump_traces
    if folder is None:
        return
    from pytest_agentv.reporting.dumps import dump_trace  # noqa: PLC0415 - for runs that ask for it

    try:
        for attempt in range(1, attempts + 1):
            last = answered if attempt == attempts else None
            dump_trace(
                folder,
                job.case.eval_id,
                attempt=attempt,
                answer=job.answer,
                reruns=job.reruns,
                target=job.identity.target,
                trace=last.trace if last else None,
                trace_summary=last.summary if last else None,
                masker=pool.masker,
                qualifier=job.dump_qualifier,
            )
    except FileError as error:
        reason = str(error).partition(": ")[2]
        problem = Problem(error.path, error.line, "", f"the trace is not dumped: {reason}", level="warning")
        pool.warn([problem])
