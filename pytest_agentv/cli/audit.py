"""`agentv audit`: finds the cases that a useless answer passes."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cli.compare import read
from pytest_agentv.cli.eval import (
    USAGE_ERROR,
    ArgumentParser,
    add_targets_file,
    find_eval_files,
    note,
    parse_delta,
    say,
)
from pytest_agentv.cli.validate import Checker, CheckSettings, ProjectKinds
from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseIdentity, CaseJob, Overrides, choose_target
from pytest_agentv.engine.judges import Needs, evaluators_of
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.engine.results import decide_status
from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message
from pytest_agentv.model.options import DEFAULT_RESULTS_FOLDER, RunOptions
from pytest_agentv.model.results import EvalResult, weighted_mean
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.table import KINDS
from pytest_agentv.providers.user_modules import call_row_maker
from pytest_agentv.reports.figures import on_one_line, visible
from pytest_agentv.store.answers import STORE_FILE, AnswerStore, Runs
from pytest_agentv.targets.definitions import find_repo_root

_REFUSAL: Final = "I'm sorry, but I can't help with that."
_OTHER: Final = "the answer of another case"
_RUN: Final = "audit"
_AT_ONCE: Final = 8
"""Answers that are judged at the same time."""

_EPILOG: Final = """\
No target is asked. Where models judge, only --judges tells, unless the other evaluators fail the answer already.

