"""The table of run options: the one source of the `--agentv-*` flags, the ini keys and the `agentv eval` options."""

from pathlib import Path
from typing import Final

from pytest_agentv.models.options.defaults import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_RESULTS_FOLDER,
    DEFAULT_SHIP_LIMIT,
    DEFAULT_TIMEOUT_SECONDS,
)
from pytest_agentv.models.options.option import RunOption
from pytest_agentv.models.options.values import (
    parse_executor,
    parse_lost_retries,
    parse_megabytes,
    parse_milliseconds,
    parse_output_format,
    parse_retries,
    parse_run_rule,
    parse_run_workers,
    parse_sample,
    parse_seconds,
    parse_shard,
    parse_ship,
    parse_unknown_keys,
)
from pytest_agentv.models.options.verdicts import CASE_VERDICT_OPTIONS, RUN_VERDICT_OPTIONS

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
        "How often to retry a case whose worker was lost; you may pay for each retry (default: 0).",
        parse=parse_lost_retries,
        default=0,
        metavar="N",
        ini=True,
    ),
    RunOption(
        "ship",
        "How workers get the files of the cases: bundle (send each worker those that it lacks) or none (workers see "
        "the project's folder, or work in a copy of it) (default: bundle for a cluster, else none).",
        parse=parse_ship,
        metavar="HOW",
        ini=True,
    ),
    RunOption(
        "ship-limit",
        f"Size limit, in megabytes, of the files of each shipped folder (default: {DEFAULT_SHIP_LIMIT:g}).",
        parse=parse_megabytes,
        default=DEFAULT_SHIP_LIMIT,
        metavar="MB",
        ini=True,
    ),
    RunOption(
        "pass-env",
        "Pass this variable of the run to the workers; may be repeated. Only for workers on this machine or over an "
        "encrypted connection (default: each worker uses its own variables).",
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
    RunOption("verbose", "Show targets, provider calls, attempts and timings.", is_flag=True),
)
"""In the order of the documentation. Precedence: command line > ini > file > default."""
