"""The keys of targets files, the types of their values, and targets with their variables filled in.

Importing this costs pydantic.
"""

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticUseDefault

from pytest_agentv.errors import SourceError, TargetError, locate
from pytest_agentv.files.kind_reader import read_part, read_parts
from pytest_agentv.files.places import INCLUDE, Place, RenamedPlace, first_key
from pytest_agentv.files.problems import Problem, UnreadKey, describe_value
from pytest_agentv.files.source import KeyPath, Source, read_yaml
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.cases import Target
from pytest_agentv.model.kind import (
    FILLED_TEXT,
    Items,
    Part,
    Text,
    definition,
    expected,
    spelled,
    spellings,
)
from pytest_agentv.model.secrets import Masker, Secret, secrets_of
from pytest_agentv.targets.definitions import (
    DEFAULT_GUIDELINE_PATTERNS,
    IDENTITY,
    REFERENCE,
    Environment,
    GuidelineConfig,
    TargetDefinition,
    TargetKinds,
    TargetsFile,
    has_reference,
)

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Resolution:
    """The validation context of a target with its variables filled in. The folders are absolute."""

    eval_dir: Path
    targets_dir: Path
    cwd: Path
    shield: Callable[[str], str | Secret]
    """Wraps a text that holds a secret."""


class FinalFault(ValueError):
    """A fault that no value of the text's variables can fix."""


class AsWritten:
    """The validation context of a target as written, where `${{ VAR }}` may stand for any value."""

    @staticmethod
    def may_pass(value: Json, cause: object) -> bool:
        """Whether a fault may pass when variables are filled in."""
        return has_reference(value) and not isinstance(cause, FinalFault)


AS_WRITTEN: Final = AsWritten()


