"""A cluster with encrypted connections, as the docs set it up."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dask_cluster import NEEDS_DASK, DaskCluster
from scripted_agent import numbered, write_cases

pytestmark = [
    pytest.mark.dask,
    NEEDS_DASK,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes the certificates"),
]

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"


def make_certificates(folder):
    folder.mkdir()
    subject = ("-subj", "/CN=127.0.0.1")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run(
        [*make, "-keyout", "cluster.key", "-out", "cluster.pem"], cwd=folder, check=True, capture_output=True
    )
    shutil.copy(folder / "cluster.pem", folder / "ca.pem")


@pytest.fixture
def encrypted(tmp_path, monkeypatch):
    """Start a cluster with the configuration of the docs."""
    make_certificates(tmp_path / "certificates")
    text = re.search(r"```yaml\n# dask/tls.yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    (tmp_path / "dask").mkdir()
    (tmp_path / "dask" / "tls.yaml").write_text(text.replace("certificates/", f"{tmp_path}/certificates/"))
    environment = {"DASK_CONFIG": str(tmp_path / "dask")}
    monkeypatch.setenv("DASK_CONFIG", environment["DASK_CONFIG"])
    cluster = DaskCluster(tmp_path / "cluster", environment=environment)
    cluster.add_worker("one")
    yield cluster
    cluster.close()


def test_a_run_over_an_encrypted_connection(project, encrypted):
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: echo hello}]\n")
    write_cases(project, numbered(1))
    assert encrypted.address.startswith("dask+tls://")
    run = project.run(f"--agentv-executor={encrypted.address}")
    assert run.statuses == {"case-0": "pass"}
    assert f"agentv: executor {encrypted.address}: 1 answer" in run.lines
