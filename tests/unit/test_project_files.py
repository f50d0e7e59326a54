"""Which files of a project a program is made of."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agentv.store.program_files import FileStates, ProjectFiles, command_words


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "agent.py": "import os, prices as p\n"
        "from shop import (\n    stock,  # a module\n    NAME,\n)\nfrom . import near\n",
        "prices.py": "if True:\n    import shop.deep.inner\n",
        "shop/__init__.py": "NAME = 1\n",
        "shop/stock.py": "from .deep import outer\nfrom ..agent import answer\n",
        "shop/deep/__init__.py": "",
        "shop/deep/inner.py": "def late():\n    import last\n",
        "shop/deep/outer.py": "this is no Python, import nothing",
        "near.py": "import near, agent\n",
        "last.py": "",
        "unrelated.py": "",
        "os.txt": "",
        "venv/lib/site-packages/installed.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def names(project: Path, paths: object) -> set[str]:
    return {path.relative_to(project).as_posix() for path in paths}  # type: ignore[attr-defined]


ALL = {
    *("agent.py", "prices.py", "near.py", "last.py"),
    *("shop/__init__.py", "shop/stock.py", "shop/deep/__init__.py", "shop/deep/inner.py", "shop/deep/outer.py"),
}


@pytest.mark.parametrize("name", ["agent.py:answer", "agent:answer"])
def test_a_callable_is_its_module_and_what_that_imports_early_or_late(project: Path, name: str) -> None:
    assert names(project, ProjectFiles(project).of_callable(name, project)) == ALL


@pytest.mark.parametrize(
    "text",
    [
        "import os; import last",
        "try: import last\nexcept ImportError: last = None",
        "def answer(p): import last; return last",
        "if 1: from shop import x; from last import(y)",
        "\ufeffimport last",
        "import os, last\tas other",
        "import os as first , last as other # a comment",
        "\f  import last",
        "from . import(last)",
        "from.import last",
        "from . last import x",
        "from.last import*",
        "from last import (\n    x,  # (old)\n    y,  # )\n)",
        "import \\\n    last",
    ],
)
def test_an_import_is_found_however_it_is_written(project: Path, text: str) -> None:
    (project / "agent.py").write_text(text, "utf-8")

    assert names(project, ProjectFiles(project).of_callable("agent.py:answer", project)) >= {"agent.py", "last.py"}


def test_a_list_of_imports_that_never_ends_is_read_in_time_that_grows_with_the_text_only(project: Path) -> None:
    (project / "agent.py").write_text("from shop import (\n" + "    x,  # a b c d e f\n" * 20_000)

    found = names(project, ProjectFiles(project).of_callable("agent.py:answer", project))

    assert found == {"agent.py", "shop/__init__.py"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python last.py {PROMPT} --note agent.txt", {"last.py"}),
        ("python -m shop.deep.inner", {"shop/__init__.py", "shop/deep/__init__.py", "shop/deep/inner.py", "last.py"}),
        ("cat os.txt | ./unrelated.py", {"os.txt", "unrelated.py"}),
        ("cat os.txt; (./unrelated.py)|cat>last.py", {"os.txt", "unrelated.py"}),
        ("cd shop && python __init__.py; cd deep;cat inner.py", {"shop/__init__.py", "shop/deep/inner.py"}),
        ("cd missing || cd 'a\0b' && cat os.txt", set()),
        ("echo hello > os.txt", set()),
        ("echo hello >> os.txt", set()),
        ("agent --file {FILES} -o {OUTPUT_FILE}", set()),
        ("python venv/lib/site-packages/installed.py", set()),
        ("python missing.py; cat 'an open quote os.txt", {"os.txt"}),
        (f"cat {'x' * 5000} 'a\0b' /etc/hostname .", set()),
    ],
)
def test_the_words_of_a_command_name_files(project: Path, command: str, expected: set[str]) -> None:
    assert names(project, ProjectFiles(project).of_words(command_words(command), project)) == expected


def test_a_file_that_programs_write_to_is_no_part_of_them(project: Path) -> None:
    (project / "run.log").write_text("1")
    (project / "state.sqlite").write_text("1")
    assert list(ProjectFiles(project).of_words(["tool", "run.log", "state.sqlite"], project)) == []


def test_hashes_do_not_depend_on_where_the_project_lies(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    for name in ("last.py", "unrelated.py"):
        (other / name).write_text((project / name).read_text())
    found = [ProjectFiles(root).hashes([root / "last.py", root / "unrelated.py"]) for root in (project, other)]
    assert found[0] == found[1]
    assert list(found[0]) == ["last.py", "unrelated.py"]
    (other / "last.py").write_text("changed")
    assert ProjectFiles(other).hashes([other / "last.py", other / "unrelated.py"]) != found[0]


def test_a_file_outside_of_the_project_is_not_looked_at(project: Path) -> None:
    assert list(ProjectFiles(project / "shop").of_callable("agent.py:answer", project)) == []


def test_a_large_project_is_searched_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of modules import one another, and most names of the standard library, from a long search path."""
    for number in range(100):
        others = "\n".join(f"from shop import part_{other}, NAME\nimport json" for other in range(100))
        (project / f"shop/part_{number}.py").write_text(others)
    (project / "agent.py").write_text("import shop.part_0\n")
    for number in range(20):
        monkeypatch.syspath_prepend(project / f"venv/lib/{number}")
    resolved = []
    resolve = Path.resolve
    monkeypatch.setattr(Path, "resolve", lambda path: resolved.append(path) or resolve(path))

    found = names(project, ProjectFiles(project).of_source(project / "agent.py"))

    assert found == {"agent.py", "shop/__init__.py", *(f"shop/part_{number}.py" for number in range(100))}
    assert len(resolved) < 150


def test_a_folder_that_nobody_may_list_is_searched_all_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert names(project, ProjectFiles(project).of_callable("agent:answer", project)) == ALL


def test_a_file_is_changed_that_has_another_content_or_was_written_meanwhile(tmp_path: Path) -> None:
    path, states = tmp_path / "judge.py", FileStates()
    path.write_text("strict")
    first = states.hash(path)
    begun = states.moment()
    assert not states.is_changed(path, begun)
    path.write_text("lax")
    assert states.is_changed(path, begun)
    path.unlink()
    assert states.is_changed(path, states.moment())
    path.write_text("strict")
    assert states.is_changed(path, begun), "it may have been another one while the case ran"
    assert not states.is_changed(path, states.moment()), "it is the one that was hashed again"
    assert states.hash(path) == first


def test_a_file_that_was_put_back_before_a_moment_is_not_changed(tmp_path: Path) -> None:
    path, states = tmp_path / "judge.py", FileStates()
    path.write_text("strict")
    states.hash(path)
    path.write_text("lax")
    earlier = states.moment()
    assert states.is_changed(path, earlier)
    path.write_text("strict")
    begun = states.moment()
    assert not states.is_changed(path, begun)
    assert states.is_changed(path, earlier)


def write_anew(path: Path) -> None:
    text = path.read_text()
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("touch", [write_anew, lambda path: path.chmod(0o755), lambda path: os.utime(path, (1, 1))])
def test_a_file_that_is_written_with_the_same_content_is_not_changed(
    tmp_path: Path, touch: Callable[[Path], None]
) -> None:
    """A resumed run paid again for the cases of a program that each case made anew."""
    path, states = tmp_path / "judge.py", FileStates()
    path.write_text("strict")
    states.hash(path)
    begun = states.moment()
    for _ in range(2):
        touch(path)
        assert not states.is_changed(path, begun)
    path.write_text("lax")
    assert states.is_changed(path, begun)
