"""The options of a run: their table, which makes flags and ini keys, and the record of their values."""

import math
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pytest_agentv.model.base import Record


@dataclass(frozen=True, slots=True)
class RunOption:
    """One option of a run. `parse` raises `ValueError` with a message that names the valid values."""

    name: str
    """The flag without `--agentv-`."""
    metavar: str | None = None
    """The name of the value; None: the flag takes none."""
    parse: Callable[[str], object] = str
    default: object = None
    aliases: tuple[str, ...] = ()
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

    @property
    def ini_keys(self) -> tuple[str, ...]:
        """The keys of the ini file that set it; the first one is its name."""
        return tuple(f"agentv_{name.replace('-', '_')}" for name in (self.name, *self.aliases)) if self.ini else ()

    @property
    def is_flag(self) -> bool:
        return self.metavar is None

    @property
    def help(self) -> str:
        return _HELP[self.name]

    @property
    def is_hidden(self) -> bool:
        """Whether `pytest --help` leaves it out: it works, and the documentation has it."""
        return self.name in _HIDDEN

    def parse_flag(self, text: str) -> object:
        """Parse the value of a flag for `argparse`. Raises `ArgumentTypeError`."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None


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
DEFAULT_TARGET: Final = "default"
DEFAULT_BASELINE: Final = Path("agentv.baseline.jsonl")
"""In pytest's root directory."""
LOGS_FOLDER: Final = Path(".agentv/logs")

MAX_WORKERS: Final = 50
MAX_AWAY: Final = 3200
"""The most cases in flight with an executor."""
_CLUSTERS: Final = ("dask", "dask+tls", "tls")
"""The protocols of clusters."""
_DASK_PORT: Final = 8786
MAX_REPEAT: Final = 100
"""The most answers of a case that its verdict may stand on."""
Stop = Literal["certain", "never"]
"""When to stop asking a repeated case: when its verdict is certain, or after all answers."""
RunRule = Literal["always", "asked", "asked-if-paid"]
"""Which cases run if you do not ask for them."""
OutputFormat = Literal["jsonl", "yaml"]
"""The format of the results file."""
UnknownKeys = Literal["error", "warn"]
"""Level of unknown keys."""
UNKNOWN_KEYS: Final = get_args(UnknownKeys)
Gate = Literal["cases", "run", "strict", "off"]
"""What makes a run fail: its cases, or the verdict on the run as a whole."""
BaselineUpdate = Literal["write", "force"]
"""How a baseline is updated: written, or written even in CI."""


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


