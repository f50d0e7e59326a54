"""Editors: the real yaml-language-server, with the schemas that the files of `agentv init` name."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import agentv

_FOLDER = os.environ.get("AGENTV_TEST_PROGRAMS")
SERVER = (
    Path(_FOLDER, "node_modules", ".bin", "yaml-language-server")
    if _FOLDER
    else Path(shutil.which("yaml-language-server") or "nowhere")
)

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        not SERVER.exists(), reason="yaml-language-server is neither in $AGENTV_TEST_PROGRAMS nor on PATH"
    ),
]

CASES = "cases:\n  - id: a\n    criteria: o\n    input: q\n    assert:\n"


class Editor:
    """An editor that speaks to the language server, one message after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head = (folder / "example.eval.yaml").read_text("utf-8").partition("\n")[0] + "\n"
        """The line that names the schema."""
        self._ids = 0
        self._diagnostics: dict[str, list[Any]] = {}
        self._process = subprocess.Popen([SERVER, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        capabilities = {"textDocument": {"completion": {"completionItem": {"snippetSupport": True}}}}
        self.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities})
        self._tell("initialized", {})
        yaml = {"validate": True, "completion": True, "hover": True, "schemaStore": {"enable": False}}
        self._tell("workspace/didChangeConfiguration", {"settings": {"yaml": yaml}})

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def faults(self, name: str, text: str) -> list[str]:
        """Open a file and return what the editor would underline: `line: message`."""
        uri = self._open(name, text)
        while uri not in self._diagnostics:
            self._read()
        return [f"{each['range']['start']['line'] + 1}: {each['message']}" for each in self._diagnostics[uri]]

    def completions(self, name: str, text: str) -> dict[str, Any]:
        """Return what is offered where `|` stands, by its label."""
        before, _, after = text.partition("|")
        uri = self._open(name, before + after)
        lines = before.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        found = self.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": position})
        return {item["label"]: item for item in (found["items"] if isinstance(found, dict) else found)}

    def hover(self, name: str, text: str) -> str:
        before, _, after = text.partition("|")
        uri = self._open(name, before + after)
        lines = before.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        return json.dumps(self.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position}))

    def ask(self, method: str, params: Any) -> Any:
        self._ids += 1
        self._write({"id": self._ids, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self._ids and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def _open(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, "utf-8")
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}
        self._tell("textDocument/didOpen", {"textDocument": document})
        return path.as_uri()

    def _tell(self, method: str, params: Any) -> None:
        self._write({"method": method, "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        """Return the next message; answer the server's own questions."""
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        if "id" in message and "method" in message:
            wanted = message.get("params", {}).get("items", ()) if "configuration" in message["method"] else None
            answer = None if wanted is None else [None] * len(wanted)
            self._write({"id": message["id"], "result": answer})
        if message.get("method") == "textDocument/publishDiagnostics":
            self._diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("editor")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert agentv(["init"]) == 0
    started = Editor(folder / "evals")
    yield started
    started.close()


def test_what_init_writes_has_no_fault(editor: Editor) -> None:
    for path in sorted(editor.folder.glob("*.yaml")):
        assert "# yaml-language-server: $schema=" in path.read_text("utf-8")
        assert editor.faults(path.name, path.read_text("utf-8")) == []


def test_short_forms_have_no_fault(editor: Editor) -> None:
    checks = (
        "      - contains: 30 days\n      - {not-contains: sorry, weight: 2, required: true}\n"
        "      - length: {min_words: 3}\n      - field: {path: a, equals: 3}\n      - is-json: true\n"
        "      - Is polite\n"
    )
    assert editor.faults("good.eval.yaml", editor.head + CASES + checks) == []


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("{contains: x, wieght: 2}", "Property wieght is not allowed"),
        ("{type: contains, value: x, wieght: 2}", "Property wieght is not allowed"),
        ("{length: {min_wrods: 3}}", "Property min_wrods is not allowed"),
        ("{contains: 5}", 'Incorrect type. Expected "string"'),
    ],
)
def test_a_wrong_key_or_value_is_underlined(editor: Editor, check: str, fault: str) -> None:
    found = editor.faults(f"{abs(hash(check))}.eval.yaml", f"{editor.head}{CASES}      - {check}\n")
    assert any(each.startswith("7: ") and fault in each for each in found), found


def test_a_wrong_kind_and_a_wrong_key_of_a_case_are_underlined(editor: Editor) -> None:
    assert editor.faults("kind.eval.yaml", f"{editor.head}{CASES}      - contians: x\n") != []
    found = editor.faults("case.eval.yaml", f"{editor.head}{CASES}      - contains: x\n    treshold: 1\n")
    assert any("Property treshold is not allowed" in each for each in found), found


def test_kinds_and_keys_are_completed(editor: Editor) -> None:
    kinds = editor.completions("a.eval.yaml", f"{editor.head}{CASES}      - con|\n")
    assert {"contains", "contains-any", "not-contains", "is-json", "type"} <= set(kinds)
    keys = editor.completions("b.eval.yaml", f"{editor.head}{CASES}      - levenshtein: x\n        |\n")
    assert {"threshold", "weight", "required", "path", "name"} <= set(keys)
    inner = editor.completions("c.eval.yaml", f"{editor.head}{CASES}      - length:\n          m|\n")
    assert {"min_words", "max_chars"} <= set(inner)
    types = editor.completions("d.eval.yaml", f"{editor.head}{CASES}      - type: |\n")
    assert {"contains", "is-json", "llm_judge", "not-regex"} <= set(types)


def test_other_spellings_are_not_offered(editor: Editor) -> None:
    case = editor.completions("e.eval.yaml", f"{editor.head}cases:\n  - id: a\n    |\n")
    assert {"criteria", "input", "assert"} <= set(case)
    assert {"expected_outcome", "input_messages", "evaluators", "execution"}.isdisjoint(case)
    kinds = editor.completions("f.eval.yaml", f"{editor.head}{CASES}      - h|\n")
    assert "contains" in kinds
    assert "heuristic" not in kinds
    old = "evalcases:\n  - {id: a, expected_outcome: o, input_messages: q, evaluators: [{heuristic: [x]}]}\n"
    assert editor.faults("g.eval.yaml", editor.head + old) == []


def test_a_key_is_explained(editor: Editor) -> None:
    assert "A text is in the answer" in editor.hover("h.eval.yaml", f"{editor.head}{CASES}      - cont|ains: x\n")
