"""A pytest plugin that talks to a test explorer as the Python extension of VS Code does.

It reads from items what the extension's adapter reads, builds the same tree, and sends each message through a named
pipe in pieces of 4096 bytes, from every process of a run. `IDE_CLIENT_PIPE` is the path of the pipe; `read_messages`
is the explorer's end.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PIECE = 4096
"""Bytes that reach the pipe in one piece: longer messages of two processes run into each other."""

_shown: set[str] = set()
_paths: dict[str, Path] = {}
_errors: list[str] = []


def absolute_id(node_id: str, path: Path) -> str:
    """Return the id by which the explorer knows an item, and runs it again."""
    return "::".join([str(path), *node_id.split("::")[1:]])


def read_messages(stream: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the length in bytes and the content of each message. Raises `ValueError` where two ran into each other."""
    while stream:
        header, _, rest = stream.partition(b"\r\n\r\n")
        length = int(header.removeprefix(b"content-length: "))
        yield len(header) + 4 + length, json.loads(rest[:length])
        stream = rest[length:]


def send(message: dict[str, Any]) -> None:
    content = json.dumps(message).encode("ascii")
    data = b"content-length: %d\r\n\r\n%s" % (len(content), content)
    pipe = os.open(os.environ["IDE_CLIENT_PIPE"], os.O_WRONLY)
    try:
        for start in range(0, len(data), PIECE):
            os.write(pipe, data[start : start + PIECE])
    finally:
        os.close(pipe)


def test_node(item: pytest.Item) -> dict[str, Any]:
    line = item.location[1]
    return {
        "name": item.name,
        "path": str(item.path),
        "lineno": "" if line is None else str(line + 1),
        "type_": "test",
        "id_": absolute_id(item.nodeid, item.path),
    }


test_node.__test__ = False  # type: ignore[attr-defined]


def build_tree(session: pytest.Session) -> dict[str, Any]:
    """Return folders, files, classes and tests, as nested nodes."""
    root = folder_node(session.config.rootpath)
    for item in session.items:
        node = test_node(item)
        parent = item.parent
        if hasattr(item, "callspec"):
            # The adapter takes the file for one of Python, and loses the tree of the whole workspace where it is not.
            item.nodeid.rsplit(".py")[1]
        while isinstance(parent, pytest.Class):
            node = {
                "name": parent.name,
                "path": str(item.path),
                "type_": "class",
                "id_": parent.nodeid,
                "children": [node],
            }
            parent = parent.parent
        assert parent is not None
        insert(root, parent.path, node)
    return root


def folder_node(path: Path, kind: str = "folder") -> dict[str, Any]:
    return {"name": path.name, "path": str(path), "type_": kind, "id_": str(path), "children": []}


def insert(root: dict[str, Any], file: Path, node: dict[str, Any]) -> None:
    """Put a test below its file, and that below the folders between it and the root."""
    place = root
    for path in [*reversed(file.relative_to(root["path"]).parents[:-1]), file.relative_to(root["path"])]:
        full = Path(root["path"], path)
        found = next((child for child in place["children"] if child["path"] == str(full)), None)
        if found is None:
            found = folder_node(full, "file" if full == file else "folder")
            place["children"].append(found)
        place = found
    place["children"].append(node)


def pytest_collection_finish(session: pytest.Session) -> None:
    _paths.update({item.nodeid: item.path for item in session.items})


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Send what became of a call; the first word on an item is the last."""
    if report.when != "call" or report.nodeid not in _paths:
        return
    outcome = {"passed": "success", "failed": "failure"}.get(report.outcome, "skipped")
    send_outcome(report.nodeid, outcome, report.longreprtext if report.failed else None)


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any], report: Any) -> None:
    assert call.excinfo is not None
    if isinstance(node, pytest.Collector):
        _errors.append(report.longreprtext)
        return
    outcome = "failure" if call.excinfo.typename == "AssertionError" else "error"
    send_outcome(node.nodeid, outcome, report.longreprtext)


def send_outcome(node_id: str, outcome: str, text: str | None) -> None:
    name = absolute_id(node_id, _paths[node_id])
    if name not in _shown:
        _shown.add(name)
        send({"result": {name: {"test": name, "outcome": outcome, "message": text, "traceback": None}}})


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.option.collectonly:
        # Python's own json, as the adapter has it: what is no plain value ends the discovery.
        send({"status": "error" if _errors else "success", "tests": build_tree(session), "error": _errors})
    _shown.clear()
    _paths.clear()
    _errors.clear()
