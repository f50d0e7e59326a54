"""The table of run options: the one source of the `--agentv-*` flags, the ini keys and the flags of `agentv eval`."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from pytest_agentv.model.base import Record


@dataclass(frozen=True, slots=True)
class RunOption:
    """One option of a run. `parse` raises `ValueError` with a message that names the valid values."""

    name: str
    """The flag without `--agentv-`."""
    help: str
    parse: Callable[[str], object] = str
    default: object = None
    aliases: tuple[str, ...] = ()
    metavar: str | None = None
    is_flag: bool = False
    repeatable: bool = False
    joins: bool = False
    """Whether the values of a repeated flag are joined by commas. For other options, the last value wins."""
    optional_value: object = None
    """The value of a flag given without one; None: the flag needs a value."""
    ini: bool = False
    """Whether `agentv_<name>` in the ini file sets it once for a project."""

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


DEFAULT_TIMEOUT_SECONDS: Final = 120.0
DEFAULT_MAX_RETRIES: Final = 2
DEFAULT_THRESHOLD: Final = 1.0
DEFAULT_MARGIN: Final = 0.05
DEFAULT_CONFIRM: Final = 10
DEFAULT_KEEP_ANSWERS: Final = 30
"""Days."""
DEFAULT_EVAL_GLOBS: Final = (
    *("*.eval.yaml", "*.eval.yml", "*.eval.jsonl"),
    *("EVAL.yaml", "EVAL.yml", "*.EVAL.yaml", "*.EVAL.yml"),  # AgentV's spelling
)
DEFAULT_EXPLORATION_TOOLS: Final = (
    *("read", "grep", "glob", "search", "list"),
    *("Read", "Grep", "Glob", "WebSearch", "WebFetch"),
)

DEFAULT_RESULTS_FOLDER: Final = Path(".agentv/results")
DEFAULT_BASELINE: Final = Path("agentv.baseline.jsonl")
"""In pytest's root directory."""
LOGS_FOLDER: Final = Path(".agentv/logs")

Word = TypeVar("Word", bound=str)

MAX_WORKERS: Final = 50
MAX_AWAY: Final = 3200
"""The most cases in flight with an executor."""
CLUSTERS: Final = ("dask", "dask+tls", "tls")
"""The protocols of clusters."""
DASK_PORT: Final = 8786
_EXPECTED: Final = "expected local or dask://HOST:PORT"
MAX_REPEAT: Final = 100
"""The most answers of a case that its verdict may stand on."""

Stop = Literal["certain", "never"]
"""When to stop asking a repeated case: when its verdict is certain, or after all answers."""
STOPS: Final[tuple[Stop, ...]] = ("certain", "never")

RunRule = Literal["always", "asked", "asked-if-paid"]
"""Which cases run if you do not ask for them."""
RUN_RULES: Final[tuple[RunRule, ...]] = ("always", "asked", "asked-if-paid")

OutputFormat = Literal["jsonl", "yaml"]
"""The format of the results file."""
OUTPUT_FORMATS: Final[tuple[OutputFormat, ...]] = ("jsonl", "yaml")

UnknownKeys = Literal["error", "warn"]
"""Level of unknown keys."""
UNKNOWN_KEYS: Final[tuple[UnknownKeys, ...]] = ("error", "warn")

Gate = Literal["cases", "run", "strict", "off"]
"""What makes a run fail: its cases, or the verdict on the run as a whole."""
GATES: Final[tuple[Gate, ...]] = ("cases", "run", "strict", "off")

BaselineUpdate = Literal["write", "force"]
"""How a baseline is updated: written, or written even in CI."""
BASELINE_UPDATES: Final[tuple[BaselineUpdate, ...]] = ("write", "force")


@dataclass(frozen=True, slots=True)
class Shard(Record):
    """One of several parts of a run, each for its own machine."""

    index: int
    """The number of the part, from 1 to `count`."""
    count: int
    """How many parts there are."""

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard:
    found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is not a shard: expected INDEX/COUNT, as 2/8")
    index, count = int(found[1]), int(found[2])
    if not 1 <= index <= count:
        raise ValueError(f"there is no shard {text.strip()}: expected 1/{count or 1} to {count or 1}/{count or 1}")
    return Shard(index, count)


def parse_output_format(text: str) -> OutputFormat:
    return _word(text, OUTPUT_FORMATS, f"unknown output format {text!r}")


def parse_unknown_keys(text: str) -> UnknownKeys:
    return _word(text, UNKNOWN_KEYS, f"invalid level {text!r} for unknown keys")


def parse_gate(text: str) -> Gate:
    return _word(text, GATES, f"unknown gate {text!r}")


def parse_baseline_update(text: str) -> BaselineUpdate:
    return _word(text, BASELINE_UPDATES, f"unknown way to update the baseline {text!r}")


def parse_stop(text: str) -> Stop:
    return _word(text, STOPS, f"unknown word {text!r}")


def parse_run_rule(text: str) -> RunRule:
    return _word(text, RUN_RULES, f"unknown rule {text!r}")


