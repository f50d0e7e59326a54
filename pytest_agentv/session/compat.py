"""Reads private state of pytest and xdist. Each function returns a fallback if that state changes.

Loaded in every pytest run.
"""

import dataclasses
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib.util import find_spec
from typing import Any, Final, TextIO

import pytest
from _pytest import capture, junitxml, skipping
from _pytest.terminal import TerminalReporter as TerminalReporter  # noqa: PLC0414 - public from pytest 8.4 on

_OWN_FIXTURES = "pytest_agentv.session.fixtures"


def items_of(terminal: TerminalReporter) -> Sequence[pytest.Item]:
    return getattr(getattr(terminal, "_session", None), "items", ())


def title_errors(terminal: TerminalReporter, titles: Mapping[str, str]) -> None:
    """Give errors of items titles of their own instead of `ERROR at setup of …`. `titles` are by node id."""
    write_sep: Any = terminal.write_sep
    with suppress(AttributeError):
        reports = terminal.stats.get("error", ())
        named = {
            f"ERROR at {report.when} of {report.head_line}": f"ERROR: {titles[report.nodeid]}: {report.head_line}"
            for report in reports
            if report.when == "setup" and report.nodeid in titles
        }

        def write_titled(sep: str, title: str | None = None, *rest: Any, **markup: Any) -> None:
            write_sep(sep, named.get(title or "", title), *rest, **markup)

        vars(terminal)["write_sep"] = write_titled


def queued_items(config: pytest.Config, items: Sequence[pytest.Item]) -> Iterator[pytest.Item] | None:
    """Return the items that xdist gave this worker and that have not started, in order; None: unknown."""
    plugins = config.pluginmanager.get_plugins()
    interactor: Any = next((each for each in plugins if type(each).__name__ == "WorkerInteractor"), None)
    if interactor is None:
        return None
    with suppress(AttributeError, TypeError, IndexError):
        with interactor.torun.lock() as positions:
            indices = [interactor.nextitem_index, *positions]
        return (items[index] for index in indices if isinstance(index, int) and index < len(items))
    return None


def ini_value(config: pytest.Config, name: str) -> object:
    """Return a key of the ini file in the type of native TOML, which pytest refuses for a text, else the default."""
    try:
        return config.getini(name)
    except (TypeError, pytest.UsageError) as error:  # UsageError since pytest 9.2
        for place in ("_inicfg", "inicfg"):
            written: Any = getattr(config, place, {}).get(name)
            if hasattr(written, "value"):
                return written.value
        raise pytest.UsageError(str(error)) from None


def named_arguments(config: pytest.Config) -> Sequence[str]:
    """Return the paths and node ids of the command line; empty if pytest was started without one."""
    source = getattr(config, "args_source", None)
    is_given = getattr(source, "name", "ARGS") == "ARGS"
    return [str(word) for word in config.args] if is_given else []


def _definitions(item: Any, name: str) -> Sequence[Any]:
    """Return the definitions of a fixture for an item: the last one counts, and overrides those before it."""
    known: dict[str, Sequence[Any]] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return known.get(name, ())


def _is_own(definition: Any) -> bool:
    return bool(definition.func.__module__ == _OWN_FIXTURES)


def fixture_functions(item: Any, name: str) -> tuple[Callable[..., Any], ...]:
    """Return the function of a fixture, of those that it overrides, and of those that it requests."""
    functions: dict[Callable[..., Any], None] = {}
    waiting, seen = [name], set[str]()
    while waiting:
        each = waiting.pop()
        for definition in () if each in seen else _definitions(item, each):
            functions[definition.func] = None
            waiting += definition.argnames
        seen.add(each)
    return tuple(functions)


def expected_failure(item: pytest.Item, error: type[BaseException]) -> tuple[str, bool] | None:
    """Return the reason of the `xfail` mark that expects an error of the current item, and whether it is strict."""
    with suppress(AttributeError, TypeError):  # `raises` may be an object that looks at the error itself
        mark: Any = item.stash.get(skipping.xfailed_key, None)
        if mark is None or item.config.getoption("runxfail", default=False):
            return None
        if mark.raises is None or issubclass(error, mark.raises):
            return str(mark.reason), bool(mark.strict)
    return None


def allow_to_pass(item: pytest.Item) -> None:
    """Make the `xfail` mark of the current item not strict."""
    with suppress(AttributeError, TypeError):
        mark = item.stash.get(skipping.xfailed_key, None)
        if mark is not None and mark.strict:
            item.stash[skipping.xfailed_key] = dataclasses.replace(mark, strict=False)


