"""What eval items raise, how they are named, and the texts of their outcomes."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import SUFFIXES
from pytest_agentv.errors import AgentvError, ErrorKind
from pytest_agentv.files.places import CASE_LIST_KEYS
from pytest_agentv.files.problems import Problem, did_you_mean
from pytest_agentv.model.base import Record, compact_json, counted
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import ContentPart, FilePart, ObjectPart, TextPart
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import TEXT_LIMIT, Start, error_text, failure_headline, failure_text
from pytest_agentv.reports.figures import duration_of, escaped_size, format_duration, format_score, shown, visible
from pytest_agentv.store.writers import json_safe

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


# Keeps the question and the expected outcome of a case for its failure text, after the case is freed.


@dataclass(frozen=True, slots=True)
class AskedTexts(Record):
    """The question and the expected outcome of a case, as its failure text shows them."""

    question: str = ""
    reference_answer: str = ""

    @staticmethod
    def of(case: EvalCase | None) -> "AskedTexts":
        if case is None:
            return NOTHING_ASKED
        messages = [message for message in case.messages if message.role == "user"]
        parts = messages[-1].parts if messages else ()
        return AskedTexts("\n".join(filter(None, map(_part_text, parts))), case.reference_answer)


NOTHING_ASKED: Final = AskedTexts()


def _part_text(part: ContentPart) -> str:
    match part:
        case TextPart():
            return part.value
        case FilePart():
            return f"[{part.path}]"
        case ObjectPart():
            return compact_json(json_safe(part.value))
    return ""


# The errors of failed and broken cases, with the command that runs a case again.

_LONGEST_HEADLINE = 300
_LEAD: Final = re.compile(
    r"^(?:\S+: (?=no target ')"
    r"|target '[^']*'(?: \(\S+:\d+\))?: "
    r"|target '[^']*' \(\S+:\d+\) needs (?:an )?environment variables? that (?:is|are) (?=not set: )"
    r"|no whole reply from [^:]*: "
    r"|model '[^']*' \(\w+\) replied (?=HTTP ))"
)
"""These words repeat what the line of a case shows anyway, so a short line leaves them out."""
_INI: Final = re.compile(r"\S+\.(?:ini|toml|cfg): ")
"""The beginning of a fault in a setting, which has no line number."""
_PLACED: Final = re.compile(rf"(\S+?):(\d+): (?:(?:{'|'.join(CASE_LIST_KEYS)})\[\d+\]\.)?(.+)")
_HINT: Final = re.compile(r"did you mean .+\?$|^is .+ a misspelling of it\?$")
"""What to write instead."""
_OWN_HINTS: Final = ("invalid YAML: ", "a key must be ")
"""How faults begin whose hints have words of their own."""
_WANTS_ALL = 2
_USUAL_NODE_ID = 200
_SHORTEST_TEXT = 1000

_TOLD_ERRORS: Final = pytest.StashKey[dict[tuple[object, ...], str | None]]()
"""By error, the node id of the case that shows it in full. Each worker has its own."""


def failed(config: pytest.Config, result: EvalResult, masker: Masker, asked: AskedTexts = NOTHING_ASKED) -> EvalFailed:
    account = failure_text(
        result,
        rerun_command=rerun_command(config, result.node_id),
        masker=masker,
        question=asked.question,
        reference_answer=asked.reference_answer,
        limit=_limit(config, result),
    )
    return EvalFailed(account, failure_headline(result, masker))


def errored(config: pytest.Config, result: EvalResult, masker: Masker, *, is_surely_shown: bool = False) -> EvalErrored:
    """Return the error of a case that could not be judged.

    Among cases that are `is_surely_shown`, only the first one shows an error in full, and the others refer to it.
    """
    rerun = rerun_command(config, result.node_id)
    detail, same_as = result.error_detail, None
    if is_surely_shown and detail is not None and detail.stage != "evaluator":  # without an answer to show
        first = config.stash.setdefault(_TOLD_ERRORS, {}).setdefault((result.error, detail), result.node_id)
        same_as = first if first != result.node_id else None
    account = error_text(result, rerun_command=rerun, masker=masker, limit=_limit(config, result), same_as=same_as)
    reason = shown(result.error or "unknown error", masker).strip().partition("\n")[0]
    return EvalErrored(account, short_reason(reason, result.eval_file)[:_LONGEST_HEADLINE])


def short_reason(reason: str, eval_file: str | None) -> str:
    """Put the most helpful part first. A line of 80 columns starts with the name of the eval file, and is soon full."""
    if _INI.match(reason):
        return reason
    reason = _LEAD.sub("", reason)
    placed = _PLACED.fullmatch(reason)
    path, line, rest = placed.groups() if placed else ("", "", reason)
    is_own, (wrong, _, instead) = path == eval_file, rest.removesuffix(")").rpartition(" (")
    if not (rest.endswith(")") and (_HINT.search(instead) or wrong.startswith(_OWN_HINTS))):
        return f"line {line}: {rest}" if placed and is_own else reason
    key, colon, fault = wrong.partition(": ")
    if colon and not re.search(r"[:\s]", key):
        instead, wrong = f"{key.rpartition('.')[2]}: {instead}", fault
    where = f"line {line}: " if is_own else f"{path.rpartition('/')[2]}:{line}: "
    return f"{where if placed else ''}{instead} ({wrong})"


def _limit(config: pytest.Config, result: EvalResult) -> int | None:
    """Return the length limit of texts; None with `-vv`.

    VS Code gets the node id twice with each text, and loses messages of more than 4,096 bytes under xdist.
    """
    if config.get_verbosity() >= _WANTS_ALL:
        return None
    excess = max(0, escaped_size(result.node_id or "") - _USUAL_NODE_ID)
    return max(_SHORTEST_TEXT, TEXT_LIMIT - 2 * excess)


def shows_answers(config: pytest.Config) -> bool:
    """Whether the answers of passing cases are shown: with `-rP`, `-vv` or `--agentv-show-answers`."""
    return "P" in config.getoption("reportchars", "") or shows_answers_at_once(config)


def shows_answers_at_once(config: pytest.Config) -> bool:
    """Whether they are shown when their cases end, and not only in pytest's section PASSES."""
    return config.get_verbosity() > 1 or bool(config.getoption("agentv_show_answers", default=False))


