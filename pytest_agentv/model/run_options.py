"""The options of a run, for its parts."""

from dataclasses import dataclass
from pathlib import Path

from pytest_agentv.model.base import Record
from pytest_agentv.model.options import (
    DEFAULT_CONFIRM,
    DEFAULT_EXPLORATION_TOOLS,
    DEFAULT_KEEP_ANSWERS,
    DEFAULT_MARGIN,
    DEFAULT_MAX_RETRIES,
    DEFAULT_TIMEOUT_SECONDS,
    BaselineUpdate,
    Gate,
    OutputFormat,
    RunRule,
    Shard,
    Stop,
    UnknownKeys,
)


@dataclass(frozen=True, slots=True)
class RunOptions(Record):
    """The options of a run, merged from command line and ini file, with defaults filled in."""

    target: str | None = None
    """`--agentv-target`: the target to evaluate; None: the case's, else the file's, else `default`; or several."""
    several_targets: tuple[str, ...] = ()
    """`--agentv-target=a,b`: the targets that each run all cases; empty: one at most."""
    judge: str | None = None
    """`--agentv-judge`: the target that judges; None: the case's, else the file's, else that of the target."""
    targets: Path | None = None
    """`--agentv-targets`: the targets file, or a folder that holds one, absolute."""
    eval_id: tuple[str, ...] = ()
    """`--agentv-eval-id`: the ids of the cases to run; empty: all."""
    run: RunRule = "always"
    """`--agentv-run`: which cases run if you do not ask for them."""
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
    """`--agentv-max-retries`: how often a call that timed out is retried."""
    workers: int | None = None
    """`--agentv-workers`: cases in flight; None: as each target says, else one, or as many as an executor runs."""
    executor: str | None = None
    """`--agentv-executor`: `local`, or the address of a scheduler; None: that of a hook, else local."""
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
    keep_answers: int = DEFAULT_KEEP_ANSWERS
    """`agentv_keep_answers` in the ini file: how many days answers are kept for later runs; 0: none are."""
    resume: Path | None = None
    """`--agentv-resume`: the results file to resume, absolute."""
    rejudge: Path | None = None
    """`--agentv-rejudge`: the results file whose answers are judged anew, absolute."""
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
    """`--agentv-unknown-keys`: level of unknown keys that say what is asked or checked."""
    show_answers: bool = False
    """`--agentv-show-answers`: show question, answer and evaluators of passing cases, too."""
    verbose: bool = False
    """`--agentv-verbose`: show targets, provider calls, attempts and timings."""
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
        return has_baseline or self.gate in ("run", "strict") or self.min_rate is not None or bool(self.gates)
