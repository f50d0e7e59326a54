"""`agentv schema`: prints JSON Schemas for editors and for programs that write eval files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.eval import ArgumentParser, say

KINDS: Final = ("eval", "targets", "config")
_EPILOG: Final = """\
An editor with a YAML language server checks a file against the schema that its first line names:
  # yaml-language-server: $schema=PATH"""


def run(arguments: Sequence[str]) -> int:
    """Print a schema, or the path of its file."""
    description = "Print the JSON Schema of a kind of file."
    parser = ArgumentParser(prog="agentv schema", description=description, epilog=_EPILOG)
    parser.add_argument("kind", choices=KINDS, help="The kind of file.")
    parser.add_argument("--path", action="store_true", help="Print the path of the schema instead (default: off).")
    options = parser.parse_args(arguments)
    path = schema_path(options.kind)
    say(str(path) if options.path else path.read_text("utf-8").rstrip("\n"))
    return 0


def schema_path(kind: str) -> Path:
    """Return the file of the package with the schema of a kind of file. `scripts/json_schemas.py` makes it."""
    return Path(__file__).parents[1] / "schemas" / f"{kind}.schema.json"