exit codes:
  0 no case passes such an answer, 1 some do, or could not be judged, 2 nothing could be audited."""


@dataclass(frozen=True, slots=True)
class _Probe(Record):
    """A useless answer of a case."""

    case: EvalCase
    what: str
    answer: str

    @property
    def place(self) -> str:
        return f"{locate(Path(self.case.path), self.case.line)}: {self.case.eval_id}"


def run(arguments: Sequence[str]) -> int:
    """Judge useless answers, list the cases that they pass, and return the exit code."""
    options = _create_parser().parse_args(arguments)
    masker, files, cwd = Masker.of_environment(), find_eval_files(options.paths), Path.cwd()
    kinds = ProjectKinds(files)
    evaluators, providers = "pytest_agentv_evaluators", "pytest_agentv_providers"
    checker = Checker(CheckSettings(cwd, own_evaluators=kinds.of(evaluators, EVALUATORS)))
    suites = [checker.load_cases(read_suite(path, call_row_maker)) for path in files]
    results = _results(options.results)
    probes = [probe for cases in suites for probe in _probes(cases, results)]
    settings = RunOptions(
        targets_file=options.targets_file and options.targets_file.absolute(), ini_threshold=options.threshold
    )
    pool = TargetPool(settings, Places(find_repo_root(cwd), cwd), masker, kinds.of(providers, KINDS.table))
    store = cwd / STORE_FILE
    pool.store = AnswerStore(Runs(store, _RUN, store, any_run=True), lambda reason: note(f"agentv audit: {reason}"))
    try:
        judged = asyncio.run(_judge_all(probes, pool, settings, judges=options.judges))
    finally:
        pool.store.close()
    passed: dict[str, list[str]] = {}
    faults = {str(each): None for each in (*checker.problems, *kinds.problems) if each.level == "error"}
    for probe, result in judged:
        if result is not None and result.status == "pass":
            shown = f" ({on_one_line(probe.answer, 60)!r})" if probe.answer else ""
            passed.setdefault(probe.place, []).append(f"{probe.what}{shown}")
        elif result is not None and result.status == "error":
            faults[f"{probe.place} could not be judged: {on_one_line(result.error or '', 200)}"] = None
    for place, answers in passed.items():
        say(visible(masker.mask(f"{place} passes {'; '.join(answers)}")))
    for fault in faults:
        note(masker.mask(fault))
    total = sum(map(len, suites))
    say(f"{counted(total, 'case')}, {counted(len(probes), 'answer')}: {counted(len(passed), 'case')} to look at")
    if untold := sum(result is None for _, result in judged):
        say(f"{counted(untold, 'answer')} not judged, only models can tell: --judges")
    if lacking := total - sum(probe.what == _OTHER for probe in probes):
        say(f"{_OTHER.capitalize()}: left out for {counted(lacking, 'case')}, none is known: --results, or references")
    return USAGE_ERROR if not total else int(bool(passed or faults))


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv audit",
        description="Judge an empty answer, a refusal, the question itself and the answer of another case by the\n"
        "evaluators of each case, and list the cases that such an answer passes.",
        epilog=_EPILOG,
    )
    parser.add("paths", "Eval files, folders that hold some, or globs.", nargs="+", metavar="PATH")
    parser.add_flag("--judges", "Ask the models that judge, too.")
    parser.add_path(
        "--results",
        "Results file with answers of other cases (default: the newest in .agentv/results, else the references).",
        metavar="FILE",
    )
    add_targets_file(parser, " (default: searched as in a run).")
    parser.add(
        "--threshold",
        "Score from which cases pass that name none, as agentv_threshold (default: that of a run).",
        type=parse_delta,
        metavar="SCORE",
    )
    return parser


def _results(path: Path | None) -> list[EvalResult]:
    """Return the answers of a results file: of this one, or of the newest in `.agentv/results`. Raises `FileError`."""
    found = sorted(DEFAULT_RESULTS_FOLDER.glob("eval_*.[jy]*"), key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for each in found if path is None else [path]:
        try:
            cases = read(each, ()).cases
        except AgentvError:  # a dry run has no answers of a target
            if path is not None:
                raise
        else:
            return [case.result for case in cases if case.result.status != "error"]
    return []


def _probes(cases: Sequence[EvalCase], results: Sequence[EvalResult]) -> Iterator[_Probe]:
    """Yield the useless answers of the cases of one file."""
    given = {
        result.eval_id: result.candidate_answer
        for result in results
        if cases and result.eval_file and Path(cases[0].path).match(result.eval_file)
    }
    known = [(case, given.get(case.eval_id, case.reference_answer).strip()) for case in cases]
    for index, (case, own) in enumerate(known):
        yield _Probe(case, "an empty answer", "")
        yield _Probe(case, "a refusal", _REFUSAL)
        if case.question.strip():
            yield _Probe(case, "its question", case.question)
        # Cases of a matrix ask the same, and the same answer may be right for two questions.
        others = (
            answer
            for other, answer in (*known[index + 1 :], *known[:index])
            if answer not in ("", own, case.reference_answer.strip()) and other.question != case.question
        )
        yield from (_Probe(case, _OTHER, answer) for answer in islice(others, 1))


async def _judge_all(
    probes: Sequence[_Probe], pool: TargetPool, options: RunOptions, *, judges: bool
) -> list[tuple[_Probe, EvalResult | None]]:
    """Return what the evaluators say of each answer; None: only models can tell."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def judge(probe: _Probe) -> tuple[_Probe, EvalResult | None]:
        async with places:
            return probe, await _judge(probe, pool, options, judges=judges)

    try:
        return await asyncio.gather(*map(judge, probes))
    finally:
        await pool.close()


async def _judge(probe: _Probe, pool: TargetPool, options: RunOptions, *, judges: bool) -> EvalResult | None:
    case, evaluators = probe.case, evaluators_of(probe.case)
    models = [each for each in evaluators if (needs := Needs.of((each,))).asked or needs.embeddings]
    others = tuple(each for each in evaluators if each not in models)
    if models and not judges:
        if not others:
            return None
        case = case.replace(evaluators=others)
    file = locate(Path(case.path), None)
    target, node_id = choose_target(options, case.target), f"{file}::{case.eval_id}"
    identity = CaseIdentity(case.eval_id, case.dataset, target, file, case.line, node_id, _RUN)
    response = ProviderResponse((Message("assistant", content=probe.answer),))
    result = await run_case(CaseJob(identity, case, options), pool, own=Overrides(answer=response))
    if judges or not models or result.status == "error":
        return result
    scores = [(each.score, each.weight or 0.0) for each in result.evaluator_results or ()]
    at_most = weighted_mean([*scores, *((1.0, each.weight) for each in models)])
    is_open = decide_status(at_most, result.threshold or 0.0, result.unmet_required) == "pass"
    return None if is_open else result.replace(status="fail")
