"""The options that decide what passes: a case, and a run as a whole."""

from pathlib import Path
from typing import Final

from pytest_agentv.models.options.defaults import DEFAULT_BASELINE, DEFAULT_CONFIRM, DEFAULT_MARGIN
from pytest_agentv.models.options.option import RunOption
from pytest_agentv.models.options.values import (
    parse_baseline_update,
    parse_confirm,
    parse_gate,
    parse_pass_rate,
    parse_repeat,
    parse_stop,
    parse_threshold,
)

CASE_VERDICT_OPTIONS: Final = (
    RunOption(
        "threshold",
        "Lowest score that passes, 0 to 1; overrides the thresholds of cases, files and the ini file (default: 1).",
        parse=parse_threshold,
        metavar="SCORE",
        ini=True,
    ),
    RunOption(
        "repeat",
        "Answers per case, 1 to 100; overrides `repeat` of cases, files and the ini file (default: 1).",
        parse=parse_repeat,
        metavar="N",
        ini=True,
    ),
    RunOption(
        "min-pass-rate",
        "Share of a repeated case's answers that have to pass, 0 to 1; "
        "overrides `min_pass_rate` of cases, files and the ini file (default: 1).",
        parse=parse_pass_rate,
        metavar="RATE",
        ini=True,
    ),
    RunOption(
        "stop",
        "When to stop asking a repeated case: certain (once no answer could change its verdict) or never "
        "(default: certain; with a baseline, never).",
        parse=parse_stop,
        metavar="WHEN",
        ini=True,
    ),
)
"""When a case passes."""

RUN_VERDICT_OPTIONS: Final = (
    RunOption(
        "baseline",
        "Compare the run with the baseline PATH and fail if cases broke or the run regressed "
        "(default: agentv.baseline.jsonl in the root directory).",
        parse=Path,
        metavar="PATH",
        optional_value=DEFAULT_BASELINE,
        ini=True,
    ),
    RunOption(
        "update-baseline",
        "Make this run the baseline. HOW is write (the default), add (add its answers to those of the baseline) or "
        "force (write it even where CI is set).",
        parse=parse_baseline_update,
        metavar="HOW",
        optional_value="write",
    ),
    RunOption(
        "gate",
        "What makes the run fail: cases (each failing case, and a regression), run (required cases, errors and the "
        "verdict on the run), strict (as run, and a verdict that cannot tell) or off (default: cases).",
        parse=parse_gate,
        default="cases",
        metavar="GATE",
        ini=True,
    ),
    RunOption(
        "min-rate",
        "Pass rate that the whole run must reach with --agentv-gate=run or strict, 0 to 1.",
        parse=parse_pass_rate,
        metavar="RATE",
        ini=True,
    ),
    RunOption(
        "margin",
        "Drop of the pass rate that --agentv-gate=strict must exclude, 0 to 1 (default: 0.05).",
        parse=parse_pass_rate,
        default=DEFAULT_MARGIN,
        metavar="DROP",
        ini=True,
    ),
    RunOption(
        "confirm",
        "Fresh answers for each case that looks broken against the baseline; 0 = none (default: 10).",
        parse=parse_confirm,
        default=DEFAULT_CONFIRM,
        metavar="N",
        ini=True,
    ),
)
"""When a run as a whole is good enough."""
