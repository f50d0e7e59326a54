"""`agentv agree` says how far a judge agrees with people's labels; `agentv label` asks people for them."""

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cli.compare import read
from pytest_agentv.cli.eval import USAGE_ERROR, ArgumentParser, UsageError, note, parse_delta, print_as, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import counted
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import on_one_line, question_of, table, visible
from pytest_agentv.reports.how_sure import (
    LEAST_TO_CHOOSE,
    Agreement,
    Label,
    agree,
    changed_judge,
    evaluator_names,
    hash_of_answer,
    read_labels,
)
from pytest_agentv.reports.read import TEXTS
from pytest_agentv.stats.comparison import LEAST_LABELS, LEAST_OF_A_CLASS
from pytest_agentv.stats.intervals import Interval

_WIDEST: Final = 160
"""Characters of an answer or of a judge's reasons."""
_EPILOG: Final = """\
labels:
  A CSV file with the columns eval_id and label, or JSONL with these keys. A label is pass, fail or a number.
  A label is of one answer: eval_file and target distinguish cases with the same id, and an eval_id may be a node id.
  rater names the person if several people label.

exit codes:
  0 compared, 1 the kappa may be below --min-kappa, 2 no label belongs to a judged case, or one to several."""


_UNREAD: Final = TEXTS - {"candidate_answer", "evaluator_provider_request"}


def run(arguments: Sequence[str]) -> int:
    """Print the agreement of each results file and return the exit code."""
    options = _create_parser().parse_args(arguments)
    labels = read_labels(options.labels, options.scale)
    runs: dict[str, Agreement] = {}
    for path in options.results:
        agreement = _agreement(labels, path, options)
        of_file = f" of {locate(path, None)}" if len(options.results) > 1 else ""
        if agreement is None:
            note(f"agentv agree: no label belongs to a case{of_file} that was judged")
            return USAGE_ERROR
        if not agreement.cases:
            note(f"agentv agree: people are split on all cases{of_file} that were judged")
            return USAGE_ERROR
        runs[locate(path, None)] = agreement
    plain = [_plain(name, runs, verbose=options.verbose) for name in runs]
    data = plain[0] if len(plain) == 1 else {"runs": plain}
    print_as(options.format, lambda: data, lambda: map(visible, _lines(runs, verbose=options.verbose)))
    least = -math.inf if options.min_kappa is None else options.min_kappa
    below = [name for name, each in runs.items() if each.kappa_low < least - 1e-9]
    for name in below:
        note(f"agentv agree: {name}: kappa {_kappa(runs[name])}, whose low end is below --min-kappa={least:g}")
    return int(bool(below))


def _agreement(labels: Sequence[Label], path: Path, options: argparse.Namespace) -> Agreement | None:
    cases = read(path, _UNREAD).cases
    names = evaluator_names(cases)
    wanted = options.evaluator
    if wanted is not None and wanted not in names:
        hint = did_you_mean(wanted, names) or f"there are {', '.join(names) or 'none'}"
        raise FileError(path, f"has no evaluator {wanted!r}: {hint}")
    try:
        return agree(labels, cases, wanted, choose=options.choose_threshold)
    except ValueError as error:
        raise FileError(path, str(error)) from None


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv agree", description="Measure how well a judge agrees with people's labels.", epilog=_EPILOG
    )
    parser.add_path("labels", "Labels: CSV, JSONL or YAML.")
    parser.add_path("results", "Results file of a run; several are columns of the table.", nargs="+")
    parser.add("--evaluator", "Compare this evaluator (default: the verdict on the case).", metavar="NAME")
    parser.add_flag(
        "--choose-threshold",
        f"Choose the threshold on half of the labels, of at least {LEAST_TO_CHOOSE}, compare the others.",
    )
    parser.add(
        "--min-kappa",
        "Exit with 1 if the low end of kappa's interval is below this, 0 to 1 (default: not set).",
        type=parse_delta,
        metavar="KAPPA",
    )
    parser.add(
        "--scale",
        "The lowest and the highest number that a label can be (default: 0..1).",
        type=_scale,
        default=(0.0, 1.0),
        metavar="LOW..HIGH",
    )
    parser.add("-f", "--format", "Output format (default: table on a terminal, else json).", choices=("table", "json"))
    parser.add_flag("-v", "--verbose", "List the cases on which judge and labels differ.")
    return parser


