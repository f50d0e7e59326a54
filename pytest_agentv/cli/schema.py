"""`agentv schema`: prints JSON Schemas for editors and for programs that write eval files."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_agentv.cli.eval import ArgumentParser, say
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.base import JsonObject
from pytest_agentv.providers.table import KINDS as TARGETS

KINDS: Final = ("eval", "targets", "config")
_EPILOG: Final = """\
An editor with a YAML language server checks a file against the schema that its first line names:
  # yaml-language-server: $schema=PATH"""


def run(arguments: Sequence[str]) -> int:
    """Print a schema."""
    description = "Print the JSON Schema of a kind of file."
    parser = ArgumentParser(prog="agentv schema", description=description, epilog=_EPILOG)
    parser.add_argument("kind", choices=KINDS, help="The kind of file.")
    say(schema_text(parser.parse_args(arguments).kind).rstrip("\n"))
    return 0


def schema_text(kind: str) -> str:
    """Return the schema of a kind of file as indented JSON."""
    return json.dumps(schema_of(kind), indent=1) + "\n"


def schema_of(kind: str) -> JsonObject:
    """Return the schema of a kind of file."""
    from pytest_agentv.cases import schemas as files  # noqa: PLC0415 - pydantic
    from pytest_agentv.evaluators.composite import AGGREGATORS  # noqa: PLC0415 - pydantic

    match kind:
        case "eval":
            return files.eval_schema(EVALUATORS, AGGREGATORS)
        case "targets":
            return files.targets_schema(TARGETS)
        case _:
            return files.config_schema()


def schema_files() -> Mapping[str, str]:
    """Return the texts of the schema files of a project, by their path below its folder."""
    return {f".agentv/schemas/{kind}.schema.json": schema_text(kind) for kind in KINDS}
