"""What makes an earlier answer of a target invalid, and what nobody can tell."""

from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.files.problems import Problem
from pytest_agentv.model.cases import Target
from pytest_agentv.providers.cli import Cli
from pytest_agentv.providers.python import Python
from pytest_agentv.store.fingerprints import Fingerprints

PROJECT = {
    "agent.py": "import os, prices as p\nfrom shop import (\n    stock,  # a module\n    NAME,\n)\n",
    "prices.py": "if True:\n    import shop.deep.inner\n",
    "shop/__init__.py": "NAME = 1\n",
    "shop/stock.py": "from .deep import outer\n",
    "shop/deep/__init__.py": "",
    "shop/deep/inner.py": "def late():\n    try:\n        import last\n    finally: ...\n",
    "shop/deep/outer.py": "match 1:\n    case 1: from ...near import x\n",
    "near.py": "import near, agent\n",
    "last.py": "",
    "unrelated.py": "",
    "os.txt": "",
    "venv/lib/site-packages/installed.py": "",
}
PROGRAM = {
    *("agent.py", "prices.py", "near.py", "last.py"),
    *("shop/__init__.py", "shop/stock.py", "shop/deep/__init__.py", "shop/deep/inner.py", "shop/deep/outer.py"),
}


def write(folder: Path, files: dict[str, str] = PROJECT) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def hash_of(root: Path, settings: Any, warnings: list[Problem] | None = None, **others: Any) -> str | None:
    target = Target("t", "kind", settings, path=str(root / "targets.yaml"), line=1, **others)
    told = [] if warnings is None else warnings
    return Fingerprints([root], lambda problem, _: told.append(problem)).of_target(target)


def counting(root: Path, settings: Any) -> set[str]:
    """Return the files whose edit changes the hash of a target."""
    usual, found = hash_of(root, settings), set[str]()
    assert usual is not None
    for name in PROJECT:
        text = (root / name).read_text()
        (root / name).write_text(f"{text}\n")
        found |= {name} if hash_of(root, settings) != usual else set()
        (root / name).write_text(text)
    return found


@pytest.mark.parametrize("name", ["agent.py:answer", "agent:answer"])
def test_a_function_is_its_module_and_what_that_imports_early_or_late(tmp_path: Path, name: str) -> None:
    assert counting(write(tmp_path), Python(callable=name)) == PROGRAM


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python last.py {PROMPT} --note agent.txt", {"last.py"}),
        ("python -m shop.deep.inner", {"shop/__init__.py", "shop/deep/__init__.py", "shop/deep/inner.py", "last.py"}),
        ("cat os.txt; (./unrelated.py)|cat>last.py", {"os.txt", "unrelated.py"}),
        ("agent --config=os.txt", {"os.txt"}),
        ("cd shop && python __init__.py; cd deep;cat inner.py", {"shop/__init__.py", "shop/deep/inner.py", "last.py"}),
        ("cd missing || cd 'a\0b' && cat os.txt", set()),
        ("echo hello > os.txt; echo hello >> os.txt; cat os.txt", set()),
        ("python venv/lib/site-packages/installed.py", set()),
        ("python missing.py; cat 'an open quote os.txt", {"os.txt"}),
        (f"cat {'x' * 5000} /etc/hostname .", set()),
    ],
)
def test_the_words_of_a_command_name_files(tmp_path: Path, command: str, expected: set[str]) -> None:
    settings = Cli.model_construct(command_template=command)
    assert counting(write(tmp_path), settings) == expected


@pytest.mark.parametrize("text", ["this is no Python", "a\0b"])
def test_a_file_whose_imports_cannot_be_read_may_have_changed(tmp_path: Path, text: str) -> None:
    write(tmp_path, {**PROJECT, "shop/deep/outer.py": text})
    assert hash_of(tmp_path, Python(callable="agent.py:answer")) is None
