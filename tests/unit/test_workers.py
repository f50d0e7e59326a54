"""A job in a worker: secrets, another folder, cancellations."""

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agentv.engine.jobs import CaseIdentity, CaseJob
from pytest_agentv.executors.worker import JobRefused, Reply, Setup, close_engine, pack, run_job
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import InputMessage, TextPart
from pytest_agentv.model.options import RunOptions

SECRET = "s3cr3t-of-the-worker"
HOME = Path("/nowhere/shop")
"""The folder of the project on the machine of the run. This machine does not have it."""


@pytest.fixture(autouse=True)
def root_handlers() -> Iterator[None]:
    """Remove what workers add for the life of their process, which is this one."""
    before = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = before


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a copy of the project, as a worker does."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".env").write_text(f"WORKER_API_KEY={SECRET}\n")
    (tmp_path / "a.eval.yaml").write_text("")
    (tmp_path / "targets.yaml").write_text(
        "targets:\n"
        "  - {name: default, provider: cli, command_template: 'echo hello $WORKER_API_KEY of $PWD'}\n"
        "  - {name: broken, provider: cli, command_template: 'cat $PWD/absent.txt'}\n"
        "  - {name: slow, provider: cli, command_template: 'echo $$ > started; exec sleep 600'}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def setup(tmp_path: Path):
    setup = Setup("agentv-test", RunOptions(), HOME, HOME, tmp_path / "shared", process="elsewhere 1")
    yield setup
    close_engine(setup.name)


@pytest.fixture(autouse=True)
def no_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_agentv.executors.worker._CLOSED", set())


def job_of(target: str = "default", name: str = "a.eval.yaml") -> bytes:
    message = InputMessage("user", (TextPart("hi"),))
    chat = ({"role": "user", "content": "hi"},)
    case = EvalCase("a", "a", str(HOME / name), 1, "says hello", "hi", (message,), chat, evaluators=())
    identity = CaseIdentity(
        eval_id="a", dataset="a", target=target, eval_file=name, line=1, node_id=f"{name}::a", run_id="r"
    )
    return pack((CaseJob(identity, case, RunOptions()), None), HOME)


def record_of(setup: Setup, *job: str):
    data = run_job(setup.to_bytes(), job_of(*job), lambda: True)
    record = Reply.from_plain(json.loads(data)).record
    assert record is not None
    return record, data


def test_a_worker_in_a_copy_of_the_project_replies_with_the_paths_of_the_run(setup: Setup, folder: Path) -> None:
    record, data = record_of(setup)
    assert record["candidate_answer"] == f"hello *** of {HOME}"
    record, _ = record_of(setup, "broken")
    assert f"{HOME}/absent.txt" in record["error"]
    assert SECRET.encode() not in data
    assert str(folder).encode() not in data


def test_a_worker_that_does_not_see_the_project_says_so(setup: Setup) -> None:
    record, _ = record_of(setup, "default", "b.eval.yaml")
    assert record["error_detail"] == {"stage": "setup", "kind": "config"}
    assert f" does not see {HOME}/b.eval.yaml: start it in the project's folder" in record["error"]


def test_a_job_that_is_not_wanted_ends_its_program(setup: Setup, folder: Path) -> None:
    started = folder / "started"
    data = run_job(setup.to_bytes(), job_of("slow"), lambda: not started.exists())
    assert Reply.from_plain(json.loads(data)) == Reply()
    assert not Path(f"/proc/{started.read_text().strip()}").exists()
    assert record_of(setup)[0]["candidate_answer"], "the next job opens the targets again"


def test_the_jobs_of_a_run_share_its_open_targets(setup: Setup) -> None:
    record_of(setup)
    record_of(setup)
    assert [thread.name for thread in threading.enumerate()].count("agentv") == 1


def test_a_worker_takes_no_job_of_a_run_that_is_over(setup: Setup) -> None:
    setup.shared_folder.mkdir()
    setup.mark.touch()
    assert Reply.from_plain(json.loads(run_job(setup.to_bytes(), job_of()))) == Reply()


def test_what_cannot_be_pickled_is_refused(setup: Setup) -> None:
    with pytest.raises(JobRefused):
        pack(lambda: None, HOME)
    assert json.loads(run_job(setup.to_bytes(), b"no pickle", lambda: True))["refused"]