def _one_of(words: Any, what: str) -> Callable[[str], str]:
    """Return a function that parses one of the words of a `Literal`, in any case."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in get_args(words):
            raise ValueError(f"unknown {what} {text!r}: expected one of {', '.join(get_args(words))}")
        return word

    return parse


parse_output_format: Final = _one_of(OutputFormat, "output format")


def parse_executor(text: str) -> str:
    """Return `local`, or the address of a scheduler with its port."""
    word = text.strip().lower()
    if word == "local":
        return word
    protocol, _, place = word.partition("://")
    if protocol not in _CLUSTERS:
        raise ValueError(f"unknown executor {text!r}: expected local or dask://HOST:PORT")
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?/?", place)
    if found is None:
        raise ValueError(f"{text!r} names no scheduler: expected {protocol}://HOST:PORT, such as dask://localhost:8786")
    return f"{protocol}://{found[1]}:{int(found[2] or _DASK_PORT)}"


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


def parse_bool(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


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


parse_retries: Final = partial(parse_count, what="retries", least=0)
parse_threshold: Final = partial(_share, what="threshold")
parse_pass_rate: Final = partial(_share, what="pass rate")
parse_seconds: Final = partial(_at_least_zero, what="seconds (0 switches the timeout off)")
parse_milliseconds: Final = partial(_at_least_zero, what="milliseconds")

RUN_OPTIONS: Final = (
    RunOption("target", "NAME", joins=True, ini=True),
    RunOption("judge", "NAME", ini=True),
    RunOption("targets-file", "PATH", Path, aliases=("targets",), ini=True),
    RunOption("eval-id", "ID", aliases=("test-id",), repeatable=True),
    RunOption("run", "RULE", _one_of(RunRule, "rule"), default="always", optional_value="always", ini=True),
    RunOption("sample", "N", partial(parse_count, what="cases", least=1)),
    RunOption("shard", "INDEX/COUNT", parse_shard),
    RunOption("out", "PATH", Path),
    RunOption("output-format", "FORMAT", parse_output_format, default="jsonl", ini=True),
    RunOption("dry-run"),
    RunOption("dry-run-delay", "MS", parse_milliseconds, default=0.0),
    RunOption("dry-run-delay-min", "MS", parse_milliseconds, default=0.0),
    RunOption("dry-run-delay-max", "MS", parse_milliseconds, default=0.0),
    RunOption(
        "timeout", "SECONDS", parse_seconds, default=DEFAULT_TIMEOUT_SECONDS, aliases=("agent-timeout",), ini=True
    ),
    RunOption("max-retries", "N", parse_retries, default=DEFAULT_MAX_RETRIES, ini=True),
    RunOption("threshold", "SCORE", parse_threshold, ini=True),
    RunOption("repeat", "N", partial(parse_count, what="answers", least=1, most=MAX_REPEAT), ini=True),
    RunOption("min-pass-rate", "RATE", parse_pass_rate, ini=True),
    RunOption("stop", "WHEN", _one_of(Stop, "word"), ini=True),
    RunOption("dump-prompts", "DIR", Path, optional_value=Path(".agentv/prompts")),
    RunOption("dump-traces", "DIR", Path, optional_value=Path(".agentv/traces")),
    RunOption("workers", "N", parse_run_workers, ini=True),
    RunOption("executor", "WHERE", parse_executor, ini=True),
    RunOption("cache", ini=True),
    RunOption("resume", "FILE", Path, optional_value=DEFAULT_RESULTS_FOLDER),
    RunOption("rejudge", "FILE", Path, optional_value=DEFAULT_RESULTS_FOLDER),
    RunOption("retry-errors"),
    RunOption("baseline", "PATH", Path, optional_value=DEFAULT_BASELINE, ini=True),
    RunOption("update-baseline", "HOW", _one_of(BaselineUpdate, "way to update the baseline"), optional_value="write"),
    RunOption("gate", "GATE", _one_of(Gate, "gate"), default="cases", ini=True),
    RunOption("fail-under", "RATE", parse_pass_rate, aliases=("min-rate",), ini=True),
    RunOption("margin", "DROP", parse_pass_rate, default=DEFAULT_MARGIN, ini=True),
    RunOption(
        "confirm",
        "N",
        partial(parse_count, what="answers", least=0, most=MAX_REPEAT),
        default=DEFAULT_CONFIRM,
        ini=True,
    ),
    RunOption("html", "PATH", Path),
    RunOption("include-trace"),
    RunOption("include-answers"),
    RunOption("strict", ini=True),
    RunOption("unknown-keys", "LEVEL", _one_of(UnknownKeys, "level"), default="error", ini=True),
    RunOption("show-answers"),
    RunOption("verbose"),
)
"""In the order of the documentation. Precedence: command line > ini > file > default."""

_HIDDEN: Final = frozenset(
    (
        *("eval-id", "output-format", "dry-run-delay", "dry-run-delay-min", "dry-run-delay-max"),
        *("dump-prompts", "dump-traces", "include-trace", "include-answers", "verbose"),
        *("margin", "confirm", "unknown-keys"),
    )
)
"""Options that few people need. Other spellings of options are hidden as well."""

_HELP: Final = {
    "target": "Ask this target, or several: a,b. It overrides cases and files, unless it is `default`.",
    "judge": "Let this target judge, where no evaluator names another. It overrides cases, files and `judge_target`.",
    "targets-file": "Read the targets from this file or folder. Default: search from the eval file's folder upward.",
    "eval-id": "Run only the case with this id; may be repeated. Deselects everything else.",
    "run": (
        "Say which cases run without being asked for. always: all (also the bare flag); asked: none; asked-if-paid: "
        "those that call no model and no coding agent. To ask for cases, give this flag, or name their files or "
        "folders (default: always)."
    ),
    "sample": "Run only N of the selected cases. They are the same ones each time, as long as their names stay.",
    "shard": "Run one part of the evaluations: 2/8 is part 2 of 8. `agentv merge` joins the results.",
    "out": "Write the results to this file. Default: .agentv/results/eval_<time>.jsonl.",
    "output-format": "Write results as jsonl or yaml, unless the suffix of --agentv-out says it (default: jsonl).",
    "dry-run": "Replace targets and judges with mocks. No network, no agent, no credentials; scores mean nothing.",
    "dry-run-delay": "Delay each mocked answer by milliseconds (default: 0).",
    "dry-run-delay-min": "Set the shortest random delay of a mocked answer in milliseconds (default: 0).",
    "dry-run-delay-max": "Set the longest random delay of a mocked answer in milliseconds (default: 0).",
    "timeout": "Limit each call of a target or judge script. In seconds; 0 = no limit (default: 120).",
    "max-retries": "Retry a call that timed out N times. `max_retries` of a target counts HTTP retries (default: 2).",
    "threshold": "Set the lowest score that passes, 0 to 1. It overrides cases, files and the ini file (default: 1).",
    "repeat": "Ask for N answers per case, 1 to 100. It overrides cases, files and the ini file (default: 1).",
    "min-pass-rate": "Set the share of a case's answers that must pass. It overrides cases and files (default: 1).",
    "stop": (
        "Say when to stop asking a repeated case. certain: once no answer could change its verdict; or never (default: "
        "certain; with a baseline, never)."
    ),
    "dump-prompts": "Write each case's prompt to a JSON file in DIR (default: .agentv/prompts).",
    "dump-traces": "Write each attempt's trace to a JSON file in DIR (default: .agentv/traces).",
    "workers": (
        "Keep up to N cases in flight, 1 to 50. With an executor, up to 3200 (default: the target's `workers`, else 1: "
        "one after another)."
    ),
    "executor": (
        "Run cases on the workers of a Dask cluster. dask://HOST:PORT or dask+tls://HOST:PORT, or local (default: the "
        "hook `pytest_agentv_executor`, else local)."
    ),
    "cache": "Reuse the answers of earlier runs. They count while target, prompt and files are the same.",
    "resume": (
        "Keep the finished cases of an earlier run. The rest runs. FILE is its results file (default: the newest in "
        ".agentv/results). Without --agentv-out, results go to the same file."
    ),
    "rejudge": (
        "Judge earlier answers anew, and ask no target. FILE is the results file of their run (default: the newest in "
        ".agentv/results)."
    ),
    "retry-errors": "Run only what could not be judged last time. With --agentv-resume, also run the missing cases.",
    "baseline": (
        "Compare the run with the baseline PATH. Fail if cases broke or the run regressed (default: "
        "agentv.baseline.jsonl in the root directory)."
    ),
    "update-baseline": "Make this run the baseline. HOW is write (the default) or force (also where CI is set).",
    "gate": (
        "Say what makes the run fail. cases: each failing case, and a regression; run: required cases, errors and the "
        "verdict on the run; strict: as run, and a verdict that cannot tell; or off (default: cases)."
    ),
    "fail-under": "Set the pass rate that the whole run must reach. 0 to 1, with --agentv-gate=run or strict.",
    "margin": "Set the drop of the pass rate that --agentv-gate=strict must exclude, 0 to 1 (default: 0.05).",
    "confirm": "Ask N fresh answers for each case that looks broken against the baseline; 0 = none (default: 10).",
    "html": "Write an HTML report of the run to PATH. It is one file that opens offline.",
    "include-trace": "Include the full trace in each result.",
    "include-answers": "Include all answers of repeated cases in their results.",
    "strict": "Treat warnings about files as errors. Those are unknown keys in eval and targets files, and the like.",
    "unknown-keys": "Set the level of unknown keys that say what is asked or checked: error or warn (default: error).",
    "show-answers": "Show question and answer of passing cases, too. Their evaluators as well; `-rP` does the same.",
    "verbose": "Show targets, provider calls, attempts and timings.",
}
"""The texts of `pytest --help` and of the documentation."""


@dataclass(frozen=True, slots=True)
class RunOptions(Record):
    """The options of a run, merged from command line and ini file, with defaults filled in.

    A field has the name of its option. Paths are absolute. None: not given, so that cases, files or targets decide.
    """

    target: str | None = None
    several_targets: tuple[str, ...] = ()
    """`--agentv-target=a,b`: the targets that each run all cases; empty: one at most."""
    judge: str | None = None
    targets_file: Path | None = None
    """`--agentv-targets-file`: the targets file, or a folder that holds one, absolute."""
    eval_id: tuple[str, ...] = ()
    run: RunRule = "always"
    sample: int | None = None
    shard: Shard | None = None
    out: Path | None = None
    output_format: OutputFormat = "jsonl"
    dry_run: bool = False
    dry_run_delay: float = 0
    dry_run_delay_min: float = 0
    dry_run_delay_max: float = 0
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES
    workers: int | None = None
    executor: str | None = None
    threshold: float | None = None
    ini_threshold: float | None = None
    """`agentv_threshold` in the ini file, 0 to 1; cases and files override it."""
    repeat: int | None = None
    ini_repeat: int | None = None
    """`agentv_repeat` in the ini file; cases and files override it."""
    min_pass_rate: float | None = None
    ini_min_pass_rate: float | None = None
    """`agentv_min_pass_rate` in the ini file, 0 to 1; cases and files override it."""
    stop: Stop | None = None
    include_answers: bool = False
    cache: bool = False
    keep_answers: int = DEFAULT_KEEP_ANSWERS
    """`agentv_keep_answers` in the ini file: how many days answers are kept for later runs; 0: none are."""
    resume: Path | None = None
    rejudge: Path | None = None
    retry_errors: bool = False
    dump_prompts: Path | None = None
    dump_traces: Path | None = None
    html: Path | None = None
    include_trace: bool = False
    baseline: Path | None = None
    update_baseline: BaselineUpdate | None = None
    gate: Gate = "cases"
    fail_under: float | None = None
    margin: float = DEFAULT_MARGIN
    confirm: int = DEFAULT_CONFIRM
    gates: tuple[str, ...] = ()
    """`agentv_gates` in the ini file: gates by tag, as written."""
    strict: bool = False
    unknown_keys: UnknownKeys = "error"
    show_answers: bool = False
    verbose: bool = False
    exploration_tools: tuple[str, ...] = DEFAULT_EXPLORATION_TOOLS
    """Names of the tools that only look around, for `exploration_ratio`."""

    @property
    def retries_only(self) -> bool:
        """Return whether only the cases that could not be judged run; a resumed run has all its cases."""
        return self.retry_errors and self.resume is None

    @property
    def chosen_targets(self) -> tuple[str, ...]:
        """Return the targets of the command line; none for `default`, which leaves the choice to cases and files."""
        one = (self.target or "").strip()
        return self.several_targets or ((one,) if one not in ("", "default") else ())

    @property
    def judges_run(self) -> bool:
        """Whether there is a verdict on the run as a whole that may fail it, or a baseline to write."""
        has_baseline = self.baseline is not None or self.update_baseline is not None
        return has_baseline or self.gate in ("run", "strict") or self.fail_under is not None or bool(self.gates)
