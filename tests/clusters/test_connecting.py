"""What a run checks of a cluster before it sends anything: each fault is one message that says what to do."""

import pytest
from scripted_agent import numbered, write_agent, write_cases

pytestmark = pytest.mark.dask


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
    assert not list(cases.path.glob(".*.kept"))
    return run.text


def test_no_scheduler(cases):
    text = refused(cases, "dask://127.0.0.1:1")
    assert "ERROR: dask://127.0.0.1:1: no scheduler of Dask answered within 10 s (" in text
    assert "start one with `dask scheduler --port 1`" in text


def test_an_encrypted_connection_without_certificates(cases):
    text = refused(cases, "tls://127.0.0.1:1")
    assert "ERROR: tls://127.0.0.1:1: the connection cannot be encrypted: " in text
    assert "set distributed.comm.tls.ca-file and distributed.comm.tls.client in Dask's configuration" in text


def test_a_scheduler_that_repeats_what_a_lost_worker_ran(cases, make_cluster):
    cluster = make_cluster("one", allowed_failures=3)
    text = refused(cases, cluster.address)
    assert (
        f"ERROR: {cluster.address}: Dask may repeat what a lost worker ran, up to 3 times, and each time may be "
        in text
    )
    assert "start the scheduler with DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=0" in text


def test_workers_with_other_versions(cases, make_cluster, tmp_path):
    cluster = make_cluster()
    (tmp_path / "pytest_agentv-9.9.dist-info").mkdir()
    (tmp_path / "pytest_agentv-9.9.dist-info" / "METADATA").write_text("Name: pytest-agentv\nVersion: 9.9\n")
    cluster.add_worker("one", PYTHONPATH=str(tmp_path))
    cluster.add_worker("two")
    text = refused(cases, cluster.address)
    assert f"ERROR: {cluster.address}: workers and this run must have the same versions" in text
    assert "  worker one-1 (tcp://127.0.0.1:" in text
    assert ") has pytest-agentv 9.9, and this run 0.1.0: install 0.1.0 there" in text
    assert "two-2" not in text


def test_variables_are_not_passed_in_clear(cases, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-0123456789abcdef")
    text = refused(cases, "dask://127.0.0.1:1", "--agentv-pass-env=SHOP_API_KEY")
    assert "dask://127.0.0.1:1 is not known to be encrypted or local; set the variable where its workers start" in text
