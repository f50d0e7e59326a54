"""Each folder's `.env` reaches its own targets, and nobody else's."""

import os
from collections.abc import Callable

import pytest
from thorough import varied

from .conftest import Project

PYTHON = "provider: python, callable: 'agent.py:ask'"
CLI = "provider: cli, command_template: 'sh -c \"echo ${AGENTV_TEST_WHO-nobody}\" > {OUTPUT_FILE}'"

AT_CALL = """
import os, subprocess, threading, time
def ask(prompt):
    time.sleep(0.02)
    said = [os.environ.get('AGENTV_TEST_WHO', 'nobody')]
    thread = threading.Thread(target=lambda: said.append(os.environ.get('AGENTV_TEST_WHO', 'nobody')))
    thread.start()
    thread.join()
    said.append(subprocess.check_output(['sh', '-c', 'echo ${AGENTV_TEST_WHO-nobody}'], text=True).strip())
    assert len(set(said)) == 1, said
    return said[0]
"""
AT_IMPORT = "import os\nWHO = os.environ.get('AGENTV_TEST_WHO', 'nobody')\nasync def ask(prompt): return WHO\n"


@pytest.fixture(autouse=True)
def clean() -> None:
    assert "AGENTV_TEST_WHO" not in os.environ


def write_folder(
    project: Project, suite: Callable[..., str], name: str, target: str, who: str | None, agent: str = AT_CALL
) -> None:
    project.write(f"{name}/targets.yaml", f"targets: [{{name: default, {target}}}]\n")
    project.write(f"{name}/agent.py", agent)
    if who is not None:
        project.write(f"{name}/.env", f"AGENTV_TEST_WHO={who}\n")
    project.write(f"{name}/x.eval.yaml", suite(**{f"{name}{number}": who or "nobody" for number in range(4)}))


FOLDERS = {
    "apple": (PYTHON, "gala", AT_CALL),
    "pear": (PYTHON, "conference", AT_IMPORT),
    "fig": (PYTHON, None, AT_CALL),
    "date": (PYTHON, None, AT_IMPORT),
    "plum": (CLI, "mirabelle", ""),
    "kiwi": (CLI, None, ""),
    "agent": ("provider: mock, response: unused", "hayward", ""),
    "wrapped": (PYTHON, "williams", AT_CALL),
}
CONFTESTS = {
    "agent": "import os, pytest\n@pytest.fixture(scope='session')\n"
    "def agentv_provider():\n    return lambda prompt: os.environ.get('AGENTV_TEST_WHO', 'nobody')\n",
    # Both calls need the same variables: the inner one takes part in the turn of the outer one.
    "wrapped": "import pytest\n@pytest.fixture\n"
    "def agentv_provider(agentv_provider): return lambda prompt: agentv_provider(prompt)\n",
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("flags", [("--agentv-workers=8",), varied(()), varied(("-n", "2"))])
def test_each_folder_has_its_own(
    project: Project, suite: Callable[..., str], backwards: bool, flags: tuple[str, ...]
) -> None:
    for name, (target, who, agent) in FOLDERS.items():
        write_folder(project, suite, name, target, who, agent)
    for name, text in CONFTESTS.items():
        project.write(f"{name}/conftest.py", text)

    run = project.run(*(reversed(FOLDERS) if backwards else FOLDERS), *flags)

    assert run.outcomes == {"passed": 4 * len(FOLDERS)}, run.text
    assert "AGENTV_TEST_WHO" not in os.environ
