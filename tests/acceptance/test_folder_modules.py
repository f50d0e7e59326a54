"""Two folders with files of the same names: each folder's target is served by its own modules."""

from collections.abc import Callable

import pytest
from thorough import varied

from .conftest import Project

EARLY = "from prices import WHO\ndef ask(prompt): return WHO\n"
LATE = "def ask(prompt):\n    from prices import WHO\n    return WHO\n"
DYNAMIC = "def ask(prompt):\n    import importlib\n    return importlib.import_module('prices').WHO\n"
PACKAGE = "from tools.words import say\nasync def ask(prompt):\n    return say()\n"
RELATIVE = "from .words import say\ndef ask(prompt): return say()\n"
THREAD = (
    "import threading\n"
    "def ask(prompt):\n"
    "    said = []\n"
    "    def work():\n"
    "        import prices\n"
    "        said.append(prices.WHO)\n"
    "    thread = threading.Thread(target=work)\n"
    "    thread.start()\n    thread.join()\n    return said[0]\n"
)

AGENTS = {
    "early": ("agent.py:ask", {"agent.py": EARLY}),
    "early-module": ("agent:ask", {"agent.py": EARLY}),
    "late": ("agent.py:ask", {"agent.py": LATE}),
    "late-module": ("agent:ask", {"agent.py": LATE}),
    "dynamic": ("agent:ask", {"agent.py": DYNAMIC}),
    "thread": ("agent.py:ask", {"agent.py": THREAD}),
    "namespace": (
        "agent.py:ask",
        {"agent.py": PACKAGE, "tools/words.py": "import prices\ndef say(): return prices.WHO\n"},
    ),
    "package": (
        "pack.agent:ask",
        {
            "pack/__init__.py": "",
            "pack/agent.py": RELATIVE,
            "pack/words.py": "def say():\n    from prices import WHO\n    return WHO\n",
        },
    ),
}


def write_folder(project: Project, suite: Callable[..., str], folder: str, agent: str, *, cases: int = 4) -> None:
    name, files = AGENTS[agent]
    for path, text in files.items():
        project.write(f"{folder}/{path}", text)
    project.write(f"{folder}/prices.py", f"WHO = 'this is {folder}'\n")
    project.write(f"{folder}/targets.yaml", f"targets: [{{name: default, provider: python, callable: '{name}'}}]\n")
    project.write(f"{folder}/x.eval.yaml", suite(**{f"{folder}{number}": folder for number in range(cases)}))


@pytest.mark.parametrize(
    ("agents", "conftest"),
    [(tuple(AGENTS), None), (("early", "late", "late-module", "package"), "import prices\n")],
    ids=["alone", "conftest"],
)
@pytest.mark.parametrize("flags", [("--agentv-workers=8",), varied(("-n", "2"))])
def test_each_folder_has_its_own_modules(
    project: Project, suite: Callable[..., str], agents: tuple[str, ...], conftest: str | None, flags: tuple[str, ...]
) -> None:
    """Pytest puts the folder of each conftest on `sys.path`, and the first import of a name wins."""
    folders = [f"{fruit}-{agent}" for agent in agents for fruit in ("apple", "pear")]
    for folder in folders:
        write_folder(project, suite, folder, folder.partition("-")[2], cases=2)
        if conftest:
            project.write(f"{folder}/conftest.py", conftest)

    run = project.run(*folders, *flags)
    assert run.outcomes == {"passed": 2 * len(folders)}, run.text


def test_the_module_that_the_users_tests_import_is_the_targets(project: Project, suite: Callable[..., str]) -> None:
    write_folder(project, suite, "apple", "late")
    project.write(
        "apple/conftest.py",
        "import agent, prices, pytest\n"
        "@pytest.fixture(autouse=True)\n"
        "def who(monkeypatch): monkeypatch.setattr(prices, 'WHO', 'a patched apple')\n",
    )

    run = project.run("apple")

    assert {result["candidate_answer"] for result in run.results} == {"a patched apple"}


def test_a_package_of_the_project_that_is_importable_is_imported_once(
    project: Project, suite: Callable[..., str]
) -> None:
    project.write("conftest.py", "")
    project.write("shop/__init__.py", "import pathlib\nwith open('log', 'a') as log: log.write('x')\nWHO = 'apple'\n")
    project.write("shop/agent.py", "import shop\ndef ask(prompt): return shop.WHO\n")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'shop.agent:ask'}]\n")
    project.write("evals/x.eval.yaml", suite(a="apple"))
    project.write("test_shop.py", "import shop.agent\ndef test(): assert shop.agent.ask('x') == 'apple'\n")

    assert project.run().outcomes == {"passed": 2}
    assert (project.path / "log").read_text() == "x"


def test_what_is_in_one_folder_only_is_not_found_from_another(project: Project, suite: Callable[..., str]) -> None:
    write_folder(project, suite, "apple", "late", cases=1)
    write_folder(project, suite, "pear", "late", cases=1)
    (project.path / "pear/prices.py").unlink()

    for order in (("apple", "pear"), ("pear", "apple")):
        run = project.run(*order)
        assert run.statuses == {"apple0": "pass", "pear0": "error"}
        assert run.by_id["pear0"]["error"] == (
            "target 'default': agent.py:ask raised ModuleNotFoundError: No module named 'prices'\n"
            "  pear/agent.py:2 in ask"
        )