def verbose_text(result: EvalResult, log: str) -> str:
    """Return the details of a case that ran: target, attempts, time, scores and log, which is masked already."""
    scores = ", ".join(
        f"{_name(evaluator.name)} {format_score(evaluator.score)}" for evaluator in result.evaluator_results or ()
    )
    facts = [
        f"target {_name(result.target)}",
        counted(result.attempts or 0, "attempt"),
        format_duration(duration_of(result) or 0),
        f"score {format_score(result.score)}" + (f" ({scores})" if scores else ""),
    ]
    if result.repeat is not None:
        facts.insert(1, f"{result.repeat.passes} of {result.repeat.judged} answers pass")
    lines = [f"{_name(result.node_id or '')}: {result.status}; {', '.join(facts)}"]
    lines += visible(log).split("\n") if log else []
    return "\n  ".join(lines)


def show_answers(config: pytest.Config, report: pytest.TestReport, accounts: Sequence[str]) -> None:
    """Add the texts of cases that passed to their report: question, answer, evaluators."""
    if "P" in config.getoption("reportchars", ""):
        report.sections += [("Evaluation", account) for account in accounts]
    if shows_answers_at_once(config):
        before = [text] if (text := vars(report).get("agentv_verbose")) else []
        vars(report)["agentv_verbose"] = "\n\n".join(
            [*before, *(f"{report.nodeid}\n\n{each}" for each in accounts), ""]
        )


def _name(text: str) -> str:
    return " ".join(visible(text).split())


def rerun_command(config: pytest.Config, node_id: str | None) -> str | None:
    """Return the command that runs a case again in the same way, where pytest was started; None: there is none."""
    return None if node_id is None else start_of(config).command(node_id)
