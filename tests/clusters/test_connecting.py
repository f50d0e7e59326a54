"""What a run checks of a cluster before it sends anything: each fault is one message that says what to do."""

import pytest
from dask_cluster import NEEDS_DASK
from scripted_agent import numbered, write_agent, write_cases

pytestmark = [pytest.mark.dask, NEEDS_DASK]


@pytest.fixture
def cases(project):
    write_agent(project)
    write_cases(project, numbered(1))
    return project


def refused(cases, address, *args):
    """Run, expect a wrong use and no case, and return the message."""
    run = cases.run(f"--agentv-executor={address}", *args)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert not run.internals
    assert not run.results
    return run.text


def test_no_scheduler(cases):
    text = refused(cases, "dask://127.0.0.1:1")
    assert "ERROR: dask://127.0.0.1:1: no scheduler of Dask answered within 10 s (" in text
    assert "start one with `dask scheduler --port 1`" in text


def test_an_encrypted_connection_without_certificates(cases):
    text = refused(cases, "tls://127.0.0.1:1")
    assert "ERROR: tls://127.0.0.1:1: the connection cannot be encrypted: " in text
    assert "set distributed.comm.tls.ca-file and distributed.comm.tls.client in Dask's configuration" in text


def test_workers_with_other_versions(cases, make_cluster, tmp_path):
    cluster = make_cluster()
    (tmp_path / "pytest_agentv-9.9.dist-info").mkdir()
    (tmp_path / "pytest_agentv-9.9.dist-info" / "METADATA").write_text("Name: pytest-agentv\nVersion: 9.9\n")
    cluster.add_worker("one", PYTHONPATH=str(tmp_path))
    cluster.add_worker("two")
    text = refused(cases, cluster.address)
    assert f"ERROR: {cluster.address}: workers and this run must have the same versions" in text
    assert "  worker tcp://127.0.0.1:" in text
    assert " has pytest-agentv 9.9, and this run 0.1.0: install 0.1.0 there" in text
    assert text.count("  worker ") == 1
