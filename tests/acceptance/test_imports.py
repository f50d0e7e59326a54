"""What a run loads: nearly nothing without eval files, no network and no model library to list cases."""

import functools
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import warm
from thorough import variation

HEAVY = {"pydantic", "yaml", "litellm", "asyncio", "dotenv", "wcmatch"}
LIST_MODULES = """
import sys

def pytest_unconfigure(config):
    with open(config.rootpath / "modules.txt", "a") as file:  # workers and their controller, one after the other
        print(*sys.modules, sep="\\n", file=file)
"""
MOCK_TARGET = "targets: [{name: default, provider: mock, response: hello}]\n"
ONE_CASE = """
evaluators: [{name: words, type: heuristic, hits: [hello]}]
evalcases:
  - {id: one, expected_outcome: hello, input: hello}
"""
REFUSE_SOCKETS = """
import socket

class Refused(socket.socket):
    def __init__(self, *args, **kwargs):
        raise AssertionError("a socket was opened")

socket.socket = Refused
"""


@pytest.fixture
def project(project):
    project.write("conftest.py", LIST_MODULES)
    project.write("test_python.py", "def test_one(): ...\n")
    return project


def modules_of_a_run(folder, *arguments):
    """Run pytest in a process of its own (and its workers) and return the names of the modules that were loaded."""
    (folder / "modules.txt").unlink(missing_ok=True)
    without = ("-p", "no:rerunfailures", "-p", "no:hypothesispytest", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", *without, *arguments]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return set((folder / "modules.txt").read_text().split())


@pytest.fixture
def loaded(project):
    return functools.partial(modules_of_a_run, project.path)


@pytest.fixture(scope="module")
def plain_run(shared_project):
    """Run one case on a mock target; return the modules that were loaded."""
    project = shared_project()
    project.write("conftest.py", LIST_MODULES)
    project.write("qa.eval.yaml", ONE_CASE)
    project.write("targets.yaml", MOCK_TARGET)
    return modules_of_a_run(project.path, "qa.eval.yaml")


@pytest.fixture(scope="module")
def loaded_without(tmp_path_factory):
    """Return the modules of a run without the plugin, to which no eval file makes a difference."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "conftest.py").write_text(LIST_MODULES)
    (folder / "test_python.py").write_text("def test_one(): ...\n")
    return functools.cache(functools.partial(modules_of_a_run, folder, "-p", "no:agentv"))


def heavy(modules):
    return sorted({module.partition(".")[0] for module in modules} & HEAVY)


def test_a_run_without_eval_files_loads_next_to_nothing_of_ours(loaded, loaded_without):
    added = loaded() - loaded_without()
    assert "pytest_agentv.plugin" in added
    assert len(added) <= 15
    assert heavy(added) == []
    assert {module for module in added if not module.startswith("pytest_agentv")} == set()


@pytest.mark.slow
def test_files_of_others_load_neither_yaml_nor_pydantic_nor_the_engine(project, loaded, loaded_without):
    for name in ("other.yaml", "targets.yaml", "evals/targets.yaml", "evals/other.yml", "data.jsonl"):
        project.write(name, "targets:\n  - name: default\n    provider: mock\n")
    modules = loaded()
    assert heavy(modules - loaded_without()) == []
    assert "pytest_agentv.engine" not in modules


@variation
def test_workers_and_their_controller_load_no_engine_without_eval_files(loaded, loaded_without):
    modules = loaded("-n", "1")
    assert heavy(modules - loaded_without()) == []
    assert "pytest_agentv.engine" not in modules


@pytest.mark.scenario("Lazy .env loading")
def test_listing_cases_loads_no_model_library_and_no_pydantic_reads_no_env_file_and_opens_no_socket(
    project, loaded, loaded_without
):
    project.write("conftest.py", LIST_MODULES + REFUSE_SOCKETS)
    project.write("qa.eval.yaml", ONE_CASE)
    project.write("targets.yaml", "targets: [broken\n")
    project.write(".env", "not = valid = at all\n'\n")
    modules = loaded("--collect-only")
    assert "pytest_agentv.engine.case" in modules
    assert not {"litellm", "dotenv", "openai", "httpx"} & modules
    assert "pydantic" not in modules - loaded_without()


def test_a_plain_run_loads_pydantic_and_yaml_of_other_packages_only(plain_run, loaded_without):
    before = loaded_without()
    added = {module.partition(".")[0] for module in plain_run - before} & packages_distributions().keys()
    used = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection", "yaml"}
    # Before: other plugins of pytest that are installed here may load some of these.
    assert added - {"pytest_agentv", "_pytest", "typing_extensions", "_yaml"} - before == used - before


def test_a_run_on_a_mock_target_loads_no_model_library_and_opens_no_socket(plain_run):
    assert not {"litellm", "dotenv", "openai", "httpx", "aiohttp"} & plain_run


@pytest.mark.slow
def test_a_run_of_a_command_loads_no_http_client(project, loaded):
    project.write("qa.eval.yaml", ONE_CASE)
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: 'echo {PROMPT}'}]\n")
    assert not {"aiohttp", "genai_prices"} & loaded("qa.eval.yaml")


def test_a_run_without_repeats_and_baseline_loads_nothing_that_judges_runs(plain_run):
    reports = tuple(f"pytest_agentv.reports.{name}" for name in ("verdict", "judged_cases", "compare"))
    rooms = ("pytest_agentv.stats.", *reports, "pytest_agentv.session.gates")
    others = ("pytest_agentv.session.repeats",)
    assert {module for module in plain_run if module.startswith(rooms) or module in others} == set()


@variation
def test_only_repeated_cases_load_what_they_need(plain_run, project, loaded):
    parts = ("repeats", "stats.intervals")
    own = {module for module in plain_run if module.startswith("pytest_agentv")}
    assert "pytest_agentv.engine.case" in own
    assert {module for module in own if module.endswith(parts)} == set()
    project.write("targets.yaml", MOCK_TARGET)
    project.write("a.eval.yaml", ONE_CASE)
    repeated = loaded("a.eval.yaml", "--agentv-repeat=2")
    assert {"pytest_agentv.session.repeats", "pytest_agentv.stats.intervals"} <= repeated


@pytest.mark.parametrize("module", ["pytest_agentv", "pytest_agentv.model.results", "pytest_agentv.errors"])
def test_the_package_and_its_ground_floor_load_nothing_heavy(module):
    script = f"import sys, {module}; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(finished.stdout.split())
    assert heavy(modules) == []
    assert "pytest" not in modules


def test_the_top_of_the_package_is_tiny():
    script = "import sys; before = set(sys.modules); import pytest_agentv; print(*(set(sys.modules) - before))"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(finished.stdout.split()) <= 3


def test_a_run_loads_our_modules_as_they_were_compiled_at_the_installation(project):
    """pytest marks those of an installed plugin, whose asserts it rewrites."""
    project.write("conftest.py", 'import pytest\n\npytest.register_assert_rewrite("pytest_agentv")\n')
    project.write(
        "test_python.py",
        "import pytest_agentv.reports.compare as module\n\n"
        "def test_one():\n    assert type(module.__loader__).__name__ == 'SourceFileLoader'\n",
    )
    command = [sys.executable, "-m", "pytest", "-q"]
    finished = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@variation
def test_evals_run_where_xdist_is_not_installed(project, suite):
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("without_xdist.py", "import sys\nsys.modules['xdist'] = None\n")
    command = [sys.executable, "-m", "pytest", "-p", "without_xdist", "-p", "pytest_agentv.plugin", "-rA"]
    root = os.environ["PYTEST_DEBUG_TEMPROOT"]  # elsewhere it deletes the folders of earlier runs of all tests
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": "/usr/bin:/bin", "PYTEST_DEBUG_TEMPROOT": root}
    finished = subprocess.run(command, cwd=project.path, env=environment, capture_output=True, text=True, check=False)
    assert "PASSED qa.eval.yaml::a" in finished.stdout
    assert "FAILED qa.eval.yaml::b - words: missing" in finished.stdout
    assert "2 passed, 1 failed" in finished.stdout or "1 failed, 2 passed" in finished.stdout
    assert finished.stderr == ""


@variation
def test_nothing_is_warned_of_because_agentv_was_imported_before_pytest(project, suite):
    project.write("qa.eval.yaml", suite(a="hello"))
    project.write("targets.yaml", MOCK_TARGET)
    command = [str(Path(sysconfig.get_path("scripts"), "agentv")), "eval", "qa.eval.yaml", "-W", "error"]
    environment = {**warm.environment_of_a_user(), "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:anyio"}
    finished = subprocess.run(command, cwd=project.path, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "warning" not in finished.stdout
