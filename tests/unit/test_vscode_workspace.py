"""The workspace file that VS Code opens for a subagent."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.errors import ProviderError
from pytest_agentv.providers.vscode import workspace_text

SHAPE = ': expected an object with a list such as "folders": [{"path": "."}]'


def transform(folder: Path, text: str) -> Any:
    template = folder / "my.code-workspace"
    template.write_text(text, "utf-8")
    return json.loads(workspace_text(str(template)))


def refusal(folder: Path, text: str | bytes) -> str:
    template = folder / "my.code-workspace"
    template.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ProviderError) as caught:
        workspace_text(str(template))
    assert caught.value.kind == "config"
    start = f"workspace_template {template}"
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def test_the_folders_of_a_template_come_after_that_of_the_subagent(tmp_path: Path) -> None:
    text = '{"folders": [{"path": "."}, {"path": "../x", "name": "X"}, {"path": "/abs"}, {"uri": "vscode-vfs://y"}]}'

    assert transform(tmp_path, text) == {
        "folders": [
            {"path": "."},
            {"path": str(tmp_path)},
            {"path": str(tmp_path.parent / "x"), "name": "X"},
            {"path": "/abs"},
            {"uri": "vscode-vfs://y"},
        ]
    }


def test_the_paths_of_chat_settings_become_absolute_and_globs_stay(tmp_path: Path) -> None:
    locations = {"a/b": True, "../m/**/*.md": False, "*.md": True, "x-*/y": True, "/abs/*": True, "~/own": True}
    settings = {
        "chat.promptFilesLocations": locations,
        "chat.instructionsFilesLocations": {"i": True},
        "chat.modeFilesLocations": "odd",
        "editor.fontSize": 12,
    }

    found = transform(tmp_path, json.dumps({"folders": [], "settings": settings, "launch": {"a": [1]}}))

    assert found["launch"] == {"a": [1]}
    assert found["settings"] == {
        "chat.promptFilesLocations": {
            f"{tmp_path}/a/b": True,
            f"{tmp_path.parent}/m/**/*.md": False,
            f"{tmp_path}/*.md": True,
            f"{tmp_path}/x-*/y": True,
            "/abs/*": True,
            "~/own": True,
        },
        "chat.instructionsFilesLocations": {f"{tmp_path}/i": True},
        "chat.modeFilesLocations": "odd",
        "editor.fontSize": 12,
    }


def test_comments_and_trailing_commas_are_read_as_vs_code_does(tmp_path: Path) -> None:
    text = '\ufeff{ // "folders": 1\n "folders": [ /* , */ {"path": "/a//b,}/*x*/"}, ], "s": "\\"//,]",\n}\n'

    assert transform(tmp_path, text) == {"folders": [{"path": "."}, {"path": "/a/b,}/*x*"}], "s": '"//,]'}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "folders": [\n', ":3: invalid JSON: Expecting value (column 1)"),
        ("/* a\nb */ {folders: []}", ":2: invalid JSON: Expecting property name enclosed in double quotes (column 7)"),
        ("[]", SHAPE),
        ("{}", SHAPE),
        ('{"folders": "."}', SHAPE),
        ('{"folders": ["."]}', ': folders: expected objects with a text "path", got "."'),
        (
            '{"folders": [{"path": "."}, {"path": 5}]}',
            ': folders: expected objects with a text "path", got {"path": 5}',
        ),
        (b'{"folders": "\xff"}', ": cannot be read: it is not UTF-8"),
    ],
)
def test_a_template_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    assert refusal(tmp_path, text) == message


def test_a_template_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ProviderError, match=r"workspace_template /no/such.code-workspace: cannot be read: No such file"
    ):
        workspace_text("/no/such.code-workspace")
    with pytest.raises(ProviderError, match="cannot be read: Is a directory"):
        workspace_text(str(tmp_path))
