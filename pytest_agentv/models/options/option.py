"""The properties of an option."""

from collections.abc import Callable

from pytest_agentv.models.records import record


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
    """Whether the values of a repeated flag are joined by commas. For other options, the last value wins."""
    optional_value: object = None
    """The value of a flag given without one; None: the flag needs a value."""
    ini: bool = False
    """Whether `agentv_<name>` in the ini file sets it once for a project."""

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")
