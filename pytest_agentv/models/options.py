"""The table of run options: the one source of the `--agentv-*` flags, the ini keys and the `agentv eval` options."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.option_values import (
    BaselineUpdate,
    Gate,
    OutputFormat,
    RunRule,
    Shard,
    Ship,
    Stop,
    UnknownKeys,
    parse_baseline_update,
    parse_confirm,
    parse_executor,
    parse_gate,
    parse_lost_retries,
    parse_milliseconds,
    parse_output_format,
    parse_pass_rate,
    parse_repeat,
    parse_retries,
    parse_run_rule,
    parse_run_workers,
    parse_sample,
    parse_seconds,
    parse_shard,
    parse_ship,
    parse_stop,
    parse_threshold,
    parse_unknown_keys,
)
from pytest_agentv.models.records import record

DEFAULT_TIMEOUT_SECONDS: Final = 120.0
DEFAULT_MAX_RETRIES: Final = 2
DEFAULT_THRESHOLD: Final = 1.0
DEFAULT_MARGIN: Final = 0.05
DEFAULT_CONFIRM: Final = 10
DEFAULT_SHIP_LIMIT: Final = 50.0
DEFAULT_EVAL_GLOBS: Final = ("*.eval.yaml", "*.eval.yml", "*.eval.jsonl")
DEFAULT_EXPLORATION_TOOLS: Final = (
    *("read", "grep", "glob", "search", "list"),
    *("Read", "Grep", "Glob", "WebSearch", "WebFetch"),
)

DEFAULT_RESULTS_FOLDER: Final = Path(".agentv/results")
DEFAULT_BASELINE: Final = Path("agentv.baseline.jsonl")
"""In pytest's root directory."""
CACHE_FOLDER: Final = Path(".agentv/cache")
LOGS_FOLDER: Final = Path(".agentv/logs")


@record
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
    """Whether the values of one that is given twice are joined by commas. For other options, the last value wins."""
    optional_value: object = None
    """The value of a flag given without one; None: the flag needs a value."""
    ini: bool = False
    """Whether `agentv_<name>` in the ini file sets it once for a project."""

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


@record
class RunOptions(Record):
    """The options of a run, merged from command line and ini file, with defaults filled in."""

    target: str | None = None
    """`--agentv-target`: the target to evaluate; None: the case's, else the file's, else `default`; or several are."""
    several_targets: tuple[str, ...] = ()
    """`--agentv-target=a,b`: the targets of which each runs all cases; empty: there is one at most."""
    targets: Path | None = None
    """`--agentv-targets`: the targets file, or a folder that holds one, absolute."""
    eval_id: tuple[str, ...] = ()
    """`--agentv-eval-id`: the ids of the cases to run; empty: all."""
    run: RunRule = "always"
    """`--agentv-run`: which cases run without being asked for."""
    sample: int | None = None
    """`--agentv-sample`: how many of the selected cases run; None: all."""
    shard: Shard | None = None
    """`--agentv-shard`: the part of the evaluations that this machine runs; None: all."""
    out: Path | None = None
    """`--agentv-out`: the results file, absolute; None: a new one in `.agentv/results`."""
    output_format: OutputFormat = "jsonl"
    """`--agentv-output-format`: the format of the results file."""
    dry_run: bool = False
    """`--agentv-dry-run`: mocks replace targets and judges."""
    dry_run_delay: float = 0
    """`--agentv-dry-run-delay`: how long a mocked answer takes, in milliseconds."""
    dry_run_delay_min: float = 0
    """The least of a random delay, in milliseconds."""
    dry_run_delay_max: float = 0
    """The most of a random delay, in milliseconds."""
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    """`--agentv-timeout`: the longest call of a target or judge script, in seconds; 0: no limit."""
    max_retries: int = DEFAULT_MAX_RETRIES
    """`--agentv-max-retries`: how often a call that timed out is repeated."""
    workers: int | None = None
    """`--agentv-workers`: cases in flight, 1 to 50 for each process; None: as each target says, else one for each."""
    executor: str | None = None
    """`--agentv-executor`: `local`, `processes:N`, or the address of a scheduler; None: that of a hook, else local."""
    lost_retries: int = 0
    """`--agentv-lost-retries`: how often a case is asked again whose worker was lost."""
    ship: Ship | None = None
    """`--agentv-ship`: how workers get the files of the cases; None: as the executor needs it."""
    pass_env: tuple[str, ...] = ()
    """`--agentv-pass-env`: names of variables that workers get from the run."""
    ship_ignore: tuple[str, ...] = ()
    """`agentv_ship_ignore` in the ini file: globs of files that are not shipped."""
    ship_limit: float = DEFAULT_SHIP_LIMIT
    """`agentv_ship_limit` in the ini file: megabytes that the files of a folder may have."""
    threshold: float | None = None
    """`--agentv-threshold` on the command line, 0 to 1; it overrides those of cases and files."""
    ini_threshold: float | None = None
    """`agentv_threshold` in the ini file, 0 to 1; cases and files override it."""
    repeat: int | None = None
    """`--agentv-repeat` on the command line: answers per case, 1 to 100; it overrides those of cases and files."""
    ini_repeat: int | None = None
    """`agentv_repeat` in the ini file; cases and files override it."""
    min_pass_rate: float | None = None
    """`--agentv-min-pass-rate` on the command line, 0 to 1; it overrides those of cases and files."""
    ini_min_pass_rate: float | None = None
    """`agentv_min_pass_rate` in the ini file, 0 to 1; cases and files override it."""
    stop: Stop | None = None
    """`--agentv-stop`: whether to stop asking a case when its verdict is certain; None: it depends on the run."""
    include_answers: bool = False
    """`--agentv-include-answers`: results of repeated cases hold all answers."""
    cache: bool = False
    """`--agentv-cache`: answers of earlier runs are used again."""
    resume: Path | None = None
    """`--agentv-resume`: the results file to go on with, absolute."""
    retry_errors: bool = False
    """`--agentv-retry-errors`: cases that could not be judged are run again."""
    dump_prompts: Path | None = None
    """`--agentv-dump-prompts`: the folder for prompts, absolute."""
    dump_traces: Path | None = None
    """`--agentv-dump-traces`: the folder for traces, absolute."""
    html: Path | None = None
    """`--agentv-html`: the HTML report, absolute; None: none is written."""
    include_trace: bool = False
    """`--agentv-include-trace`: results hold the whole trace."""
    baseline: Path | None = None
    """`--agentv-baseline`: the baseline that the run is compared with, absolute; None: none."""
    update_baseline: BaselineUpdate | None = None
    """`--agentv-update-baseline`: how the run becomes the baseline; None: it does not."""
    gate: Gate = "cases"
    """`--agentv-gate`: what makes the run fail."""
    min_rate: float | None = None
    """`--agentv-min-rate`: the pass rate that the run must reach, 0 to 1."""
    margin: float = DEFAULT_MARGIN
    """`--agentv-margin`: the drop of the pass rate that "not worse" excludes, 0 to 1."""
    confirm: int = DEFAULT_CONFIRM
    """`--agentv-confirm`: fresh answers for a case that looks broken; 0: none."""
    gates: tuple[str, ...] = ()
    """`agentv_gates` in the ini file: gates by tag, as written."""
    strict: bool = False
    """`--agentv-strict`: warnings about eval and targets files are errors."""
    unknown_keys: UnknownKeys = "error"
    """`--agentv-unknown-keys`: level of unknown keys inside evaluators, rubrics and expected calls."""
    verbose: bool = False
    """`--agentv-verbose`: show targets, provider calls, attempts and timings."""
    exploration_tools: tuple[str, ...] = DEFAULT_EXPLORATION_TOOLS
    """Names of the tools that only look around, for `exploration_ratio`."""

    @property
    def chosen_targets(self) -> tuple[str, ...]:
        """Return the targets of the command line; none for `default`, which leaves the choice to cases and files."""
        one = (self.target or "").strip()
        return self.several_targets or ((one,) if one not in ("", "default") else ())

    @property
    def judges_run(self) -> bool:
        """Whether there is a verdict on the run as a whole that may fail it, or a baseline to write."""
        has_baseline = self.baseline is not None or self.update_baseline is not None
        return has_baseline or self.gate in ("run", "strict") or self.min_rate is not None or bool(self.gates)


