"""The workspace file that VS Code opens for a subagent, by itself or from a template of the user."""

import json
import os
import re
from pathlib import Path
from typing import Final, NoReturn

from pytest_agentv.errors import ProviderError, locate
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.text import pretty_json

DEFAULT_WORKSPACE: Final[JsonObject] = {
    "folders": [{"path": "."}],
    "settings": {"chat.modeFilesLocations": {".github/agents/**/*.md": True}},
}
_LOCATIONS: Final = ("chat.promptFilesLocations", "chat.instructionsFilesLocations", "chat.modeFilesLocations")
"""Settings whose keys are paths."""

_STRING: Final = r'"(?:\\.|[^"\\\n])*"'
_COMMENT: Final = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


def workspace_text(template: str | None) -> str:
    """Return the text of a subagent's workspace file.

    The folders of a template come after the subagent's own. Relative paths are relative to the template.

    Raises `ProviderError` that names the template's file and, if known, the line.
    """
    if template is None:
        return pretty_json(DEFAULT_WORKSPACE)
    path = Path(template)
    data = _read(path)
    workspace = {**data, "folders": [{"path": "."}, *_absolute_folders(path, data.get("folders"))]}
    settings = data.get("settings", {})
    if not isinstance(settings, dict):
        _refuse(path, f"settings: expected an object, got {describe_value(settings)}")
    if settings:
        workspace["settings"] = {key: _absolute_locations(path, key, value) for key, value in settings.items()}
    return pretty_json(workspace)


def _read(path: Path) -> JsonObject:
    """Read JSON as VS Code does, with comments and trailing commas."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(path, "is not UTF-8")
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror}")
    plain = _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)
    plain = _TRAILING_COMMA.sub(lambda match: match[1] or " ", plain)
    try:
        data = json.loads(plain)
    except json.JSONDecodeError as error:
        _refuse(path, f"invalid JSON: {error.msg} (column {error.colno})", error.lineno)
    except RecursionError:
        _refuse(path, "the values are nested too deeply")
    if not isinstance(data, dict):
        _refuse(path, f"expected an object with a list of 'folders', got {describe_value(data)}")
    return data


def _absolute_folders(path: Path, folders: Json) -> list[JsonObject]:
    if not isinstance(folders, list):
        found = "it is missing" if folders is None else f"got {describe_value(folders)}"
        _refuse(path, f'folders: expected a list such as [{{"path": "."}}], {found}')
    for index, folder in enumerate(folders):
        if not isinstance(folder, dict) or not isinstance(folder.get("path", folder.get("uri")), str):
            _refuse(path, f'folders[{index}]: expected an object with a text "path", got {json.dumps(folder)[:60]}')
    return [
        {**folder, "path": os.path.normpath(path.parent / folder["path"])} if "path" in folder else folder
        for folder in folders
    ]


def _absolute_locations(path: Path, key: str, value: Json) -> Json:
    if key not in _LOCATIONS or not isinstance(value, dict):
        return value
    return {_absolute_pattern(path.parent, location): is_on for location, is_on in value.items()}


def _absolute_pattern(folder: Path, pattern: str) -> str:
    """Return a relative path or glob pattern as an absolute one. VS Code itself resolves `~`."""
    if pattern.startswith(("/", "~")):
        return pattern
    literal, star, rest = pattern.partition("*")
    parent, _, name = literal.rpartition("/")
    return f"{os.path.normpath(folder / parent)}/{name}{star}{rest}" if star else os.path.normpath(folder / pattern)


def _refuse(path: Path, reason: str, line: int | None = None) -> NoReturn:
    raise ProviderError(f"workspace_template {locate(path, line)}: {reason}", "config")
