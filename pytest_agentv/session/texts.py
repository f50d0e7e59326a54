"""The texts of failed and broken cases and of evaluations in Python, with the command that runs a case again."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from pytest_agentv.files.places import CASE_LIST_KEYS
from pytest_agentv.model.base import Record, compact_json, counted
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import ContentPart, FilePart, ObjectPart, TextPart
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import TEXT_LIMIT, error_text, failure_headline, failure_text
from pytest_agentv.reports.figures import (
    duration_of,
    escaped_size,
    format_duration,
    format_score,
    is_own_property,
    result_properties,
    shown,
    visible,
)
from pytest_agentv.session.masks import is_masked, mask_account
from pytest_agentv.session.outcomes import EVALUATED, HEEDED, EvalErrored, EvalFailed, start_of
from pytest_agentv.store.writers import json_safe

# Keeps the question and the expected outcome of a case for its failure text, after the case is freed.


@dataclass(frozen=True, slots=True)
class AskedTexts(Record):
    """The question and the expected outcome of a case, as its failure text shows them."""

    question: str = ""
    """The text of the last message of the user."""
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


# Adds evaluations in Python to the reports of their tests.

_SECTION: Final = "Captured agentv call"


@dataclass(frozen=True, slots=True)
class Told:
    """A result and its failure text."""

    result: EvalResult
    account: str
    reads: Sequence[str]
    """What the test has read of the verdict."""


_TOLD: Final = pytest.StashKey[list[Told]]()
"""The evaluations of the current attempt of a test."""


_RUNS: Final = pytest.StashKey[bool]()


@contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """Tell reports within a test, as of its subtests, from that of the test."""
    item.stash[_RUNS] = True
    try:
        yield
    finally:
        item.stash[_RUNS] = False


def note_result(item: pytest.Item, result: EvalResult, account: str, reads: Sequence[str] = ()) -> None:
    item.stash[_TOLD].append(Told(result, account, reads))


def forget_properties(item: pytest.Item) -> None:
    """Remove our properties, so that a rerun does not add its own to them."""
    given = item.user_properties
    if given:
        given[:] = [each for each in given if not is_own_property(each)]


def forget_results(item: pytest.Item) -> None:
    """Forget earlier results, because the test may run again."""
    item.stash[_TOLD] = []
    forget_properties(item)


def complete_report(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, masker: Masker, *, verbose: bool
) -> None:
    told = item.stash.get(_TOLD, [])
    if is_masked(item):
        mask_account(report, masker)
    error = call.excinfo.value if call.excinfo is not None else None
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and isinstance(error, EvalErrored | EvalFailed) and crash is not None:
        crash.message = error.headline  # a fixture may evaluate as well
    # As attributes of the report, they reach the process that owns the terminal, also from a worker.
    added: dict[str, Any] = vars(report)
    tell_heed(item, report)
    if report.when != "call" or not told or item.stash.get(_RUNS, False):
        return  # a subtest has a report while its test runs; that of the test has the figures of all
    if not report.passed:
        item.stash[_TOLD] = []
    added[EVALUATED] = True
    if isinstance(error, EvalErrored):
        added["agentv_errored"] = True
    if verbose:
        added["agentv_verbose"] = "\n".join(verbose_text(each.result, "") for each in told)
    if report.failed:  # the account of the evaluation that failed the test is shown already
        bad = [each for each in told if each.result.status != "pass" and each.account != str(error)]
        texts = [f"{visible(each.result.eval_id)}\n\n{each.account}\n" for each in bad]
        report.sections += [(_SECTION, "\n".join(texts))] if texts else []
    if report.passed and shows_answers(item.config):
        show_answers(item.config, report, [each.account for each in told if each.result.status == "pass"])
    if len(told) == 1:  # several results would repeat the names of properties
        item.user_properties += result_properties(told[0].result)
        report.user_properties = list(item.user_properties)


def tell_heed(item: pytest.Item, report: pytest.TestReport) -> None:
    """Tell with the last report of an item whether it looked at the verdicts of its evaluations that failed."""
    failed = [each for each in item.stash.get(_TOLD, []) if each.result.status == "fail"]
    if report.when == "teardown" and failed:
        vars(report)[HEEDED] = all(each.reads for each in failed)