def overridden_fixtures(item: pytest.Item, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of our fixtures that a test class, a module, a conftest or a plugin overrides for an item."""
    found = {name: _definitions(item, name) for name in names}
    return tuple(name for name, definitions in found.items() if definitions and not _is_own(definitions[-1]))


def uses_own_fixture(item: Any, name: str) -> bool:
    """Whether an item uses our fixture of a name, also through fixtures that override and request it."""
    for definition in reversed(_definitions(item, name)):
        if _is_own(definition) or name not in definition.argnames:
            return _is_own(definition)
    return False


def has_same_fixtures(item: pytest.Function, other: pytest.Function, names: Sequence[str]) -> bool:
    """Whether two items share some session-scoped fixtures, and so the fixtures' values."""
    pairs = [(_definitions(item, name)[-1:], _definitions(other, name)[-1:]) for name in names]
    return all(ours and ours == theirs and ours[0].scope == "session" for ours, theirs in pairs)


def logging_handlers(config: pytest.Config) -> tuple[list[logging.Handler], list[logging.Handler]]:
    """Return the handlers with which pytest collects the records of an item, and those that show records at once."""
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    collecting = [getattr(plugin, name, None) for name in ("caplog_handler", "report_handler")]
    showing = [getattr(plugin, name, None) for name in ("log_cli_handler", "log_file_handler")]
    return [each for each in collecting if each is not None], [each for each in showing if each is not None]


def junit_case(config: pytest.Config, report: Any) -> Any:
    """Return the object that collects the JUnit test case of a report; None: no file is written."""
    with suppress(AttributeError):
        xml = config.stash.get(junitxml.xml_key, None)
        return xml.node_reporter(report) if xml is not None else None
    return None


def terminal_file(writer: Any) -> TextIO | None:
    file = getattr(writer, "_file", None)
    return file if hasattr(file, "write") else None


def drop_phases(reporter: TerminalReporter, attribute: str) -> None:
    """Drop the reports with an attribute of set-ups and tear-downs that passed without output. pytest shows none."""
    kept = getattr(reporter, "stats", {}).get("", [])
    kept[:] = [report for report in kept if report.sections or not hasattr(report, attribute)]


def uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    """Let what is written reach the terminal while an item is captured."""
    manager = config.pluginmanager.get_plugin("capturemanager")
    disabled: AbstractContextManager[None] = getattr(manager, "global_and_fixture_disabled", nullcontext)()
    return disabled


def put_on_top(config: pytest.Config, wrap: Callable[[str, TextIO, bool], Any]) -> Callable[[], None]:
    """Wrap `sys.stdout` and `sys.stderr`, and each stream that pytest's capture sets there until the result is called.

    `wrap` gets the name of the stream, the stream, and whether it is the run's; False: a fixture captures for a test.
    pytest sets both in each phase of an item. Its `setattr` is replaced, because other threads may print at any moment
    between its own call and a later one.
    """
    capturing = getattr(config.pluginmanager.get_plugin("capturemanager"), "_global_capturing", None)
    of_run: dict[str, list[Any]] = {}
    for name in ("stdout", "stderr"):
        one = getattr(capturing, name.removeprefix("std"), None)
        one = getattr(one, "syscapture", one)
        of_run[name] = [getattr(sys, name), getattr(one, "_old", None), getattr(one, "tmpfile", None)]

    known = {(name, id(each)): wrap(name, each, True) for name, streams in of_run.items() for each in streams}

    def set_wrapped(holder: Any, name: str, value: Any) -> None:
        if holder is sys and name in of_run:
            value = known.get((name, id(value))) or wrap(name, value, False)
        setattr(holder, name, value)

    for name, (stream, *_) in of_run.items():
        set_wrapped(sys, name, stream)
    before = vars(capture).get("setattr", setattr)  # that of an outer run, which has this one in a test
    vars(capture)["setattr"] = set_wrapped
    return lambda: vars(capture).update(setattr=before)


# Where evals can run.

NEEDS_UNIX: Final = (
    "pytest-agentv runs evals on Linux and macOS only; here, leave them out (--ignore, -p no:agentv) or use WSL"
)
PATCHED_BY_GEVENT: Final = (
    "gevent has patched this process (monkey.patch_all), and evals need threads and an event loop of their own: "
    "leave them out here (--ignore, -p no:agentv), and reach the agent as a program or a service"
)


def obstacle() -> str | None:
    """Return why evals cannot be run in this process; None: they can."""
    if find_spec("fcntl") is None:
        return NEEDS_UNIX
    patches = sys.modules.get("gevent.monkey")
    is_patched = patches is not None and patches.is_module_patched("threading")
    return PATCHED_BY_GEVENT if is_patched else None