def _scale(text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    try:
        values = float(low), float(high)
    except ValueError:
        values = math.nan, math.nan
    if not dots or not values[0] < values[1]:
        raise argparse.ArgumentTypeError(f"expected LOW..HIGH, as 1..5, got {text!r}")
    return values


def _plain(name: str, runs: Mapping[str, Agreement], *, verbose: bool) -> dict[str, Any]:
    agreement = runs[name]
    plain = {"results": name, **agreement.replace(judged=()).to_plain()}
    del plain["judged"]
    for rate in ("true_positive_rate", "false_positive_rate"):
        found = getattr(agreement.confusion, rate)
        if found is not None:
            plain[rate] = {"rate": found[0], "low": found[1].low, "high": found[1].high}
    if changed := changed_judge(next(iter(runs.values())), agreement):
        plain["judge_changed"] = list(changed)
    if verbose:
        names = ("case", "label", "passes", "score", "reasoning", "answer")
        differ = [each for each in agreement.judged if each.passes != each.label]
        plain["disagreements"] = [{name: getattr(each, name) for name in names} for each in differ]
    return plain


def _lines(runs: Mapping[str, Agreement], *, verbose: bool) -> Iterator[str]:
    (first, agreement), *others = runs.items()
    columns = [{"results": name} | dict(_figures(each)) for name, each in runs.items()]
    titles = list(dict.fromkeys(title for column in columns for title in column))
    yield from table([[title, *(column.get(title, "-") for column in columns)] for title in titles])
    for name, each in runs.items():
        yield from (f"{name}: {text}" for text in _left_out(each))
    for name, other in others:
        if changed := changed_judge(agreement, other):
            yield f"JUDGE CHANGED from {first} to {name}: {'; '.join(changed)}"
    if verbose:
        yield from _disagreements(runs)


def _figures(agreement: Agreement) -> Iterator[tuple[str, str]]:
    """Yield the figures of an agreement that are known, each with its title."""
    counts = agreement.confusion
    yield "labels", f"{agreement.cases:,}"
    if agreement.threshold is not None:
        yield "threshold, of the other half", f"{agreement.threshold:.3g}"
    yield "good passed", _rate(counts.both_pass, counts.only_label, counts.true_positive_rate)
    yield "bad passed", _rate(counts.only_judge, counts.both_fail, counts.false_positive_rate)
    yield "kappa, 95 % CI", _kappa(agreement)
    if agreement.linear_kappa is not None or agreement.quadratic_kappa is not None:
        yield "kappa of the scores, linear", _figure(agreement.linear_kappa)
        yield "kappa of the scores, quadratic", _figure(agreement.quadratic_kappa)
    if agreement.raters > 1:
        yield f"alpha of {agreement.raters} people (Krippendorff)", _figure(agreement.alpha)
    if agreement.corrected is not None:
        rate, interval = agreement.corrected.rate, agreement.corrected.interval
        yield "corrected pass rate", f"{rate:.1%} ({_range(interval)}, approximate)"
    else:
        yield (
            "corrected pass rate",
            f"takes {LEAST_LABELS} labels, {LEAST_OF_A_CLASS} of each kind",
        )
    if agreement.replies:
        yield "unreadable", f"{agreement.unreadable:,} of {agreement.replies:,}"


def _disagreements(runs: Mapping[str, Agreement]) -> Iterator[str]:
    judged = [{each.case: each for each in agreement.judged} for agreement in runs.values()]
    differ = dict.fromkeys(each.case for known in judged for each in known.values() if each.passes != each.label)
    for case in differ:
        found = {name: known[case] for name, known in zip(runs, judged, strict=True) if case in known}
        yield ""
        yield f"{case}: people say {'pass' if next(iter(found.values())).label else 'fail'}"
        width = max(map(len, found))
        for name, each in found.items():
            word = "pass" if each.passes else "fail"
            yield f"  {name:{width}}  {word} {each.score:.2f}  {on_one_line(each.reasoning, _WIDEST)}".rstrip()
        for answer in dict.fromkeys(each.answer for each in found.values() if each.answer):
            yield f"  answer: {on_one_line(answer, _WIDEST)}"


def _left_out(agreement: Agreement) -> Iterator[str]:
    if agreement.split:
        yield f"{counted(agreement.split, 'case')} on which people are split left out"
    if agreement.unmatched:
        yield f"{counted(agreement.unmatched, 'label')} of cases that were not judged left out"
    if agreement.other_answers:
        yield f"{counted(agreement.other_answers, 'label')} of other answers left out: --agentv-rejudge judges the same"


def _rate(passed: int, failed: int, rate: tuple[float, Interval] | None) -> str:
    of = f"{passed:,} of {passed + failed:,}"
    return "none are labelled" if rate is None else f"{of}, {rate[0]:.1%} ({_range(rate[1])})"


def _range(interval: Interval) -> str:
    return f"{interval.low * 100:.1f} to {interval.high * 100:.1f}"


def _kappa(agreement: Agreement) -> str:
    return f"{_figure(agreement.kappa)} ({agreement.kappa_low:.3f} to {agreement.kappa_high:.3f})"


def _figure(value: float | None) -> str:
    return "none, all are the same" if value is None else f"{value:.3f}"


# `agentv label`: asks a person which answers of a run are good, blind to what the judge said.

_WORDS: Final = {"p": "pass", "f": "fail", "s": "skip", "q": "quit"}
_KEYS: Final = ("eval_id", "eval_file", "target", "answer_hash", "rater")
_LABEL_EPILOG: Final = """\
A later call goes on: it keeps the labels of the file, and asks for the others. `agentv agree` reads the file.

exit codes:
  0 the labels are written, 2 there is nothing to label."""


def run_label(arguments: Sequence[str]) -> int:
    """Ask for labels and append each of them at once. Raises `FileError` or `UsageError`."""
    options = _label_parser().parse_args(arguments)
    out: Path = options.out
    if out.suffix != ".jsonl":
        raise UsageError(f"--out={out}: expected a name that ends in .jsonl")
    labels = list(_labels_of(read(options.results, ()).results, options.rater))
    if not labels:
        raise FileError(options.results, "holds no answers to label")
    known = read_labels(out, (0, 1)) if out.exists() and out.stat().st_size else ()
    labelled = {tuple(getattr(each, key) or None for key in _KEYS) for each in known}
    wanted = [each for each in labels if tuple(map(each[1].get, _KEYS)) not in labelled]
    done = len(labels) - len(wanted)
    random.shuffle(wanted)  # so that no part of the suite always gets a person who is tired
    out.parent.mkdir(parents=True, exist_ok=True)
    for number, (result, label) in enumerate(wanted, start=done + 1):
        say(visible("\n".join(_shown(result, f"{number} of {len(labels)}"))))
        word = _ask()
        if word == "quit":
            break
        if word != "skip":
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**label, "label": word}) + "\n")
            done += 1
    left = f"; {counted(left, 'answer')} without one: call it again" if (left := len(labels) - done) else ""
    note(f"{locate(out, None)}: {counted(done, 'label')}{left}")
    return 0


