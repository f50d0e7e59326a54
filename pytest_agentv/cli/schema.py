"""`agentv schema`: JSON Schemas for editors, and for whoever writes eval files by program."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser
from pytest_agentv.cli.console import say
from pytest_agentv.providers.table import KINDS

_KINDS: Final = ("eval", "targets", "config")
_EPILOG: Final = """\
An editor with a YAML language server checks a file against the schema that its first line names:
  # yaml-language-server: $schema=PATH"""


def run(arguments: Sequence[str]) -> int:
    """Print a schema."""
    options = _create_parser().parse_args(arguments)
    say(schema_text(options.kind).rstrip("\n"))
    return 0


def schema_text(kind: str) -> str:
    """Return the schema of a kind of file as indented JSON."""
    from pytest_agentv.loading.json_schemas import schemas  # noqa: PLC0415 - pydantic

    return json.dumps(schemas(KINDS)[kind](), indent=2) + "\n"


def schema_files() -> Mapping[str, str]:
    """Return the schemas as files of a project, by their path below its folder."""
    return {f".agentv/schemas/{kind}.schema.json": schema_text(kind) for kind in _KINDS}


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv schema", description="Print the JSON Schema of a kind of file.", epilog=_EPILOG
    )
    parser.add_argument("kind", choices=_KINDS, help="The kind of file.")
    return parser
