"""A cluster with encrypted connections, as the docs set it up."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from dask_cluster import DaskCluster
from scripted_agent import numbered, write_cases

pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes the certificates"),
]

SECRET = "sk-passed-0123456789abcdef"
PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


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


def test_variables_are_passed_over_an_encrypted_connection(project, encrypted, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    project.write(
        "targets.yaml",
        'targets: [{name: default, provider: cli, command_template: "echo hello $SHOP_API_KEY"}]\n',
    )
    write_cases(project, numbered(1))
    assert encrypted.address.startswith("dask+tls://")
    run = project.run(f"--agentv-executor={encrypted.address}", "--agentv-pass-env=SHOP_API_KEY")
    assert run.by_id["case-0"]["candidate_answer"] == "hello ***"
    assert f"agentv: executor {encrypted.address}: 1 answer" in run.lines
    for program in (*encrypted.workers.values(), encrypted.scheduler):
        assert SECRET not in program.log.read_text()
