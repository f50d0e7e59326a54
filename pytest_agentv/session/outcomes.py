"""What eval items raise, how they are named, and where they can run."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import SUFFIXES
from pytest_agentv.errors import AgentvError, ErrorKind
from pytest_agentv.files.problems import Problem, did_you_mean
from pytest_agentv.model.base import counted
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import Start
from pytest_agentv.reports.figures import shown

# The exceptions of eval items, and how pytest shows them.


class EvalFailed(AssertionError):
    """A case failed: its score is below the threshold, or a hook failed it.

    `headline` is the first line of the text.
    """

    def __init__(self, account: str, headline: str) -> None:
        super().__init__(account)
        self.headline = headline


class EvalErrored(AgentvError):
    """A case could not be judged. The text says where and why it broke; `headline` says it in one line."""

    def __init__(self, account: str, headline: str) -> None:
        super().__init__(account)
        self.headline = headline


RUN_ENDS: Final = (KeyboardInterrupt, pytest.exit.Exception)
"""Exceptions that end the run, and not only the item."""


_NO_PARAMETER: Final = re.compile(
    r"The requested fixture has no parameter.*Requested fixture '(.+?)' defined in:\s*(.+?)\n", re.DOTALL
)


def kind_of_break(error: BaseException) -> ErrorKind:
    """Return the error kind to record for a case whose item failed in set-up."""
    if isinstance(error, RUN_ENDS):
        return "cancelled"
    is_config = isinstance(error, pytest.FixtureLookupError | OSError) or parameter_fault(error) is not None
    return "config" if is_config else "crash"


def text_of_break(error: BaseException) -> str:
    """Return the text of an exception of a fixture, hook or signal."""
    if isinstance(error, pytest.FixtureLookupError):
        return error.msg or f"fixture {error.argname!r} not found"
    if isinstance(error, KeyboardInterrupt):
        return "Ctrl-C (KeyboardInterrupt)"
    return parameter_fault(error) or f"{type(error).__name__}: {error}".removesuffix(": ")


def parameter_fault(error: BaseException) -> str | None:
    """Return why a fixture with `params` cannot be set up for a case; None: the error is another one."""
    found = _NO_PARAMETER.match(str(error)) if isinstance(error, pytest.fail.Exception) else None
    if found is None:
        return None
    way_out = "`matrix` runs a case several times"
    return f"fixture {found[1]!r} ({found[2]}) has params, and only tests in Python can be parametrized: {way_out}"


def ended_text(error: BaseException) -> str:
    """Return why a case was ended while it ran."""
    return f"ended before it was done: {text_of_break(error)}"


def as_text(error: BaseException, traceback: TracebackType, headline: str, place: tuple[str, int]) -> Any:
    """Return what pytest shows of an error: its text, anchored at a place, and a headline in the short summary."""
    # Only this representation keeps its message in the short summary in every pytest, also under xdist.
    text = pytest.ExceptionInfo.from_exc_info((type(error), error, traceback)).getrepr(style="value")
    if text.reprcrash is not None:
        text.reprcrash.path, text.reprcrash.lineno = place
        text.reprcrash.message = headline
    return text


def retold(text: str, headline: str, place: tuple[str, int]) -> Any:
    """Return what pytest shows for an error of which a worker sent only the text."""
    try:
        raise AgentvError(text)
    except AgentvError as error:
        return as_text(error, pytest.ExceptionInfo.from_current().tb, headline, place)


_AVAILABLE: Final = "available fixtures: "


def missing_fixture_text(error: pytest.FixtureLookupError) -> str:
    """Return the missing fixture with a suggestion, the fixtures that request it, and the available ones."""
    told = error.msg or str(getattr(error.formatrepr(), "errorstring", f"fixture {error.argname!r} not found"))
    lines = [line.strip() for line in told.split("\n")]
    asking = [f"the fixture {definition.argname!r} asks for it" for definition in error.fixturestack]
    known = next((line for line in lines if line.startswith(_AVAILABLE)), "").removeprefix(_AVAILABLE).split(", ")
    hint = did_you_mean(error.argname or "", known)
    return "\n".join((f"{lines[0]} ({hint})" if hint else lines[0], *asking, *lines[1:]))


class AgentvWarning(UserWarning):
    """A likely mistake in an eval, targets or config file."""


def show_warnings(problems: Iterable[Problem], masker: Masker) -> None:
    """Pass problems to pytest's warnings summary, each at its place in its file, safe to show.

    Raises one `AgentvWarning` for those that the project's `filterwarnings` makes errors.
    """
    refused = []
    for problem in problems:
        text = shown(str(problem), masker)
        try:
            warnings.warn_explicit(text, AgentvWarning, str(problem.path), problem.line or 1)
        except AgentvWarning as warning:
            refused.append(str(warning))
    if refused:
        raise AgentvWarning("\n".join(refused))


# Names items: turns the id of a case into a part of a node id.

# pytest 9.2 splits node ids at `::` and `[`. VS Code passes them on as lines and drops every other line break.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")

_COLONS = re.compile(r":{2,}")


def clean_name(eval_id: str) -> str:
    """Return a name that selects the case in pytest, xdist and IDEs; empty for an id without any safe character."""
    name = _UNSAFE.sub(" ", eval_id).replace("[", "(").replace("]", ")")
    return _COLONS.sub(":", name).strip()


def unique_names(eval_ids: Iterable[str | None]) -> Iterator[str]:
    """Yield one name per case, in order. Equal names get `-2`, `-3` and so on.

    The names depend only on the content of the file, because every xdist worker needs the same ones. An id that is a
    valid name is kept, so a new case above renames no other case.
    """
    ids = list(eval_ids)
    bases = [clean_name(eval_id or "") or "unnamed" for eval_id in ids]
    kept = {base for eval_id, base in zip(ids, bases, strict=True) if eval_id == base}
    taken: set[str] = set()
    copies: Counter[str] = Counter()
    for eval_id, base in zip(ids, bases, strict=True):
        name = base
        while name in taken or (name in kept and name != eval_id):
            copies[base] += 1
            name = f"{base}-{copies[base] + 1}"
        taken.add(name)
        yield name


def may_be_eval(node_id: str) -> bool:
    """Whether an item may be a case of an eval file, by its suffix. Other plugins have YAML items as well."""
    return Path(node_id.partition("::")[0]).suffix in SUFFIXES


def is_evaluation(item: object) -> bool:
    """Whether an item is a case, or a test that evaluates."""
    return hasattr(item, "entry") or "agentv" in getattr(item, "fixturenames", ())


def uncollected_text(files: int) -> str:
    """Return how many files could not be collected."""
    return f"{counted(files, 'file')} could not be collected"


# What reports of items carry to the process that owns the terminal.

NOT_ASKED: Final = "not asked for: --agentv-run asks for it"
"""Why a case is skipped."""
EVALUATED: Final = "agentv_evaluated"
"""The attribute of a report whose item has a result."""
HEEDED: Final = "agentv_heeded"
"""The attribute of the last report of a test that passed with failed evaluations: whether it looked at all verdicts."""

HELD: Final = "agentv_held"
"""The attribute of a report: the hooks that have kept cases from running ahead of their turn."""


# How pytest was started.

_REPEATED_FLAGS = ("target", "targets-file", "threshold", "repeat", "min-pass-rate")
"""Flags that affect a case's outcome, and so belong to the command that runs it again."""


def start_of(config: pytest.Config) -> Start:
    """Return how pytest was started, as far as a case that is run again needs it."""
    given = ((name, config.getoption(f"agentv_{name.replace('-', '_')}")) for name in _REPEATED_FLAGS)
    flags = tuple(f"--agentv-{name}={value}" for name, value in given if value is not None)
    return Start(config.rootpath, config.invocation_params.dir, flags)
