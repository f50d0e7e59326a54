"""The jobs of examples/machines, run as SLURM and Kubernetes run them."""

import json
import os
import subprocess

import pytest
import yaml
from docs_pages import ROOT
from warm_programs import warm_programs

MACHINES = ROOT / "examples/machines"


@pytest.fixture
def programs():
    """The folder with the programs of the scripts."""
    with warm_programs() as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "exit_codes"), [("slurm", [0, 1]), ("kubernetes", [0, 0])])
def test_shards_of_a_cluster_are_one_run(project, suite, programs, kind, exit_codes):
    """A task of SLURM fails with its cases; a pod has done its work, and must not be started again."""
    project.write("evals/a.eval.yaml", suite(a="hello", b="hello", c="nothing", d="hello"))
    project.write("evals/targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    for path in MACHINES.glob("*.s*"):
        project.write(path.name, path.read_text())
    shards, verdict = (slurm if kind == "slurm" else kubernetes)(project.path)
    assert [run(programs, project.path, *shard) for shard in shards] == exit_codes
    before = [path.read_text() for path in sorted((project.path / "results").glob("out-*"))]
    assert run(programs, project.path, *shards[1]) == exit_codes[1], "one that is started again asks for nothing"
    assert [path.read_text() for path in sorted((project.path / "results").glob("out-*"))] == before
    assert run(programs, project.path, *verdict) == 1, "one case fails"
    lines = (project.path / "results/all.jsonl").read_text().splitlines()
    statuses = {line["eval_id"]: line["status"] for line in map(json.loads, lines)}
    assert statuses == {"a": "pass", "b": "pass", "c": "fail", "d": "pass"}


def slurm(folder):
    """Return the commands of two tasks and of the job after them, with the variables that SLURM sets."""
    common = {"SLURM_SUBMIT_DIR": str(folder), "SLURM_ARRAY_TASK_COUNT": "2"}
    shards = [(["bash", "evals.sbatch"], {**common, "SLURM_ARRAY_TASK_ID": str(number)}) for number in (1, 2)]
    return shards, (["bash", "verdict.sbatch"], common)


def kubernetes(folder):
    """Return the commands of the pods of a job of two, and of the job after them."""
    (folder / "results").mkdir()
    scripts = {}
    for name in ("evals", "verdict"):
        manifest = yaml.safe_load((MACHINES / "kubernetes" / f"{name}.yaml").read_text())
        container = manifest["spec"]["template"]["spec"]["containers"][0]
        text = container["args"][0].replace("/results/", "results/").replace("$index/8", "$index/2")
        scripts[name] = [*container["command"], text]
    shards = [(scripts["evals"], {"JOB_COMPLETION_INDEX": str(number)}) for number in (0, 1)]
    return shards, (scripts["verdict"], {})


def run(programs, folder, command, variables):
    path = os.pathsep.join((programs, os.environ["PATH"]))
    flags = "-p no:hypothesispytest -p no:anyio -q"
    environment = {**os.environ, **variables, "PATH": path, "PYTEST_ADDOPTS": flags}
    finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert "Traceback" not in finished.stdout + finished.stderr
    return finished.returncode
