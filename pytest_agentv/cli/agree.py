"""`agentv agree`: how far a judge agrees with people's labels."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.compare import read
from pytest_agentv.cli.eval import USAGE_ERROR, ArgumentParser, note, parse_delta, say
from pytest_agentv.model.base import counted
from pytest_agentv.reports.how_sure import Agreement, agree, read_labels
from pytest_agentv.stats.comparing import LEAST_LABELS, LEAST_OF_A_CLASS
from pytest_agentv.stats.intervals import Interval

_EPILOG: Final = """\
labels:
  A CSV file with the columns eval_id and label, or JSONL with these keys. A label is pass, fail or a number.
  A label is of one answer: eval_file and target distinguish cases with the same id, and an eval_id may be a node id.
  rater names the person if several people label.

exit codes:
  0 compared, 1 the kappa is below --min-kappa, 2 no label belongs to a judged case, or one to several."""


def run(arguments: Sequence[str]) -> int:
    """Print the agreement and return the exit code."""
    options = _create_parser().parse_args(arguments)
    agreement = agree(read_labels(options.labels, options.scale), read(options.results).cases)
    if agreement is None:
        note("agentv agree: no label belongs to a case that was judged")
        return USAGE_ERROR
    if not agreement.cases:
        note("agentv agree: people are split on all cases that were judged")
        return USAGE_ERROR
    if options.format == "json" or (options.format is None and not sys.stdout.isatty()):
        plain = agreement.to_plain()
        for name in ("true_positive_rate", "false_positive_rate"):
            rate = getattr(agreement.confusion, name)
            if rate is not None:
                plain[name] = {"rate": rate[0], "low": rate[1].low, "high": rate[1].high}
        json.dump(plain, sys.stdout, indent=2)
        say()
    else:
        say("\n".join(_lines(agreement)))
    if options.min_kappa is None:
        return 0
    if agreement.kappa is None:
        note("agentv agree: judge and labels are constant, so there is no kappa to hold against --min-kappa")
        return 1
    # Rounding may take something from a kappa: 3/5 is computed as 0.5999999999999999.
    return int(agreement.kappa < options.min_kappa - 1e-9)


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv agree", description="Measure how well a judge agrees with people's labels.", epilog=_EPILOG
    )
    parser.add_argument("labels", type=Path, help="Labels: CSV, JSONL or YAML.")
    parser.add_argument("results", type=Path, help="Results file of a run.")
    parser.add_argument(
        "--min-kappa",
        type=parse_delta,
        metavar="KAPPA",
        help="Exit with 1 below this kappa, 0 to 1 (default: not set).",
    )
    parser.add_argument(
        "--scale",
        type=_scale,
        default=(0.0, 1.0),
        metavar="LOW..HIGH",
        help="The lowest and the highest number that a label can be (default: 0..1).",
    )
    parser.add_argument(
        "-f", "--format", choices=("table", "json"), help="Output format (default: table on a terminal, else json)."
    )
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


def _lines(agreement: Agreement) -> Iterator[str]:
    table = agreement.confusion
    yield f"{counted(agreement.cases, 'case')} with a label and a verdict"
    yield ""
    yield f"{'':14}{'label pass':>12}{'label fail':>12}"
    yield f"{'judge pass':14}{table.both_pass:>12,}{table.only_judge:>12,}"
    yield f"{'judge fail':14}{table.only_label:>12,}{table.both_fail:>12,}"
    yield ""
    yield _rate_line("Of good answers the judge passes", table.true_positive_rate)
    yield _rate_line("Of bad answers the judge passes", table.false_positive_rate)
    yield f"Kappa: {_figure(agreement.kappa, 'none, judge and labels are constant')}"
    if agreement.linear_kappa is not None or agreement.quadratic_kappa is not None:
        linear, quadratic = _figure(agreement.linear_kappa), _figure(agreement.quadratic_kappa)
        yield f"Kappa of the scores: {linear} linear, {quadratic} quadratic"
    if agreement.raters > 1:
        yield f"Krippendorff's alpha of {agreement.raters} people: {_figure(agreement.alpha)}"
    if agreement.corrected is not None:
        rate, interval = agreement.corrected.rate, agreement.corrected.interval
        yield f"Pass rate corrected by the labels: {rate:.1%}, 95 % CI: {_range(interval)} (approximate)"
    else:
        least = f"{LEAST_LABELS} labels with {LEAST_OF_A_CLASS} of each kind, and cases without a label"
        yield f"Pass rate corrected by the labels: it takes at least {least}"
    if agreement.split:
        yield f"{counted(agreement.split, 'case')} on which people are split left out"
    if agreement.unmatched:
        yield f"{counted(agreement.unmatched, 'label')} of cases that were not judged left out"


def _rate_line(what: str, rate: tuple[float, Interval] | None) -> str:
    return f"{what}: none are labelled" if rate is None else f"{what}: {rate[0]:.1%}, 95 % CI: {_range(rate[1])}"


def _range(interval: Interval) -> str:
    return f"{interval.low * 100:.1f} to {interval.high * 100:.1f}"


def _figure(value: float | None, otherwise: str = "none") -> str:
    return otherwise if value is None else f"{value:.3f}"
