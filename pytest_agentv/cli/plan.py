"""`agentv plan`: how many cases and repeats it takes to see a drop."""

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.compare import read
from pytest_agentv.cli.eval import USAGE_ERROR, ArgumentParser, note, say
from pytest_agentv.errors import locate
from pytest_agentv.model.base import counted
from pytest_agentv.reports.how_sure import Plan, plan_of
from pytest_agentv.reports.judged_cases import JudgedCase
from pytest_agentv.reports.reading import read_baseline
from pytest_agentv.stats.comparing import NO_DROP, chance_of_red_case
from pytest_agentv.store.readers import holds_baseline

_REPEATS: Final = (1, 3, 5, 10)
_RELIABILITIES: Final = (0.9, 0.95, 0.99)
_RATES: Final = (1.0, 0.8)


def run(arguments: Sequence[str]) -> int:
    """Print the plan and return the exit code: 0, or 2 if the results hold nothing to learn from."""
    options = _create_parser().parse_args(arguments)
    cases = _cases(options.results)
    earlier = _cases(options.against) if options.against is not None else None
    plan = plan_of(cases, earlier, options.see / 100)
    if not plan.cases:
        note(f"agentv plan: no case of {locate(options.results, None)} was judged, so there is nothing to learn from")
        return USAGE_ERROR
    say("\n".join(_lines(plan, options.see)))
    return 0


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv plan",
        description="Say how many cases and repeats you need to see a drop of the pass rate in 4 of 5 runs.",
    )
    parser.add_argument("results", type=Path, help="Results file or baseline to learn from.")
    parser.add_argument(
        "--see",
        type=_points,
        default=5.0,
        metavar="POINTS",
        help="The drop to see, in points of the pass rate (default: 5).",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="Results file or baseline of another run of these cases: it tells how far single cases change.",
    )
    return parser


def _points(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 100 * NO_DROP < value <= 100:
        least = f"{100 * NO_DROP:g}" if 0 < value < 1 else "0"
        raise argparse.ArgumentTypeError(f"expected points, a number above {least} up to 100, got {text!r}")
    return value


def _cases(path: Path) -> Sequence[JudgedCase]:
    return read_baseline(path).cases if holds_baseline(path) else read(path).cases


def _lines(plan: Plan, points: float) -> Iterator[str]:
    yield f"{counted(plan.cases, 'case')}, {counted(plan.answers, 'answer')} each; to see a drop of {points:g} points"
    yield "in 4 of 5 runs, compare two runs of"
    yield ""
    yield f"  {'repeats':>8}  {'cases':>8}  {'answers per run':>16}"
    for repeats in _REPEATS:
        needed = plan.cases_for(repeats)
        mark = "   <- as many cases as there are" if needed <= plan.cases else ""
        yield f"  {repeats:>8}  {needed:>8,}  {needed * repeats:>16,}{mark}"
    yield ""
    yield from plan.remarks
    yield ""
    # A suite without a fault may be red: with many cases, chance alone fails one of them.
    yield f"Chance that at least one of {counted(plan.cases, 'case')} is red, each answer passing with"
    yield f"  {'repeats':>8}  {'min_pass_rate':>13}" + "".join(f"  {rate:>6.0%}" for rate in _RELIABILITIES)
    for repeats in _REPEATS:
        for rate in _RATES if repeats > 1 else _RATES[:1]:
            chances = (chance_of_red_case(each, repeats, rate, plan.cases) for each in _RELIABILITIES)
            yield f"  {repeats:>8}  {rate:>13g}" + "".join(f"  {chance:>6.1%}" for chance in chances)
