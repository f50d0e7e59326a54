"""The keys of targets files, of the targets in them, and of config files. Importing this costs pydantic."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, ValidatorFunctionWrapHandler, WithJsonSchema, field_validator
from pydantic_core import PydanticUseDefault

from pytest_agentv.files.kind_reader import read_parts
from pytest_agentv.files.places import Place
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.kind import FILLED_TEXT, Items, Part, Text, definition, spelled
from pytest_agentv.targets.definitions import has_reference
from pytest_agentv.targets.fields import AS_WRITTEN, AsWritten, Flag, OptionalText, PositiveCount, Resolution


class Metadata(Part):
    """Keys for people, which nobody else reads. In a file, others may keep what YAML anchors name."""

    description: Any = Field(default=None, description="what it is about", examples=["The shop's own models"])
    metadata: Any = Field(default=None, description="whatever else is to be known", examples=[{"owner": "support"}])
    author: Any = Field(default=None, description="who wrote it", examples=["Support team"])

    @classmethod
    def level_of(cls, key: str, value: Json) -> Literal["error", "warning"] | None:  # noqa: ARG003 - as of `Part`
        return None if key.startswith("x-") else "warning"


class CommonKeys(Part):
    """The keys of every target."""

    name: Text = Field(description="the name that runs and cases choose the target by")
    provider: Text = Field(description="the kind of target: azure, cli, mock, …")
    judge_target: OptionalText = Field(default=None, description="the target that judges its answers")
    workers: PositiveCount | None = Field(
        default=None, description="cases in flight at a time, if the run does not set it (default: 1)"
    )
    provider_batching: Flag = spelled(
        "provider_batching", "providerBatching", default=False, description="one call for all cases"
    )

    @classmethod
    def level_of(cls, key: str, value: Json) -> Literal["error", "warning"] | None:  # noqa: ARG003 - as of `Part`
        return None if key.startswith("x-") else "error"

    @field_validator("judge_target", "workers", "provider_batching", mode="wrap")
    @classmethod
    def _later(cls, value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Take a variable for absent until it is filled in."""
        if isinstance(info.context, AsWritten) and has_reference(value):
            raise PydanticUseDefault
        return read(value)


class UnknownKind(Part):
    """The other keys of a target whose provider is not known: any."""

    model_config = ConfigDict(extra="ignore")


class TargetsFileKeys(Metadata):
    """The targets of a project, which may all stand in files that this one includes."""

    schema_: Any = spelled(
        "$schema", default=None, description="the schema of the file", examples=["agentv-targets-v2.2"]
    )
    targets: Annotated[Items[Any], WithJsonSchema({"type": "array", "items": definition("target")})] = Field(
        default=(), description="a list of targets: what can be asked, and who judges"
    )
    include: Annotated[Any, WithJsonSchema({"anyOf": [FILLED_TEXT, {"type": "array", "items": FILLED_TEXT}]})] = Field(
        default=None, description="files whose targets this file takes over, where it has none of their names"
    )


class WholeTargetsFile(TargetsFileKeys):
    """The keys of a targets file that includes no other one."""

    targets: Items[Any] = Field(description="a list of targets: what can be asked, and who judges")


class Config(Metadata):
    """Settings for the eval files of a folder."""

    schema_: Literal["agentv-config-v2"] | None = spelled(
        "$schema", default=None, description="the schema of the file", examples=["agentv-config-v2"]
    )
    guideline_patterns: Items[Text] | None = Field(
        default=None,
        description="globs of the files that count as guidelines",
        examples=[["**/*.instructions.md"]],
    )


def read_target(
    kind: type[Part] | None, values: JsonObject, place: Place, context: AsWritten | Resolution = AS_WRITTEN
) -> tuple[CommonKeys | None, Any]:
    """Return the common keys of a target and those of its kind, each None after a fault."""
    is_open = kind is not None and kind.model_config.get("extra") == "allow"
    parts = (CommonKeys, kind or UnknownKind, *(() if is_open else (Metadata,)))
    common, settings, *_ = read_parts(parts, values, place, context=context)
    return common, settings
