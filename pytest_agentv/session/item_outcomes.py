"""pytest's outcomes of the items with evaluations, and their properties."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from pytest_agentv.model.base import Record, compact_json, counted
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import ContentPart, FilePart, ObjectPart, TextPart
from pytest_agentv.model.options import DEFAULT_TARGET, RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.failure import Start
from pytest_agentv.reports.figures import is_own_property
from pytest_agentv.session.outcomes import retold
from pytest_agentv.store.writers import json_safe

# pytest's outcomes of the items with evaluations.

EVALUATED: Final = "agentv_evaluated"
"""The attribute of a report whose item has a result."""
HEEDED: Final = "agentv_heeded"
"""The attribute of the last report of a test that passed with failed evaluations: whether it looked at all verdicts."""

HELD: Final = "agentv_held"
"""The attribute of a report: the hooks that kept cases from running ahead of their turn, if it is the first to tell."""

_STRICT: Final = "[XPASS(strict)]"
_NAMED: Final = 3
"""How many cases without a line are named."""


class ItemOutcomes:
    """pytest's outcomes of the items. They may differ from the scores, for example because of marks."""

    def __init__(self) -> None:
        self.expected_failures: set[str] = set()
        """Items whose low scores do not fail them: a mark excuses them, or their test has decided so."""
        self.unexpected_passes: set[str] = set()
        """Node ids of items with a strict `xfail` mark that passed."""
        self.reported: dict[str, str] = {}
        """The node ids of the items, mapped to themselves, so that results read later can share these strings."""
        self.uncollected: dict[str, None] = {}
        """The files that could not be collected. The outcomes of their cases are unknown."""
        self.evaluated: dict[str, None] = {}
        """Items that have a result."""
        self._decided: set[str] = set()
        """Tests that passed after they had looked at the verdict of each evaluation that failed."""
        self.ignored: dict[str, None] = {}
        """Tests that passed because they did not look at the verdict of an evaluation that failed."""
        self.failed: dict[str, None] = {}
        """Items that failed, and that pytest explains in full."""
        self.held: dict[str, None] = {}
        """The hooks that kept cases from running ahead of their turn."""

    def join(self, config: pytest.Config, terminal: Any) -> None:
        """Observe all further collection. The terminal knows the errors before the first eval file."""
        earlier = terminal.stats.get("error", ()) if terminal is not None else ()
        for report in earlier:
            if isinstance(report, pytest.CollectReport):
                self.pytest_collectreport(report)
        config.pluginmanager.register(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        headline = getattr(report, "agentv_headline", None)
        if headline is not None and isinstance(report.longrepr, str):  # all that a worker sends
            report.longrepr = retold(report.longrepr, headline, (report.nodeid, 1))
        if report.failed:
            self.uncollected[report.nodeid] = None

    def note(self, report: Any) -> None:
        node_id = str(json_safe(report.nodeid))  # as in the record: a folder's name may be no UTF-8
        self.reported.setdefault(node_id, node_id)
        self.held.update(dict.fromkeys(getattr(report, HELD, ())))
        if getattr(report, EVALUATED, False):
            self.evaluated[node_id] = None
        if report.passed:
            is_heeded = getattr(report, HEEDED, None)
            if is_heeded is None or node_id in self.failed:
                return
            if is_heeded:
                self._decided.add(node_id)
                self.expected_failures.add(node_id)
            else:
                self.ignored[node_id] = None
            return
        if report.failed and str(report.longrepr or "").startswith(_STRICT):
            self.unexpected_passes.add(node_id)
        if report.failed:
            self.failed[node_id] = None
        elif report.skipped and hasattr(report, "wasxfail"):
            self.expected_failures.add(node_id)

    def remarks(self, results: Sequence[EvalResult], run_id: str, options: RunOptions) -> Iterator[str]:
        """Yield texts on what the results do not show: tests, hooks and options that make more or less of them."""
        if text := _not_overridden(options, (result for result in results if result.run_id == run_id)):
            yield text
        if self.ignored:
            how = "write `assert agentv.run(…)`, or call `.assert_passed()`"
            yield f"{ignored_text(len(self.ignored))}: {', '.join(self.ignored)} ({how})"
        yield from map(held_text, self.held)

    def unrecorded(self, recorded: Collection[str], where: str) -> str | None:
        """Return a text if results of cases that ran are not in the file `where`; None: all are there."""
        missing = [node_id for node_id in self.evaluated if node_id not in recorded]
        if not missing:
            return None
        found = len(self.evaluated) - len(missing)
        text = f"{counted(len(self.evaluated), 'case')} ran, {counted(found, 'line')} in {where}"
        if not found:
            return text
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        return f"{text}; none of {', '.join(missing[:_NAMED])}{more}"

    def hidden_errors(self, results: Sequence[EvalResult], exit_code: int) -> Iterator[str]:
        """Yield texts on cases that could not be judged, if pytest shows no error because of a mark or a test.

        If the run would be green, the errors of an earlier run that its file goes on with count as well.
        """
        broken = dict.fromkeys(each.node_id for each in results if each.status == "error")
        hidden = [node_id for node_id in broken if node_id in self.reported and node_id not in self.failed]
        excused = self.expected_failures - self._decided
        marked = [node_id for node_id in hidden if node_id in excused]
        others = [node_id for node_id in hidden if node_id not in excused]
        is_green = exit_code == pytest.ExitCode.OK
        left = [node_id for node_id in broken if is_green and node_id not in self.reported]
        for node_ids, why in (
            (marked, "which its mark `xfail` does not excuse"),
            (others, "but its test went on"),
            (left, "and this run did not ask it again"),
        ):
            if node_ids:
                yield f"a case could not be judged, {why}, so the run fails: {', '.join(map(str, node_ids))}"

    def failed_with_good_scores(self, results: Sequence[EvalResult]) -> tuple[str, ...]:
        """Return the node ids of items that failed although all their results passed, in order."""
        known = {result.node_id for result in results}
        not_passed = {result.node_id for result in results if result.status != "pass"}
        return tuple(node_id for node_id in self.failed if node_id in known and node_id not in not_passed)


def _not_overridden(options: RunOptions, results: Iterable[EvalResult]) -> str | None:
    """Return a text if a run that names `default` has results of eval files with other targets; None if it has not."""
    if options.target is None or options.target.strip() != DEFAULT_TARGET:
        return None
    # Of tests in Python, only a fixture chooses the target. It overrides every option.
    others = {each.node_id: each.target for each in results if not (each.eval_file or "").endswith(".py")}
    others = {node_id: target for node_id, target in others.items() if target != DEFAULT_TARGET}
    if not others:
        return None
    targets = ", ".join(sorted(set(others.values())))
    ran = counted(len(others), "case")
    return f"--agentv-target=default leaves the choice to cases and files: {ran} ran with other targets ({targets})"


def ignored_text(tests: int) -> str:
    return f"{counted(tests, 'test')} passed although an evaluation failed, because nothing looks at its verdict"


def held_text(holder: str) -> str:
    how = "use pytest_collection_modifyitems, marks or session-scoped fixtures instead"
    return f"cases ran one after another, because {holder}, which may skip them or change what they see: {how}"


def lost_text(lost: Sequence[str]) -> str:
    cases = counted(len(lost), "case was", "cases were")
    return f"{cases} not run, because a worker crashed"


# Gives items the figures of their cases as properties. JUnit files have them, and `user_properties` for others.


def forget_properties(item: pytest.Item) -> None:
    """Remove our properties, so that a rerun does not add its own to them."""
    given = item.user_properties
    if given:
        given[:] = [each for each in given if not is_own_property(each)]


def shows_answers(config: pytest.Config) -> bool:
    """Whether the answers of passing cases are shown: with `-rP`, `-vv` or `--agentv-show-answers`."""
    return "P" in config.getoption("reportchars", "") or shows_answers_at_once(config)


def shows_answers_at_once(config: pytest.Config) -> bool:
    """Whether they are shown when their cases end, and not only in pytest's section PASSES."""
    return config.get_verbosity() > 1 or bool(config.getoption("agentv_show_answers", default=False))


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


# How pytest was started.

_REPEATED_FLAGS = ("target", "targets-file", "threshold", "repeat", "min-pass-rate")
"""Flags that affect a case's outcome, and so belong to the command that runs it again."""


def start_of(config: pytest.Config) -> Start:
    """Return how pytest was started, as far as a case that is run again needs it."""
    given = ((name, config.getoption(f"agentv_{name.replace('-', '_')}")) for name in _REPEATED_FLAGS)
    flags = tuple(f"--agentv-{name}={value}" for name, value in given if value is not None)
    return Start(config.rootpath, config.invocation_params.dir, flags)
