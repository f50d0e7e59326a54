"""The errors of failed and broken cases, with the command that runs a case again."""

import re
from typing import Final

import pytest

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.escaping import escaped_size, shown, visible
from pytest_agentv.reporting.failing.render import error_text, failure_headline, failure_text
from pytest_agentv.reporting.failing.rerun import Start
from pytest_agentv.reporting.failing.sections import TEXT_LIMIT
from pytest_agentv.reporting.figures import format_duration, format_score
from pytest_agentv.session.outcomes import EvalErrored, EvalFailed
from pytest_agentv.session.showing.asked import NOTHING_ASKED, Asked

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
_PLACED: Final = re.compile(r"(\S+?):(\d+): (?:evalcases\[\d+\]\.)?(.+)")
_HINTED: Final = re.compile(
    r"(?:(?:[^:\s]+\.)?([^:.\s]+: ))?"
    r"(?:(.+) \((.*did you mean .+\?|is .+ a misspelling of it\?)\)|(invalid YAML: .+|a key must be .+) \((.+)\))"
)
"""A key, its fault, and what to write instead."""
_LONGEST_HINTED: Final = 1000
"""Characters of our own faults to search.

A target's error may be long, and the pattern's time is cubic in the length.
"""
_WANTS_ALL = 2
_USUAL_NODE_ID = 200
_SHORTEST_TEXT = 1000
_REPEATED_FLAGS = ("target", "targets", "threshold", "repeat", "min-pass-rate")
"""Flags that affect a case's outcome, and so belong to the command that runs it again."""


_TOLD_ERRORS: Final = pytest.StashKey[dict[tuple[object, ...], str | None]]()
"""By error, the node id of the case that shows it in full. Each worker has its own."""


def _told_by(config: pytest.Config, result: EvalResult) -> str | None:
    """Return the case that shows the same error; None: this is the first one, or it has an answer to show."""
    detail = result.error_detail
    if detail is None or detail.stage == "evaluator":
        return None
    known = config.stash.setdefault(_TOLD_ERRORS, {}).setdefault((result.error, detail), result.node_id)
    return known if known != result.node_id else None


def failed(config: pytest.Config, result: EvalResult, masker: Masker, asked: Asked = NOTHING_ASKED) -> EvalFailed:
    """Return the error of a case that failed, by its score or by a hook."""
    account = failure_text(
        result,
        threshold_source=result.threshold_source,
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
    same_as = _told_by(config, result) if is_surely_shown else None
    limit = _limit(config, result)
    account = error_text(result, rerun_command=rerun, masker=masker, limit=limit, same_as=same_as)
    reason = shown(result.error or "unknown error", masker).strip().partition("\n")[0]
    return EvalErrored(account, short_reason(reason, result.eval_file)[:_LONGEST_HEADLINE])


def short_reason(reason: str, eval_file: str | None) -> str:
    """Put the most helpful part first. A line of 80 columns starts with the name of the eval file, and is soon full."""
    if _INI.match(reason):
        return reason
    reason = _LEAD.sub("", reason)
    placed = _PLACED.fullmatch(reason)
    path, line, rest = placed.groups() if placed else ("", "", reason)
    is_own, hinted = path == eval_file, _HINTED.fullmatch(rest) if len(rest) <= _LONGEST_HINTED else None
    if hinted is None:
        return f"line {line}: {rest}" if placed and is_own else reason
    key, *parts = hinted.groups("")
    wrong, instead = filter(None, parts)
    where = f"line {line}: " if is_own else f"{path.rpartition('/')[2]}:{line}: "
    return f"{where if placed else ''}{key}{instead} ({wrong})"


def _limit(config: pytest.Config, result: EvalResult) -> int | None:
    """Return the length limit of texts; None with `-vv`.

    VS Code gets the node id twice with each text, and loses messages of more than 4,096 bytes under xdist.
    """
    if config.get_verbosity() >= _WANTS_ALL:
        return None
    excess = max(0, escaped_size(result.node_id or "") - _USUAL_NODE_ID)
    return max(_SHORTEST_TEXT, TEXT_LIMIT - 2 * excess)


def verbose_text(result: EvalResult, log: str) -> str:
    """Return the details of a case that ran: target, attempts, time, scores and log.

    The log's secrets are masked already.
    """
    scores = ", ".join(
        f"{_name(evaluator.name)} {format_score(evaluator.score)}" for evaluator in result.evaluator_results or ()
    )
    facts = [
        f"target {_name(result.target)}",
        counted(result.attempts or 0, "attempt"),
        format_duration(result.duration_ms or 0),
        f"score {format_score(result.score)}" + (f" ({scores})" if scores else ""),
    ]
    if result.repeat is not None:
        facts.insert(1, f"{result.repeat.passes} of {result.repeat.judged} answers pass")
    lines = [f"{_name(result.node_id or '')}: {result.status}; {', '.join(facts)}"]
    lines += visible(log).split("\n") if log else []
    return "\n  ".join(lines)


def _name(text: str) -> str:
    return " ".join(visible(text).split())


def rerun_command(config: pytest.Config, node_id: str | None) -> str | None:
    """Return the command that runs a case again in the same way, where pytest was started; None: there is none."""
    return None if node_id is None else start_of(config).command(node_id)


def start_of(config: pytest.Config) -> Start:
    """Return how pytest was started, as far as a case that is run again needs it."""
    given = ((name, config.getoption(f"agentv_{name.replace('-', '_')}")) for name in _REPEATED_FLAGS)
    flags = tuple(f"--agentv-{name}={value}" for name, value in given if value is not None)
    return Start(config.rootpath, config.invocation_params.dir, flags)
