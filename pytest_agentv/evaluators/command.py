"""`command`: a shell command that passes in the workspace; and the files of it that other evaluators judge."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema

from pytest_agentv.cases.references import Scope
from pytest_agentv.errors import ErrorKind, EvaluatorError
from pytest_agentv.evaluators.base import Evaluator, or_sync
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.script import COMMAND_SCHEMA, words_of_command
from pytest_agentv.model.base import ABSENT, Absent, Json, format_number
from pytest_agentv.model.kind import Amount
from pytest_agentv.model.results import Score
from pytest_agentv.runtime.files import read_regular_file
from pytest_agentv.runtime.processes import ProcessStartError
from pytest_agentv.runtime.workspaces import in_eval_dir, is_cut

_NO_WORKSPACE: Final = "there is no workspace: write `workspace` into the case or its file"
_CANNOT_RUN: Final = {126: "cannot be run", 127: "was not found"}
_NO_TESTS: Final = 5
"""The exit code of pytest and unittest where there were no tests."""
_LONGEST_REPORT: Final = 2000
_LARGEST_FILE: Final = 10 * 2**20


class Command(Evaluator):
    """A shell command that ends with exit code 0 in the folder that the target worked in."""

    kind = "command"
    short_key = "command"
    is_graded = False
    reads_answer = False

    command: Annotated[str | tuple[str, ...], BeforeValidator(words_of_command), WithJsonSchema(COMMAND_SCHEMA)] = (
        Field(
            description="a shell command, or a list of words; without variables like `*_KEY`, `*_TOKEN`, `*_SECRET`",
            examples=["python -m pytest -q --noconftest -c /dev/null test_shop.py"],
        )
    )
    timeout_seconds: Amount | None = Field(
        default=None, description="limit; default: that of the run, `--agentv-timeout`", examples=[60]
    )

    _eval_dir: str | None = PrivateAttr(default=None)

    def model_post_init(self, context: object) -> None:
        self._eval_dir = str(context.references.eval_dir) if isinstance(context, Scope) else None

    def summary(self) -> str:
        return self.command if isinstance(self.command, str) else " ".join(self.command)

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        words = (self.command,) if isinstance(self.command, str) else self.command
        return ((self._eval_dir, tuple(map(in_eval_dir, words))),)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Run the command. Raises `EvaluatorError` if that tells nothing about the answer."""
        if context.workspace is None:
            raise EvaluatorError(_NO_WORKSPACE, "config")
        limit = context.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds
        try:
            result = await context.workspace.run(self.command, limit)
        except ProcessStartError as error:
            raise EvaluatorError(str(error), "config") from error
        said = (result.stdout.strip() + "\n" + result.stderr.strip()).strip()[-_LONGEST_REPORT:]
        code, fault = result.exit_code, None
        if result.timed_out:
            fault = f"took more than {format_number(limit or 0)} s"
        elif result.overflowed:
            fault = "printed too much"
        elif code in _CANNOT_RUN:
            fault = _CANNOT_RUN[code]
        elif code == _NO_TESTS and ("pytest" in self.summary() or "no tests ran" in said.lower()):
            fault = "ran no tests"
        if fault is not None:
            kind: ErrorKind = "timeout" if result.timed_out else "process"
            text = f"`{self.summary()}` {fault}"
            raise EvaluatorError(f"{text}: {said}" if said else text, kind)
        if code == 0:
            return Score(1.0, hits=("exit code 0",))
        ended = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        last = said.rpartition("\n")[2]
        return Score(0.0, misses=(f"{ended}: {last}" if last else ended,), reasoning=said or None)


def of_workspace(context: Context, name: str) -> tuple[Json | Absent, str]:
    """Return what `file` names: the text of a file, `diff` or the list `changed`; else ABSENT and why it is not there.

    Raises `EvaluatorError`. May block.
    """
    known = context.workspace
    if known is None and (name != "diff" or context.file_changes is None or is_cut(context.file_changes)):
        raise EvaluatorError(_NO_WORKSPACE, "config")
    if known is None:
        return context.file_changes, ""
    if name == "changed":
        return list(known.changes.names), ""
    if name == "diff":
        fault = "" if known.changes.is_whole else "the diff is too long to be judged: judge `changed`, or a file"
        return known.changes.diff, fault
    root = Path(known.path).resolve()
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            return ABSENT, f"{name} is outside the workspace"
        if not path.exists():
            return ABSENT, f"there is no file {name}"
        return read_regular_file(path, _LARGEST_FILE).decode("utf-8", "replace"), ""
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a folder, a NUL in the name
        return ABSENT, f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"