RUN_OPTIONS: Final = (
    RunOption(
        "target",
        "Name of the target to evaluate, or several with commas between them: each runs all cases "
        "(default: the case's, else the file's, else `default`).",
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
        "Which cases run without being asked for: always (all of them; the meaning of the bare flag), asked (none), "
        "asked-if-paid (those that call no model and no coding agent). To ask for cases, give this flag, or name "
        "their files or folders (default: always).",
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
        "Run one of several parts of the evaluations, as 2/8: part 2 of 8. Other tests run in each part. "
        "`agentv merge` puts the results together.",
        parse=parse_shard,
        metavar="INDEX/COUNT",
    ),
    RunOption("out", "Results file (default: .agentv/results/eval_<time>.jsonl).", parse=Path, metavar="PATH"),
    RunOption(
        "output-format",
        "Format of the results file: jsonl or yaml (default: jsonl).",
        parse=parse_output_format,
        default="jsonl",
        metavar="FORMAT",
        ini=True,
    ),
    RunOption(
        "dry-run",
        "Replace targets and judge models by mocks: no network, no agent, no credentials. Scores mean nothing.",
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
        "Most cases in flight at once in the whole run, 1 to 50; with an executor, 50 for each of its processes "
        "(default: the target's `workers`, else 1: one after another).",
        parse=parse_run_workers,
        metavar="N",
        ini=True,
    ),
    RunOption(
        "executor",
        "Where cases run: local (in this process), processes:N (in N worker processes), or dask://HOST:PORT or "
        "dask+tls://HOST:PORT (on the workers of a Dask cluster). "
        "The hook `pytest_agentv_executor` may name another (default: that of the hook, else local).",
        parse=parse_executor,
        metavar="WHERE",
        ini=True,
    ),
    RunOption(
        "lost-retries",
        "How often to ask a case again whose worker was lost: each time may be paid for (default: 0).",
        parse=parse_lost_retries,
        default=0,
        metavar="N",
        ini=True,
    ),
    RunOption(
        "ship",
        "How workers get the files of the cases: bundle (each worker is sent those that it lacks) or none (workers see "
        "the project's folder, or work in a copy of it) (default: none).",
        parse=parse_ship,
        metavar="HOW",
        ini=True,
    ),
    RunOption(
        "pass-env",
        "Give workers this variable of the run; may be repeated. Only for workers on this machine or over an encrypted "
        "connection (default: each worker has its own).",
        metavar="NAME",
        repeatable=True,
    ),
    RunOption(
        "cache",
        "Keep answers in .agentv/cache and reuse them while target, prompt and files are the same.",
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
        "retry-errors",
        "Run only the cases that could not be judged in the last run; "
        "with --agentv-resume, also run the missing cases.",
        is_flag=True,
    ),
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
    RunOption("verbose", "Show targets, provider calls, attempts and timings.", is_flag=True),
)
"""In the order of the documentation. Precedence: command line > ini > file > default."""
