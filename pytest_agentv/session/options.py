"""The run options as pytest flags and ini keys."""

import argparse
import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.errors import locate
from pytest_agentv.model.options import (
    DEFAULT_BASELINE,
    DEFAULT_EVAL_GLOBS,
    DEFAULT_EXPLORATION_TOOLS,
    DEFAULT_KEEP_ANSWERS,
    MAX_WORKERS,
    RUN_OPTIONS,
    RunOption,
    RunOptions,
    check_workers,
    parse_bool,
)
from pytest_agentv.session.compat import ini_value

# Reads values of the ini file, which are texts or types of native TOML.


def _parse(option: RunOption, written: object) -> object:
    if option.is_flag and isinstance(written, bool):
        return written
    is_text_only = not option.is_flag and option.parse in (str, Path)
    types = str if is_text_only else str | int | float
    if isinstance(written, bool) or not isinstance(written, types):
        expected = "a text" if is_text_only else "true or false" if option.is_flag else "a text or a number"
        raise ValueError(f"expected {expected}, got {_shown(written)}")  # noqa: TRY004 - like all other wrong values
    return parse_bool(str(written)) if option.is_flag else option.parse(str(written))


def ini_names(config: pytest.Config, name: str) -> tuple[str, ...]:
    """Return a list of the ini file. A text is split at its blanks, in native TOML too."""
    written = ini_value(config, name)
    words = shlex.split(written) if isinstance(written, str) else written
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise pytest.UsageError(f"{ini_name(config)}: {name}: expected a list of texts, got {_shown(written)}")
    return tuple(words)


def _shown(written: object) -> str:
    """Name a value of the ini file in a message. TOML has lists, tables and dates."""
    from pytest_agentv.files.problems import describe_value  # noqa: PLC0415 - only for mistakes

    return describe_value(written) if isinstance(written, str | int | float) else str(written)


def ini_name(config: pytest.Config) -> str:
    return locate(config.inipath, None) if config.inipath else "the ini file"


PREFIX = "agentv"
_BY_DEST: Final = {option.dest: option for option in RUN_OPTIONS}
_GATES_HELP = "Pass rates that the cases with a tag must reach, one tag per line: `prices: min_rate=0.9 tier=critical`."
_KEEP_HELP = "Days for which answers are kept in .agentv/answers.sqlite for later runs (default: 30; 0: none are kept)."
_TOOLS_HELP = "Names of tools that only look around, for the exploration ratio."
_BETWEEN: Final = ("threshold", "repeat", "min_pass_rate")
"""Options whose flags override cases and files. Their ini keys do not."""


def add_options(parser: pytest.Parser) -> None:
    """Declare `--agentv-*` and the ini keys `agentv_*`."""
    group = parser.getgroup("agentv", "evaluations (pytest-agentv)")
    for option in RUN_OPTIONS:
        for index, flag in enumerate(_flags(option)):
            text = argparse.SUPPRESS if option.is_hidden or index else option.help
            group.addoption(flag, dest=f"{PREFIX}_{option.dest}", help=text, **_flag_arguments(option))
        for name in option.ini_keys:
            is_older = name != option.ini_keys[0]
            parser.addini(name, f"The same as {option.ini_keys[0]}." if is_older else option.help, default=None)
    parser.addini("agentv_files", "Globs of eval files, in any folder.", "args", list(DEFAULT_EVAL_GLOBS))
    parser.addini("agentv_exploration_tools", _TOOLS_HELP, "args", list(DEFAULT_EXPLORATION_TOOLS))
    parser.addini("agentv_gates", _GATES_HELP, "linelist", [])
    parser.addini("agentv_keep_answers", _KEEP_HELP, default=str(DEFAULT_KEEP_ANSWERS))


