"""A small table with a row per target, drawn by rich where that is installed."""

import io
from collections.abc import Mapping
from importlib.util import find_spec

from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.figures import format_cost, format_duration
from pytest_agentv.session.showing.live.tallies import Tally

_MOST_ROWS = 8


def has_rich() -> bool:
    return find_spec("rich") is not None


def table_lines(targets: Mapping[str, Tally], width: int) -> list[str]:
    """Return the lines of the table, with colours: at most eight targets."""
    from rich import box  # noqa: PLC0415 - optional
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("target", no_wrap=True)
    for name in ("done", "failed", "errors", "cost", "mean time"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, tally in list(targets.items())[:_MOST_ROWS]:
        mean = format_duration(tally.busy_ms / tally.cases) if tally.cases else ""
        cost = format_cost(tally.cost) if tally.cost else ""
        failed = Text(str(tally.failed), style="red" if tally.failed else "")
        errors = Text(str(tally.errors), style="bold red" if tally.errors else "")
        table.add_row(Text(visible(name)), str(tally.done), failed, errors, cost, mean)
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="standard", legacy_windows=False).print(table)
    return file.getvalue().rstrip("\n").split("\n")