def optional_text(value: object) -> str:
    """Return a value that is a text. A blank text counts as absent."""
    if isinstance(value, str) and not value.strip():
        raise PydanticUseDefault
    if not isinstance(value, str):
        raise expected("a text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else optional_text(value)


def _url(text: str) -> str:
    """Return a URL. A fault shows none that may hold a password."""
    if not re.match(r"(?i)https?://[^/\s]", text):
        got = "" if "@" in text or "?" in text else f", got {describe_value(text)}"
        raise ValueError(f"expected a URL that starts with http:// or https:// and has a host{got}")
    return text


def _server_url(value: object) -> str | None:
    text = (_text_or_none(value) or "").strip()
    return _url(text) if text else None


def _secret(value: object) -> Secret | None:
    """Return a key without white space around it. A server would show half of one with invalid characters."""
    if value is None or isinstance(value, Secret):
        return value
    text = optional_text(value).strip()
    if odd := re.search(r"[^ -~]", text):
        what = f"U+{ord(odd[0]):04X} at character {odd.start() + 1}"
        raise ValueError(f"the key holds {what}, which no key does: copy it anew")
    if re.fullmatch(r"""(["']).*\1""", text):
        raise ValueError("the key is in quotes, which `docker --env-file` keeps: leave them out")
    return Secret(text)


def _text_or_secret(value: object) -> object:
    if not isinstance(value, str | Secret):
        raise expected("a text")
    return value


def _shield(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(info.context, Resolution):
        return value
    if isinstance(value, str):
        return info.context.shield(value)
    if isinstance(value, dict):
        return {key: _shield(item, info) for key, item in value.items()}
    return [_shield(item, info) for item in value] if isinstance(value, list) else value


def path_in(folder: Literal["eval_dir", "targets_dir", "cwd"], *, is_default: bool = False) -> Any:
    """Return a validator that makes a path absolute. With `is_default`, an absent path means the folder itself."""

    def resolve(value: str | None, info: ValidationInfo) -> str | None:
        if not isinstance(info.context, Resolution) or (value is None and not is_default):
            return value
        base: Path = getattr(info.context, folder)
        return os.path.normpath(base / (value or ""))

    return AfterValidator(resolve)


def _program(command: str, info: ValidationInfo) -> str:
    if not isinstance(info.context, Resolution) or "/" not in command:
        return command
    base = info.context.cwd
    if (base / command).is_file():
        return os.path.normpath(base / command)
    program, *words = command.split(maxsplit=1)
    return " ".join((os.path.normpath(base / program) if "/" in program else program, *words))


def _number(
    what: str, *, at_least: float = -math.inf, above: float = -math.inf, at_most: float = math.inf, whole: bool = False
) -> BeforeValidator:
    """Accept a number, or the text of one: variables give texts."""

    def check(value: object) -> float:
        number = math.nan
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            with contextlib.suppress(ValueError, OverflowError):
                number = float(value)
        is_fit = math.isfinite(number) and at_least <= number <= at_most and number > above
        if not is_fit or (whole and not number.is_integer()):
            raise expected(what)
        return int(number) if whole else number

    return BeforeValidator(check)


SHIELDED: Final = AfterValidator(_shield)
"""For data of any shape: texts with a secret become `Secret`, so that they are in no record and in no cache key."""

OptionalText: TypeAlias = Annotated[str | None, BeforeValidator(_text_or_none)]
"""Blank counts as absent."""
DefaultText: TypeAlias = Annotated[str, BeforeValidator(optional_text)]
"""The same for a field with a default."""
Program: TypeAlias = Annotated[DefaultText, AfterValidator(_program)]
"""A program, whose path becomes absolute, because it runs in another folder. A bare name stays.

Words may follow the program, unless the whole text is the path of a file (agentv-formats 5.4).
"""
SecretText: TypeAlias = Annotated[Secret | None, BeforeValidator(_secret), WithJsonSchema({"type": "string"})]
"""Blank counts as absent."""
ShieldedText: TypeAlias = Annotated[
    str | Secret, BeforeValidator(_text_or_secret), SHIELDED, WithJsonSchema({"type": "string"})
]
"""A text that becomes a `Secret` if one of its variables holds a secret."""
Url: TypeAlias = Annotated[Text, AfterValidator(_url)]
ServerUrl: TypeAlias = Annotated[str | None, BeforeValidator(_server_url)]
"""Blank counts as absent."""
Flag: TypeAlias = Annotated[
    bool, BeforeValidator(lambda value: _FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value)
]
Number: TypeAlias = Annotated[float, _number("a number")]
Share: TypeAlias = Annotated[float, _number("a number from 0 to 1", at_least=0, at_most=1)]
Whole: TypeAlias = Annotated[int, _number("a whole number", whole=True)]
Seconds: TypeAlias = Annotated[float, _number("a number of seconds above 0", above=0)]
Milliseconds: TypeAlias = Annotated[float, _number("a number of milliseconds, 0 or more", at_least=0)]
Factor: TypeAlias = Annotated[float, _number("a number above 0", above=0)]
Count: TypeAlias = Annotated[int, _number("a whole number, 0 or more", at_least=0, whole=True)]
PositiveCount: TypeAlias = Annotated[int, _number("a whole number, 1 or more", at_least=1, whole=True)]
StatusCode: TypeAlias = Annotated[int, _number("an HTTP status code", at_least=100, whole=True)]


# Data that a target passes on: headers, and parts of request bodies.


def reveal(value: Json) -> Json:
    """Return plain data with the values of its secrets."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: reveal(item) for key, item in value.items()}
    return [reveal(item) for item in value] if isinstance(value, list | tuple) else value


def _header_text(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Secret):
        raise expected("a text")
    if re.search(r"[\r\n\0]", str(value)):
        raise ValueError("a header must not hold the end of a line")
    return value if isinstance(value, Secret) else str(value)


FreeMapping: TypeAlias = Annotated[dict[str, Any], SHIELDED, WithJsonSchema({"type": "object"})]
"""A mapping of any content."""
Headers: TypeAlias = dict[
    str,
    Annotated[str | Secret, BeforeValidator(_header_text), SHIELDED, WithJsonSchema({"type": "string"})],
]
"""Names and values of HTTP headers."""


# The keys of targets files.


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


_FOREIGN: Final = re.compile(r"^\$([A-Z][A-Z0-9_]+)$|\$\{([A-Z][A-Z0-9_]*)\}|^\{\{\s*env\.(\w+)\s*\}\}$")
"""A variable in the syntax of shells and other tools. Here it is a text, which would be sent as it is."""
_MEANT: Final = (
    *("command_template", "commandTemplate", "command", "stdin", "response", "content"),
    *("files_format", "filesFormat", "attachments_format", "attachmentsFormat"),
)
"""Keys whose text goes to a shell, or is an answer."""


def read_targets(
    source: Source, kinds: TargetKinds, problems: list[Problem], *, is_included: bool
) -> list[tuple[TargetDefinition, Place]]:
    """Return the targets of one file with their places. Notes faults."""
    problems += source.warnings
    value, root = source.value, Place(source, (), problems)
    if not isinstance(value, dict):
        root.expected("a mapping with the key targets", value)
        return []
    if is_included:  # eval files may include it too, and read its other keys
        value = {key: value[key] for key in value.keys() & {"targets", INCLUDE}}
    may_lack = is_included or value.get(INCLUDE) is not None
    file = read_part(TargetsFileKeys if may_lack else WholeTargetsFile, value, root)
    found: dict[str, TargetDefinition] = {}
    targets = []
    for index, entry in enumerate(file.targets if file else ()):
        place = root.at("targets", index)
        definition = _read_target(entry, kinds, place)
        if definition is None:
            continue
        first = found.setdefault(definition.name, definition)
        if first is not definition:
            what = f"{definition.name!r} is the name of the target on line {first.line} already, and that one counts"
            place.at("name").warn(what)
        targets.append((definition.replace(path=source.path) if is_included else definition, place))
    return targets


def _read_target(entry: Json, kinds: TargetKinds, place: Place) -> TargetDefinition | None:
    if not isinstance(entry, dict):
        place.expected("a mapping with name and provider", entry)
        return None
    word = kinds.canonical(entry.get("provider"))
    kind = kinds.table.get(word)
    is_open = kind is not None and kind.model_config.get("extra") == "allow"
    values, at = entry, place
    if entry.get("settings") is not None and kind is not None and not is_open:
        values, at = _merged_settings(entry, place)  # in older files it holds keys of the target
    is_own = is_open or (kind is not None and not kind.__module__.startswith("pytest_agentv."))
    _check_references(values, at, is_own=is_own)
    common, _ = read_target(kind, values, at)
    if common is None:
        return None
    return TargetDefinition(
        name=common.name,
        provider=common.provider,
        kind=word,
        line=place.source.line_of(place.keys),
        judge_target=common.judge_target,
        workers=common.workers,
        provider_batching=common.provider_batching,
        values=values,
    )


def _merged_settings(entry: dict[str, Json], place: Place) -> tuple[dict[str, Json], Place]:
    """Return the target with the keys of its `settings:` mapping merged in, and its place. Keys beside it win."""
    flat = {key: value for key, value in entry.items() if key != "settings"}
    settings = entry["settings"]
    if not isinstance(settings, dict):
        place.at("settings").expected("a mapping", settings)
        return flat, place
    place.at("settings").warn("is an older form", "write its keys directly in the target")
    homes: dict[str, KeyPath] = {key: ("settings", key) for key in settings if key not in flat}
    return {**settings, **flat}, RenamedPlace(place.source, place.keys, place.problems, homes)


def _check_references(values: JsonObject, place: Place, *, is_own: bool) -> None:
    """Warn of an invalid `${{ … }}`. Refuse variables of other tools, unless the project's own code may read them."""
    for keys, text in texts_of(values):
        foreign = None if keys[-1] in _MEANT else _FOREIGN.search(text)
        if "${{" in REFERENCE.sub("", text):
            place.at(*keys).warn("holds '${{', but no variable", "write ${{ NAME }}: letters, digits and _")
        elif foreign:
            note = place.at(*keys).warn if is_own else place.at(*keys).error
            name = foreign[1] or foreign[2] or foreign[3]
            note(f"{foreign[0]!r} is no variable here and stays as it is", f"write ${{{{ {name} }}}}")


def texts_of(value: Json, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield all texts within plain data, each with the keys that lead to it."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_of(item, (*keys, key))


def read_config_file(path: Path) -> GuidelineConfig:
    """Return a file's patterns, or the default ones if it has none or is invalid, and its problems."""
    try:
        source = read_yaml(path)
    except SourceError as error:
        return DEFAULT_GUIDELINE_PATTERNS, (Problem(path, error.line, "", error.reason),)
    problems = list(source.warnings)
    value, place = source.value, Place(source, (), problems)
    config = None
    if isinstance(value, dict):
        config = read_part(Config, value, place)
    else:
        place.expected("a mapping with the key guideline_patterns", value)
    own = None if config is None else config.guideline_patterns
    return DEFAULT_GUIDELINE_PATTERNS if own is None else own, tuple(problems)


# Fills in the variables of a target, wraps its secrets and reads its keys.


def resolve_target(
    file: TargetsFile, definition: TargetDefinition, environment: Environment, eval_dir: Path, secrets: Masker
) -> Target:
    """Return a target that is ready to be called. Add its secret values to `secrets`.

    `${{ VAR }}` is filled in anywhere in its texts. An optional field counts as absent if its variable is unset or
    blank. For required fields, and within lists and mappings, this raises `TargetError` with all missing
    variables. It also raises `TargetError` for targets that cannot be used and for filled-in values that are wrong.
    Source: delta-bbeval-migration-2025-11, "Missing provider credentials", "Environment variable validation".
    """
    path = definition.path or file.path
    where = f"target {definition.name!r} ({locate(path, definition.line)})"
    _refuse_unusable(file, definition, where)
    kind = file.kinds.table[definition.kind]
    place = Place(Source(path, {}, "", {}), (), [])
    filler = _Filler(environment.variables, place)
    filled = filler.fill_target(kind, definition.values)
    secrets.add(filler.secrets)
    if filler.missing:
        shown = ", ".join(
            f"{variable} ({', '.join(keys)}{'; set, but blank' if variable in environment.variables else ''})"
            for variable, keys in filler.missing.items()
        )
        what, it = "environment variables that are", "them"
        if len(filler.missing) == 1:
            what, it = "an environment variable that is", "it"
        raise TargetError(f"{where} needs {what} not set: {shown}; set {it} or put {it} into a .env file")
    resolution = Resolution(eval_dir, targets_dir=path.parent, cwd=Path.cwd(), shield=filler.shield)
    common, settings = read_target(kind, filled, place, resolution)
    if common is None or settings is None:
        faults = [each for each in place.problems if not isinstance(each, UnreadKey)]
        told = "; ".join(f"{each.key}: {each.message}{filler.source(each.key)}" for each in faults)
        raise TargetError(secrets.mask(f"{where}: {told}"))
    _refuse_unusable(file, definition.replace(judge_target=common.judge_target), where)
    return Target(
        name=definition.name,
        kind=definition.kind,
        settings=settings,
        judge_target=common.judge_target,
        workers=common.workers,
        provider_batching=common.provider_batching,
        path=str(path),
        line=definition.line,
    )


def _refuse_unusable(file: TargetsFile, definition: TargetDefinition, where: str) -> None:
    for _, message, hint in file.faults(definition):
        raise TargetError(f"{where}: {message}{f' ({hint})' if hint else ''}")


class _Filler:
    """Fills in variables, and records the missing variables and the texts that are secrets."""

    def __init__(self, variables: Mapping[str, str], place: Place) -> None:
        self.missing: dict[str, list[str]] = {}
        """The keys that need each missing variable."""
        self.secrets: set[str] = set()
        self._variables = variables
        self._place = place
        self._names: dict[str, list[str]] = {}
        """The variables of each key."""

    def source(self, key: str) -> str:
        """Return a text that names the variables of a faulty value; empty without variables."""
        names = self._names.get(key)
        return f" (from {', '.join(names)})" if names else ""

    def shield(self, text: str) -> str | Secret:
        return Secret(text) if any(secret in text for secret in self.secrets) else text

    def fill_target(self, kind: Any, values: JsonObject) -> dict[str, Json]:
        """Return the values by written key, including values that replace absent ones."""
        written = _written_keys(kind, values)
        needed = kind.needed(written)
        required = dict.fromkeys(values if kind.model_config.get("extra") == "allow" else (), False)
        for part in (CommonKeys, kind):
            for field, key in _written_keys(part, values).items():
                required[key] = part.model_fields[field].is_required() or field in needed
        filled: dict[str, Json] = {}
        for key, is_required in required.items():
            value, place = values[key], self._place.at(key)
            filled[key] = value if key in IDENTITY else self._fill(value, place, is_required=is_required)
        for field, variable in {**needed, **kind.stand_ins}.items():
            used = written.get(field)
            is_missing = field in needed and used is not None and has_reference(values[used])
            value = "" if used is None or filled[used] is None else filled[used]
            if not is_missing and not str(value).strip():
                place = self._place.at(spellings(kind)[field][0])
                text = f"${{{{ {variable} }}}}"
                filled[used or place.key] = self._fill_text(text, place, is_required=field in needed)
        return filled

    def _fill(self, value: Json, place: Place, *, is_required: bool) -> Json:
        """Fill in a value. Entries of lists and mappings are required, because the user wrote them."""
        if isinstance(value, str):
            return self._fill_text(value, place, is_required=is_required)
        if isinstance(value, list):
            return [self._fill(item, place.at(index), is_required=True) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._fill(item, place.at(key), is_required=True) for key, item in value.items()}
        return value

    def _fill_text(self, text: str, place: Place, *, is_required: bool) -> str | None:
        names = REFERENCE.findall(text)
        missing = [name for name in dict.fromkeys(names) if not self._variables.get(name, "").strip()]
        self._names[place.key] = names
        for name in missing if is_required else ():
            self.missing.setdefault(name, []).append(place.key)
        for name in names:
            self.secrets.update(secrets_of(name, self._variables.get(name, "")))
        if missing:
            return None
        filled = REFERENCE.sub(lambda match: self._variables[match[1]], text)
        self.secrets.update(secrets_of(str(place.keys[-1]), filled))
        return filled


def _written_keys(part: Any, values: JsonObject) -> dict[str, str]:
    """Return the written key of each field: the first of its spellings that is not null."""
    return {field: key for field, keys in spellings(part).items() if (key := first_key(values, keys)) is not None}