def attach_optional_values(args: list[str]) -> None:
    """Write out the optional value of each flag that was given without one, in place.

    argparse would take the next argument instead: `pytest --agentv-dump-traces evals` would write into `evals`.
    """
    meant = {
        flag: f"{flag}={option.optional_value}"
        for option in RUN_OPTIONS
        if option.optional_value is not None
        for flag in _flags(option)
    }
    args[:] = [meant.get(arg, arg) for arg in args]


def check_options(config: pytest.Config) -> None:
    """Check the options before anything is collected. Raises `pytest.UsageError`."""
    eval_globs(config)
    words = list(itertools.takewhile(lambda word: word != "--", map(str, config.invocation_params.args)))
    for option in RUN_OPTIONS:
        joined = _joined(f"--{PREFIX}-{option.name}", words) if option.joins else []
        if len(joined) > 1:  # xdist passes this on to workers, which do not see the command line
            setattr(config.option, f"{PREFIX}_{option.dest}", ",".join(joined))
    given = {option.dest: _given(config, option) for option in RUN_OPTIONS}
    alone = [word for word in ("resume", "retry_errors", "cache", "dry_run") if given[word]]
    if given["rejudge"] is not None and alone:
        flags = " and ".join(f"--agentv-{word.replace('_', '-')}" for word in alone)
        raise pytest.UsageError(f"--agentv-rejudge asks no target, so it cannot be combined with {flags}")
    if given["executor"] not in (None, "local") and config.getoption("dist", "no") != "no":
        raise pytest.UsageError("--agentv-executor and the workers of pytest-xdist (-n) exclude each other: drop one")
    _check_workers(config, given["workers"], "--agentv-workers")
    shortest, longest = given["dry_run_delay_min"], given["dry_run_delay_max"]
    if shortest is not None and longest is not None and shortest > longest:
        flags = f"--agentv-dry-run-delay-min={shortest:g} is above --agentv-dry-run-delay-max={longest:g}"
        raise pytest.UsageError(f"{flags}: expected the shorter delay first")


def _joined(flag: str, words: Sequence[str]) -> list[str]:
    """Return the values of a flag, in order. If the command line has the flag, values in `addopts` do not count."""
    return [
        words[index + 1] if word == flag else word.partition("=")[2]
        for index, word in enumerate(words)
        if word.startswith(f"{flag}=") or (word == flag and index + 1 < len(words))
    ]


def eval_globs(config: pytest.Config) -> Sequence[str]:
    """Return the globs of names that are always eval files. Raises `pytest.UsageError`."""
    return ini_names(config, "agentv_files")


def run_options(config: pytest.Config) -> RunOptions:
    """Merge command line, ini file and defaults. Raises `pytest.UsageError` for a wrong value in the ini file."""
    values = {option.dest: _value(config, option) for option in RUN_OPTIONS}
    _check_workers(config, values["workers"], f"{ini_name(config)}: agentv_workers")
    cwd = config.invocation_params.dir
    for name in ("targets_file", "out", "dump_prompts", "dump_traces", "html", "resume", "rejudge"):
        values[name] = None if values[name] is None else cwd / values[name]
    if values["rejudge"] is not None:  # it asks for no fresh answers, and takes those of its file alone
        values |= {"confirm": 0, "cache": False}
    targets = _names(values["target"])
    kept = str(config.getini("agentv_keep_answers")).strip()
    if not kept.isdecimal():
        text = f"expected a number of days, got {kept!r} (0: no answers are kept)"
        raise pytest.UsageError(f"{ini_name(config)}: agentv_keep_answers: {text}")
    if values["baseline"] is not None:
        folder = config.rootpath if values["baseline"] == DEFAULT_BASELINE else cwd
        values["baseline"] = folder / values["baseline"]
    for name in _BETWEEN:
        from_flag = _given(config, _BY_DEST[name])
        values |= {name: from_flag, f"ini_{name}": values[name] if from_flag is None else None}
    return RunOptions(
        **{
            **values,
            "target": targets[0] if len(targets) == 1 else None,
            "several_targets": targets if len(targets) > 1 else (),
            "eval_id": tuple(values["eval_id"] or ()),
            "gates": _gates(config),
            "keep_answers": int(kept),
            "exploration_tools": ini_names(config, "agentv_exploration_tools"),
        }
    )


