"""Every kind of target and evaluator on a Dask cluster whose workers work in copies of the project."""

import re
import shutil

import pytest
from acceptance.conftest import Project
from dask_cluster import NEEDS_DASK
from elsewhere import reason_not_to_hide
from every_kind import ARGS, AT_HOME, ON_WORKERS, every_kind, without_times

pytestmark = [pytest.mark.dask, NEEDS_DASK]

OWN_KEY = ON_WORKERS if reason_not_to_hide() is None else AT_HOME
"""The key of the copies. Where the project cannot be hidden from workers, they work in it."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, make_shared_cluster):
    """Run every kind here and on a cluster; return the project, the runs, and the keys that the model got there."""
    machine = tmp_path_factory.mktemp("machine")
    (machine / "shop").mkdir()
    project = Project(machine / "shop", ())
    with every_kind(project, tmp_path_factory.mktemp("home")) as model:
        copies = [tmp_path_factory.mktemp(name) / "copy" for name in ("one", "two")]
        for copy in copies:
            shutil.copytree(project.path, copy)
            (copy / ".env").write_text((project.path / ".env").read_text().replace(AT_HOME, OWN_KEY))
        here = project.run("--agentv-executor=local", "--agentv-workers=8", *ARGS)
        cluster = make_shared_cluster(hidden=[machine] if reason_not_to_hide() is None else [])
        for copy in copies:
            cluster.add_worker(copy.parent.name, 4, copy)
        before = len(model.asked("model"))
        there = project.run(f"--agentv-executor={cluster.address}", "--agentv-workers=8", *ARGS, "-v")
        keys = [request.api_key for request in model.asked("model")[before:]]
    return project, here, there, keys


def test_records_are_those_of_a_local_run(runs):
    _, here, there, _ = runs
    local, distant = without_times(here.results), without_times(there.results)
    assert distant.keys() == local.keys()
    for name, record in local.items():
        assert distant[name] == record


def test_no_case_stayed_at_home(runs):
    assert re.search(r"^agentv: executor dask://127.0.0.1:\d+: \d+ answers$", runs[2].text, re.MULTILINE)


def test_keys_are_those_of_the_workers_and_nothing_holds_them(runs):
    project, _, there, keys = runs
    assert keys
    assert all(key is not None and OWN_KEY in key for key in keys)
    for secret in (AT_HOME, ON_WORKERS):
        assert secret not in there.text
        for path in project.path.rglob("*"):
            if path.is_file() and path.name != ".env":
                assert secret not in path.read_bytes().decode("utf-8", "replace"), path