def parse_executor(text: str) -> str:
    if "://" in text:
        return _parse_cluster(text.strip())
    word = text.strip().lower()
    if word == "local":
        return word
    if word.partition(":")[0] == "processes":
        raise ValueError("processes:N is gone: `-n N` runs cases in N processes")
    raise ValueError(f"unknown executor {text!r}: {_EXPECTED}")


def is_cluster(executor: str | None) -> bool:
    """Whether an executor is a cluster, whose workers are other machines."""
    return executor is not None and "://" in executor


def is_encrypted(cluster: str) -> bool:
    """Whether the connection to a cluster is encrypted."""
    return not cluster.startswith("dask://")


def parse_run_workers(text: str) -> int:
    """Parse a number of cases in flight that some executor allows. `check_workers` checks it for the run's executor.

    Source: eval-cli-2026-01, "Worker limits and validation".
    """
    try:
        return parse_count(text, "workers", 1, MAX_AWAY)
    except ValueError:
        return check_workers(text, "local")


def check_workers(text: str, executor: str | None) -> int:
    """Return a number of cases in flight if an executor allows it. Raises `ValueError`."""
    most = MAX_WORKERS if executor in (None, "local") else MAX_AWAY
    return parse_count(text, "workers", 1, most, note=" (the minimum is 1)")


def _parse_cluster(text: str) -> str:
    """Return the address of a scheduler with its port."""
    word, _, place = text.partition("://")
    if word.lower() not in CLUSTERS:
        raise ValueError(f"unknown executor {text!r}: {_EXPECTED}")
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?/?", place)
    if found is None:
        raise ValueError(f"{text!r} names no scheduler: expected {word}://HOST:PORT, such as {word}://localhost:8786")
    return f"{word.lower()}://{found[1]}:{int(found[2] or DASK_PORT)}"


def parse_confirm(text: str) -> int:
    return parse_count(text, "answers", 0, MAX_REPEAT)


def parse_retries(text: str) -> int:
    return parse_count(text, "retries", 0)


def parse_sample(text: str) -> int:
    return parse_count(text, "cases", 1)


def parse_repeat(text: str) -> int:
    return parse_count(text, "answers", 1, MAX_REPEAT)


def parse_threshold(text: str) -> float:
    return _share(text, "threshold")


def parse_pass_rate(text: str) -> float:
    return _share(text, "pass rate")


def parse_seconds(text: str) -> float:
    return _at_least_zero(text, "seconds (0 switches the timeout off)")


def parse_milliseconds(text: str) -> float:
    return _at_least_zero(text, "milliseconds")


def parse_bool(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def _word(text: str, words: tuple[Word, ...], fault: str) -> Word:
    """Return the one of some words that a text matches, in any case."""
    for word in words:
        if text.strip().lower() == word:
            return word
    raise ValueError(f"{fault}: expected one of {', '.join(words)}")


def parse_count(text: str, what: str, least: int, most: int | None = None, *, note: str = "") -> int:
    """Return a number of things within limits. The note follows the limits in the message for a number beyond them."""
    expected = f"{least} or more" if most is None else f"{least} to {most}"
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of {what}: expected {expected}") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{count} {what} are out of range: expected {expected}{note}")
    return count


