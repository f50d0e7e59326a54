"""The `agentv` command. Imports only the subcommand that it runs."""

import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_agentv.cli.eval import USAGE_ERROR, USAGE_EXIT_CODE, UsageError, note, say
from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import did_you_mean

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "eval": ("eval:run", "Run evaluations: eval files, folders or globs."),
    "validate": ("validate:run", "Check eval, dataset, targets and config files without running anything."),
    "compare": ("compare:run", "Compare the scores of two results files."),
    "plan": ("compare:run_plan", "Say how many cases and repeats you need to see a drop."),
    "audit": ("audit:run", "Find the cases that an empty answer, a refusal or another useless answer passes."),
    "label": ("agree:run_label", "Ask a person which answers of a run are good."),
    "agree": ("agree:run", "Measure how well a judge agrees with people's labels."),
    "report": (
        "report:run",
        "Write a report of a run: an HTML page, a comment for a pull request, a file for a CI service.",
    ),
    "merge": ("merge:run", "Join the results files of a run's shards."),
    "convert": ("report:run_convert", "Convert a results file: JSONL, YAML, CSV, JUnit."),
    "generate": ("generate:run", "Let a model write the rubrics of an eval file."),
    "init": ("init:run", "Start a project: an example that runs at once, settings, a CI workflow."),
    "schema": ("init:run_schema", "Print the JSON Schema of eval, targets or config files."),
}
"""Commands with the functions that run them, which take the arguments and return the exit code; and summaries."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code. Print errors on one line, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # characters that the encoding of the terminal lacks
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        exit_code = _run(arguments)
        sys.stdout.flush()
    except SystemExit as exit_:  # argparse raises it after `--help`, and code of users may raise it anywhere
        if exit_.code is None or isinstance(exit_.code, int):
            exit_code = exit_.code or 0
        else:  # as in Python, any other value is the text of an error
            note(f"agentv: {exit_.code}")
            exit_code = 1
    except KeyboardInterrupt:
        exit_code = 130  # as a shell reports a program that Ctrl+C ended
    except BrokenPipeError:  # as in `agentv … | head`; Python's documentation recommends this
        _drop_output()
        exit_code = 1
    except OSError as error:  # for example a full disk
        _drop_output()
        note(f"agentv: the output cannot be written: {error.strerror or error}")
        exit_code = USAGE_ERROR
    return exit_code


def _run(arguments: Sequence[str]) -> int:
    command, *rest = arguments or ["--help"]
    if command == "help" and rest and rest[0] in COMMANDS:
        command, rest = rest[0], ["--help"]
    if command in ("-h", "--help", "help"):
        say(_help())
        return 0
    if command in ("-V", "--version"):
        from importlib import metadata  # noqa: PLC0415 - twenty milliseconds that only this command needs

        say(f"agentv {metadata.version('pytest-agentv')} (pytest-agentv)")
        return 0
    if command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS) or f"known: {', '.join(COMMANDS)}"
        note(f"agentv: unknown command {command!r}; {hint}")
        return USAGE_ERROR
    module, _, function = COMMANDS[command][0].partition(":")
    try:
        exit_code: int = getattr(importlib.import_module(f"pytest_agentv.cli.{module}"), function)(rest)
    except UsageError as error:
        note(f"agentv {command}: {error}\nTry: agentv {command} --help")
        return USAGE_EXIT_CODE if command == "eval" else USAGE_ERROR
    except BrokenPipeError:
        raise
    except (AgentvError, OSError) as error:
        note(f"agentv {command}: {error}")
        return USAGE_ERROR
    return exit_code


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:{width}}  {summary}" for name, (_, summary) in COMMANDS.items())
    return (
        f"usage: agentv COMMAND [arguments]\n\nEvaluations of models and agents, written as YAML.\n\n"
        f"commands:\n{rows}\n\n"
        f"options:\n  -h, --help     Show this help; `agentv COMMAND --help` shows that of a command.\n"
        f"  -V, --version  Show the version."
    )


def _drop_output() -> None:
    """Discard the buffered output. Python would fail to flush it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