def _label_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv label",
        description="Show the answers of a run in random order, without scores, and ask for a label of each.",
        epilog=_LABEL_EPILOG,
    )
    parser.add_path("results", "Results file of a run.")
    parser.add_path("-o", "--out", "File of labels (JSONL).", required=True)
    parser.add("--rater", "Who labels, if several people do (default: not set).", metavar="NAME")
    return parser


def _labels_of(results: Sequence[EvalResult], rater: str | None) -> Iterator[tuple[EvalResult, dict[str, Any]]]:
    """Yield each answer with its label, but for what the person says. Where names are shared, the node id tells."""
    names = Counter((each.eval_id, each.eval_file, each.target) for each in results)
    for each in results:
        if each.error_detail is None or each.error_detail.stage == "evaluator":
            is_alone = names[each.eval_id, each.eval_file, each.target] == 1
            eval_id = each.eval_id if is_alone else each.node_id or each.eval_id
            values = (eval_id, each.eval_file, each.target, hash_of_answer(each), rater)
            yield each, {key: value for key, value in zip(_KEYS, values, strict=True) if value}


def _shown(result: EvalResult, title: str) -> Iterator[str]:
    yield f"\n--- {title}: {result.eval_id}"
    asked = {"Question": question_of(result), "Expected": result.expected_outcome, "Example": result.reference_answer}
    yield from (f"{name}: {text}" for name, text in asked.items() if text)
    yield f"Answer:\n{result.candidate_answer}\n"


def _ask() -> str:
    while True:
        try:
            given = input("[p]ass, [f]ail, [s]kip, [q]uit: ").strip().lower()
        except EOFError:
            return "quit"
        if given in _WORDS or given in _WORDS.values():
            return _WORDS.get(given, given)