def several_targets(config: pytest.Config) -> tuple[str, ...]:
    """Return the targets of the command line or ini file if these are several. A fixture reports a wrong value."""
    try:
        targets = _names(_value(config, _BY_DEST["target"]))
    except pytest.UsageError:
        return ()
    return targets if len(targets) > 1 else ()


def _names(written: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(str.strip, (written or "").split(",")))))


def has_executor(config: pytest.Config, options: RunOptions) -> bool:
    """Whether an option or a hook may run cases elsewhere. The workers of xdist run their own cases."""
    if hasattr(config, "workerinput") or options.executor == "local" or options.rejudge is not None:
        return False
    return options.executor is not None or bool(config.hook.pytest_agentv_executor.get_hookimpls())


def _check_workers(config: pytest.Config, count: int | None, place: str) -> None:
    """Raise `pytest.UsageError` if more cases should be in flight than the processes of a run allow."""
    if count is None or count <= MAX_WORKERS:
        return
    executor: str | None = _value(config, _BY_DEST["executor"])
    if executor is None and config.hook.pytest_agentv_executor.get_hookimpls():
        return  # the number of its processes is known only later
    try:
        check_workers(str(count), executor)
    except ValueError as error:
        raise pytest.UsageError(f"{place}: {error}") from None


def _flags(option: RunOption) -> list[str]:
    return [f"--{PREFIX}-{name}" for name in (option.name, *option.aliases)]


def _flag_arguments(option: RunOption) -> dict[str, Any]:
    # The default is always None, because it must differ from every value that can be given.
    if option.is_flag:
        return {"action": "store_true", "default": None}
    # Values stay texts, and `check_options` parses them: `--looponfail` and xdist send them to other processes.
    arguments: dict[str, Any] = {"default": None, "metavar": option.metavar}
    if option.repeatable:
        return arguments | {"action": "append"}
    if option.optional_value is not None:
        return arguments | {"nargs": "?", "const": str(option.optional_value)}
    return arguments


def _given(config: pytest.Config, option: RunOption) -> Any:
    """Return the value of a flag; None: it was not given. Raises `pytest.UsageError`."""
    given = config.getoption(f"{PREFIX}_{option.dest}")
    if option.parse is str or not isinstance(given, str):
        return given
    try:
        return option.parse(given)
    except ValueError as error:
        raise pytest.UsageError(f"--{PREFIX}-{option.name}: {error}") from None


def _value(config: pytest.Config, option: RunOption) -> Any:
    """Return the value of the command line, else of the ini file, else the default. Raises `pytest.UsageError`."""
    given = _given(config, option)
    if given is not None:
        return given
    written = {name: ini_value(config, name) for name in option.ini_keys}
    filled = [(name, each) for name, each in written.items() if each is not None and str(each).strip()]
    if not filled:
        return False if option.is_flag else option.default
    name, value = filled[0]
    try:
        value = _parse(option, value)
    except ValueError as error:
        raise pytest.UsageError(f"{ini_name(config)}: {name}: {error}") from None
    if isinstance(value, Path) and config.inipath is not None:
        return config.inipath.parent / value  # must not depend on the folder where pytest is started
    return value


def _gates(config: pytest.Config) -> tuple[str, ...]:
    """Return the lines of `agentv_gates`. Raises `pytest.UsageError` for a wrong one."""
    written = ini_value(config, "agentv_gates")
    lines = tuple(map(str, written)) if isinstance(written, list) else (str(written),)
    if lines:
        from pytest_agentv.reports.verdict import parse_tag_gates  # noqa: PLC0415 - only for runs with gates

        try:
            parse_tag_gates(lines)
        except ValueError as error:
            raise pytest.UsageError(f"{ini_name(config)}: agentv_gates: {error}") from None
    return lines