def _share(text: str, what: str) -> float:
    value = _number(text, "a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ValueError(f"{what} {text} is out of range: expected a number from 0 to 1")
    return value + 0.0  # without the minus of -0.0


def _at_least_zero(text: str, what: str) -> float:
    value = _number(text, f"0 or more {what}")
    if value < 0:
        raise ValueError(f"{text} is out of range: expected 0 or more {what}")
    return value


def _number(text: str, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number: expected {expected}") from None
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number: expected {expected}")
    return value


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
        "Make this run the baseline. HOW is write (the default) or force (write it even where CI is set).",
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

RUN_OPTIONS: Final = (
    RunOption(
        "target",
        "Name of the target to evaluate, or several with commas between them: each runs all cases. The name `default` "
        "alone overrides no case and no file (default: the case's, else the file's, else `default`).",
        metavar="NAME",
        joins=True,
        ini=True,
    ),
    RunOption(
        "targets",
        "Targets file, or a folder that holds one (default: search from the eval file's folder upward).",
        parse=Path,
        metavar="PATH",
        ini=True,
    ),
    RunOption(
        "eval-id",
        "Run only the case with this id; may be repeated. Deselects everything else.",
        aliases=("test-id",),
        metavar="ID",
        repeatable=True,
    ),
    RunOption(
        "run",
        "Which cases run if you do not ask for them: always (all; also the bare flag), asked (none), asked-if-paid "
        "(those that call no model and no coding agent). To ask for cases, give this flag, or name their files "
        "or folders (default: always).",
        parse=parse_run_rule,
        default="always",
        metavar="RULE",
        optional_value="always",
        ini=True,
    ),
    RunOption(
        "sample",
        "Run only N of the selected cases: the same ones each time, as long as their names stay.",
        parse=parse_sample,
        metavar="N",
    ),
    RunOption(
        "shard",
        "Run one part of the evaluations: 2/8 is part 2 of 8. Other tests run in each part. `agentv merge` joins the "
        "results.",
        parse=parse_shard,
        metavar="INDEX/COUNT",
    ),
    RunOption("out", "Results file (default: .agentv/results/eval_<time>.jsonl).", parse=Path, metavar="PATH"),
    RunOption(
        "output-format",
        "Format of the results file: jsonl or yaml (default: jsonl). "
        "A suffix .jsonl, .yaml or .yml of --agentv-out decides.",
        parse=parse_output_format,
        default="jsonl",
        metavar="FORMAT",
        ini=True,
    ),
    RunOption(
        "dry-run",
        "Replace targets and judge models with mocks: no network, no agent, no credentials. Scores mean nothing.",
        is_flag=True,
    ),
    RunOption(
        "dry-run-delay",
        "Delay of each mocked answer in milliseconds (default: 0).",
        parse=parse_milliseconds,
        default=0.0,
        metavar="MS",
    ),
    RunOption(
        "dry-run-delay-min",
        "Shortest random delay of a mocked answer in milliseconds (default: 0).",
        parse=parse_milliseconds,
        default=0.0,
        metavar="MS",
    ),
    RunOption(
        "dry-run-delay-max",
        "Longest random delay of a mocked answer in milliseconds (default: 0).",
        parse=parse_milliseconds,
        default=0.0,
        metavar="MS",
    ),
    RunOption(
        "timeout",
        "Time limit in seconds for each call of a target and each judge script; 0 = no limit (default: 120).",
        parse=parse_seconds,
        default=DEFAULT_TIMEOUT_SECONDS,
        aliases=("agent-timeout",),
        metavar="SECONDS",
        ini=True,
    ),
    RunOption(
        "max-retries",
        "How often to retry a call that timed out (default: 2).",
        parse=parse_retries,
        default=DEFAULT_MAX_RETRIES,
        metavar="N",
        ini=True,
    ),
    *CASE_VERDICT_OPTIONS,
    RunOption(
        "dump-prompts",
        "Write each case's prompt to a JSON file in DIR (default: .agentv/prompts).",
        parse=Path,
        metavar="DIR",
        optional_value=Path(".agentv/prompts"),
    ),
    RunOption(
        "dump-traces",
        "Write each attempt's trace to a JSON file in DIR (default: .agentv/traces).",
        parse=Path,
        metavar="DIR",
        optional_value=Path(".agentv/traces"),
    ),
    RunOption(
        "workers",
        "Most cases in flight at once in the whole run, 1 to 50; with an executor, up to 3200 "
        "(default: the target's `workers`, else 1: one after another).",
        parse=parse_run_workers,
        metavar="N",
        ini=True,
    ),
    RunOption(
        "executor",
        "Where cases run: local (in this process), or dask://HOST:PORT or dask+tls://HOST:PORT (on the workers of a "
        "Dask cluster). "
        "The hook `pytest_agentv_executor` may name another (default: that of the hook, else local).",
        parse=parse_executor,
        metavar="WHERE",
        ini=True,
    ),
    RunOption(
        "cache",
        "Reuse the answers of earlier runs while target, prompt and files are the same.",
        is_flag=True,
        ini=True,
    ),
    RunOption(
        "resume",
        "Keep the finished cases of an earlier run and run the rest. FILE is its results file "
        "(default: the newest in .agentv/results). Without --agentv-out, results go to the same file.",
        parse=Path,
        metavar="FILE",
        optional_value=DEFAULT_RESULTS_FOLDER,
    ),
    RunOption(
        "rejudge",
        "Judge the answers of an earlier run anew, and ask no target. FILE is its results file "
        "(default: the newest in .agentv/results).",
        parse=Path,
        metavar="FILE",
        optional_value=DEFAULT_RESULTS_FOLDER,
    ),
    RunOption(
        "retry-errors",
        "Run only the cases that could not be judged in the last run; "
        "with --agentv-resume, also run the missing cases.",
        is_flag=True,
    ),
    *RUN_VERDICT_OPTIONS,
    RunOption(
        "html",
        "Write an HTML report of the run to PATH: one file that opens offline.",
        parse=Path,
        metavar="PATH",
    ),
    RunOption("include-trace", "Include the full trace in each result.", is_flag=True),
    RunOption("include-answers", "Include all answers of repeated cases in their results.", is_flag=True),
    RunOption(
        "strict", "Treat warnings about eval and targets files (unknown keys, …) as errors.", is_flag=True, ini=True
    ),
    RunOption(
        "unknown-keys",
        "Level of unknown keys inside evaluators, rubrics and expected calls: error or warn (default: error).",
        parse=parse_unknown_keys,
        default="error",
        metavar="LEVEL",
        ini=True,
    ),
    RunOption("show-answers", "Show question, answer and evaluators of passing cases, too.", is_flag=True),
    RunOption("verbose", "Show targets, provider calls, attempts and timings.", is_flag=True),
)
"""In the order of the documentation. Precedence: command line > ini > file > default."""
