"""The parts of executors by themselves: what travels, what is kept, how workers learn that a run is over."""

import asyncio
import errno
import hashlib
import json
import multiprocessing
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.jobs import NO_HOOKS, NO_OVERRIDES, CaseIdentity, CaseJob
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.executors import engine as worker_engine
from pytest_agentv.executors.base import Frame, FrameReader, JobRefused, Parcel, Reply, Setup, WorkerLost, pack, unpack
from pytest_agentv.executors.bundles import roots_of
from pytest_agentv.executors.engine import WorkerEngine
from pytest_agentv.executors.kept import KeptResult, KeptResults, Leash, LeashEnd
from pytest_agentv.executors.processes import Futures
from pytest_agentv.executors.shipping import Shipper
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind_table import no_kinds
from pytest_agentv.model.messages import InputMessage, TextPart
from pytest_agentv.model.options import check_workers, parse_executor, parse_lost_retries
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.prints import CaseLog
from pytest_agentv.session.recording.left_results import add_left_results
from pytest_agentv.session.running.away import Away

SECRET = "s3cr3t-of-the-worker"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".env").write_text(f"WORKER_API_KEY={SECRET}\n")
    (tmp_path / "targets.yaml").write_text(
        "targets:\n"
        "  - {name: default, provider: cli, command_template: 'echo hello $WORKER_API_KEY'}\n"
        "  - {name: slow, provider: cli, command_template: 'touch started; sleep 600'}\n"
    )
    return tmp_path


@pytest.fixture
def setup(folder: Path) -> Setup:
    return Setup(RunOptions(), folder, folder, folder / "shared", folder / "kept")


def job_of(folder: Path, target: str = "default", answer: int = 0) -> CaseJob:
    path = str(folder / "a.eval.yaml")
    message = InputMessage("user", (TextPart("hi"),))
    case = EvalCase(
        "a", "a", path, 1, "says hello", "hi", (message,), ({"role": "user", "content": "hi"},), evaluators=()
    )
    identity = CaseIdentity(
        eval_id="a", dataset="a", target=target, eval_file="a.eval.yaml", line=1, node_id="a.eval.yaml::a", run_id="r"
    )
    return CaseJob(identity, case, RunOptions(), answer=answer)


def parcel_of(folder: Path, target: str = "default") -> bytes:
    return Parcel(pack(job_of(folder, target))).to_bytes()


@pytest.fixture
def engine(setup: Setup):
    engine = WorkerEngine(setup)
    yield engine
    engine.close()


def test_a_reply_and_what_is_kept_hold_no_secret(engine: WorkerEngine, folder: Path) -> None:
    data = engine.start("ticket", parcel_of(folder)).result(60)
    reply = Reply.from_bytes(data)
    assert reply.result is not None
    assert reply.result["candidate_answer"] == "hello ***"
    kept = KeptResults(folder / "kept").find("ticket")
    assert kept == KeptResult("ticket", reply.result, None)
    assert SECRET.encode() not in data + (folder / "kept" / "ticket.json").read_bytes()


def test_jobs_and_setups_hold_no_variable(setup: Setup, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    assert SECRET.encode() not in pack(job_of(folder)) + pack(setup)


def test_a_cancelled_job_replies_when_its_program_has_ended(engine: WorkerEngine, folder: Path) -> None:
    future = engine.start("ticket", parcel_of(folder, "slow"))
    wait_until((folder / "started").exists)
    engine.cancel("ticket")
    assert Reply.from_bytes(future.result(60)).result is None
    assert KeptResults(folder / "kept").find("ticket") is None


def wait_until(condition) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(wait(), 60))


def test_a_job_that_is_cancelled_before_it_starts_asks_nobody(engine: WorkerEngine, folder: Path) -> None:
    """The first job imports much; those behind it, and their cancellations, wait for the event loop meanwhile."""
    engine.start("first", parcel_of(folder)).result(60)
    is_free = threading.Event()
    engine._loop.call(is_free.wait)
    future = engine.start("ticket", parcel_of(folder, "slow"))
    engine.cancel("ticket")
    is_free.set()
    try:
        assert Reply.from_bytes(future.result(2)).result is None
    finally:
        engine.cancel("ticket")
    assert not (folder / "started").exists()


def test_a_set_up_error_is_not_kept(engine: WorkerEngine, folder: Path) -> None:
    reply = Reply.from_bytes(engine.start("ticket", parcel_of(folder, "nowhere")).result(60))
    assert reply.result is not None
    assert reply.result["error_detail"] == {"stage": "setup", "kind": "config"}
    assert KeptResults(folder / "kept").find("ticket") is None


def test_a_result_that_cannot_be_kept_is_sent_all_the_same(
    engine: WorkerEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("pytest_agentv.executors.engine.KeptResults.keep", fail)
    monkeypatch.setattr("pytest_agentv.executors.engine.Here.take_files", fail)
    reply = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60))
    assert reply.result is not None
    assert reply.result["candidate_answer"] == "hello ***"
    assert [line.split(" ", 1)[0] for line in reply.log] == ["WARNING", "WARNING"]
    assert all("can't start new thread" in line for line in reply.log)


@pytest.mark.parametrize("place", ["recordable", "is_set_up_error"])
def test_a_worker_that_breaks_after_the_answer_replies_with_an_error(
    engine: WorkerEngine, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Nobody would reply in its place: the run would wait for ever. And another worker would pay for it again."""
    good = getattr(worker_engine, place)

    def fail_once(*arguments: object) -> object:
        monkeypatch.setattr(worker_engine, place, good)
        raise RecursionError(f"{SECRET} is too deep")

    monkeypatch.setattr(worker_engine, place, fail_once)
    reply = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60))
    assert (reply.fault, reply.refused) == (None, None)
    assert reply.result is not None
    assert reply.result["error"] == "the worker broke after the answer: RecursionError: *** is too deep"
    assert reply.result["error_detail"] == {"stage": "provider", "kind": "crash"}


def test_a_worker_that_breaks_before_the_case_starts_says_so(
    engine: WorkerEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("pytest_agentv.executors.engine.Here.collect_files", fail)
    reply = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60))
    assert (reply.result, reply.fault) == (
        None,
        "this worker cannot start the case: RuntimeError: can't start new thread",
    )


def test_a_job_that_cannot_be_read_is_refused(engine: WorkerEngine) -> None:
    reply = Reply.from_bytes(engine.start("ticket", Parcel(b"c__main__\nNowhere\n.").to_bytes()).result(60))
    assert reply.refused is not None
    assert "Nowhere" in reply.refused


def test_a_worker_that_has_no_room_says_so(setup: Setup, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pytest_agentv.executors.shipping.unpack_bundle", fail)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    engine = WorkerEngine(setup.replace(ships=True, roots=roots_of([folder])))
    data = b"bundle"
    parcel = Parcel(bundles=((hashlib.sha256(data).hexdigest(), data),))
    reply = Reply.from_bytes(engine.start("ticket", parcel.to_bytes()).result(60))
    assert reply.fault == "this worker cannot keep the files of the run: [Errno 28] No space left on device"
    engine.close()


def test_a_job_that_is_cancelled_while_its_files_arrive_is_answered(
    setup: Setup, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, is_unpacking = threading.Event(), threading.Event()

    def unpack_slowly(*_: object) -> None:
        is_unpacking.set()
        go_on.wait(60)

    monkeypatch.setattr("pytest_agentv.executors.shipping.unpack_bundle", unpack_slowly)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    engine = WorkerEngine(setup.replace(ships=True, roots=roots_of([folder])))
    parcel = Parcel(bundles=((hashlib.sha256(b"x").hexdigest(), b"x"),))
    future = engine.start("ticket", parcel.to_bytes())
    is_unpacking.wait(60)
    engine.cancel("ticket")
    assert Reply.from_bytes(future.result(60)) == Reply()
    go_on.set()
    engine.close()


def test_a_worker_that_is_closed_takes_no_job(setup: Setup, folder: Path) -> None:
    engine = WorkerEngine(setup)
    engine.close()
    assert engine.start("ticket", parcel_of(folder)).cancelled()


def test_passed_variables_are_shown_masked_and_taken_back(
    setup: Setup, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKER_API_KEY", "own")
    engine = WorkerEngine(setup.replace(passed={"WORKER_API_KEY": "plainly passed"}))
    assert "plainly passed" not in repr(setup.replace(passed={"WORKER_API_KEY": "plainly passed"}))
    reply = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60))
    assert reply.result is not None
    assert reply.result["candidate_answer"] == "hello ***"
    engine.close()
    assert os.environ["WORKER_API_KEY"] == "own"


def test_what_cannot_be_pickled_is_refused(folder: Path) -> None:
    job = job_of(folder)
    with pytest.raises(JobRefused, match="lambda"):
        pack(job.replace(case=job.case.replace(vars={"x": lambda: 1})))
    assert unpack(pack(job)) == job


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_frames_arrive_whole_however_they_are_cut(size: int) -> None:
    frames = [Frame("job", "a", b"x" * 50), Frame("cancel", "ä"), Frame("reply", "b", bytes(range(256)))]
    data = b"".join(frame.to_bytes() for frame in frames)
    taken: list[Frame] = []
    reader = FrameReader(taken.append)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    assert taken == frames


def test_kept_results_are_there_until_they_are_dropped(tmp_path: Path) -> None:
    results = KeptResults(tmp_path / "kept")
    one, two = KeptResult("one", {"eval_id": "a"}, None), KeptResult("two", {"eval_id": "b"}, 3)
    results.keep(one)
    results.keep(two)
    (tmp_path / "kept" / "torn.json").write_text("{")
    assert list(results.all()) == [one, two]
    results.drop("one")
    results.drop("one")
    assert results.find("one") is None
    results.close()
    assert results.find("two") == two


def test_what_a_killed_worker_was_writing_is_not_kept(tmp_path: Path) -> None:
    results = KeptResults(tmp_path / "kept")
    results.keep(KeptResult("a", {"eval_id": "a"}, None))
    (tmp_path / "kept" / ".0123456789abcdef.tmp").write_text('{"answer": nu')
    results.close()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.json"]
    results.drop("a")
    results.close()
    assert not (tmp_path / "kept").exists()


def test_left_results_are_added_once(engine: WorkerEngine, folder: Path) -> None:
    """Also where the run had written a result and died before it could say so."""
    out = folder / "out.jsonl"
    record = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60)).result
    assert record is not None
    kept = KeptResults(folder / ".out.jsonl.kept")
    kept.keep(KeptResult("x", record, None))
    kept.keep(KeptResult("y", {**record, "eval_id": "b"}, 1))
    assert add_left_results(out) == 2
    assert not (folder / ".out.jsonl.kept").exists()
    kept.keep(KeptResult("x", record, None))
    assert add_left_results(out) == 0
    assert [json.loads(line)["eval_id"] for line in out.read_text().splitlines()] == ["a"]
    assert json.loads((folder / ".out.jsonl.answers.jsonl").read_text())["answer"] == 1


def test_an_older_result_is_not_the_last_word(engine: WorkerEngine, folder: Path) -> None:
    out = folder / "out.jsonl"
    record = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60)).result
    assert record is not None
    out.write_text(json.dumps({**record, "timestamp": "2099-01-01T00:00:00.000Z"}) + "\n")
    kept = KeptResults(folder / ".out.jsonl.kept")
    kept.keep(KeptResult("x", record, None))
    assert add_left_results(out) == 0
    out.write_text(json.dumps({**record, "timestamp": "2099-01-01T00:00:00.000Z", "status": "error"}) + "\n")
    kept.keep(KeptResult("x", record, None))
    (folder / ".out.jsonl.kept" / "run.lock").write_text("a run that was killed")
    assert add_left_results(out) == 1
    assert not (folder / ".out.jsonl.kept").exists()


@pytest.mark.parametrize("key", ["case_hash", "target_hash", "grading_hash", "run_id", "eval_id", "target"])
def test_an_answer_to_another_question_is_kept_whatever_the_clock_says(
    engine: WorkerEngine, folder: Path, key: str
) -> None:
    out = folder / "out.jsonl"
    record = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60)).result
    assert record is not None
    out.write_text(json.dumps({**record, "timestamp": "2099-01-01T00:00:00.000Z", key: "another"}) + "\n")
    KeptResults(folder / ".out.jsonl.kept").keep(KeptResult("x", record, None))
    assert add_left_results(out) == 1
    assert json.loads(out.read_text().splitlines()[-1])["timestamp"] == record["timestamp"]


class LosingExecutor:
    """Loses the worker of each job, before or after its last word."""

    name, processes = "losing", 1

    def __init__(self, kept: KeptResults, record: JsonObject | None) -> None:
        self.asked = 0
        self._kept = kept
        self._record = record

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        self.asked += 1
        if self._record is not None:
            self._kept.keep(KeptResult(ticket, self._record, None))
        raise WorkerLost("gone")

    def written(self, ticket: str) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("is_kept", "retries", "asked"), [(True, 3, 1), (False, 0, 1), (False, 2, 3)])
def test_a_worker_that_is_lost_after_its_last_word_loses_nothing(
    engine: WorkerEngine, setup: Setup, folder: Path, is_kept: bool, retries: int, asked: int
) -> None:
    record = Reply.from_bytes(engine.start("ticket", parcel_of(folder)).result(60)).result
    kept = KeptResults(folder / "lost")
    executor = LosingExecutor(kept, record if is_kept else None)
    pool = TargetPool(RunOptions(), Places(folder, folder), Masker(), no_kinds)
    shipper = Shipper(roots_of([folder]), pool, None)
    away = Away(lambda: executor, pool=pool, shipper=shipper, own_providers=no_kinds, kept=kept, lost_retries=retries)
    away.open()
    asking = away.ask(job_of(folder), CaseLog(), hooks=NO_HOOKS, own=NO_OVERRIDES, bound_by=None, is_batched=False)
    result = asyncio.run(asking)
    assert executor.asked == asked
    assert result is not None
    assert result.error == (None if is_kept else "worker lost: gone")
    assert result.case_hash is None
    assert len(list(kept.all())) == int(is_kept)
    away.written(result.node_id)
    assert not list(kept.all())


def test_a_leash_is_cut_by_the_end_of_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, go_on = context.Event(), context.Event()

    def hold() -> None:
        leash = Leash(tmp_path / "kept")
        ready.set()
        go_on.wait(60)
        os._exit(1 if leash else 2)  # not released

    process = context.Process(target=hold)
    process.start()
    assert ready.wait(60)
    end = LeashEnd(tmp_path / "kept")
    assert not end.is_cut()
    go_on.set()
    process.join(60)
    assert end.is_cut()


def test_a_run_that_goes_on_is_another_one(tmp_path: Path) -> None:
    leash, end = Leash(tmp_path), LeashEnd(tmp_path)
    assert not end.is_cut()
    (tmp_path / "run.lock").write_text("the next run")
    assert end.is_cut()
    leash.release()


def test_a_leash_holds_within_its_process_until_it_is_released(tmp_path: Path) -> None:
    leash, end = Leash(tmp_path / "kept"), LeashEnd(tmp_path / "kept")
    assert not end.is_cut()
    assert not end.is_stopped("x")
    leash.stop("x")
    assert end.is_stopped("x")
    leash.forget("x")
    assert not end.is_stopped("x")
    leash.release()
    assert end.is_cut()


def test_an_executor_of_threads_runs_jobs(setup: Setup, folder: Path) -> None:
    async def ask() -> Reply:
        futures = Futures(ThreadPoolExecutor(2), setup, lambda: None)
        assert futures.processes == 2
        try:
            return await futures.ask("ticket", parcel_of(folder))
        finally:
            await futures.close()

    reply = asyncio.run(ask())
    assert reply.result is not None
    assert reply.result["candidate_answer"] == "hello ***"


class Interrupted(ThreadPoolExecutor):
    """Its workers get a signal that ends what they run."""

    def submit(self, *_: object, **__: object) -> Any:
        future: Future[bytes] = Future()
        future.set_exception(KeyboardInterrupt())
        return future


def test_a_worker_that_was_interrupted_is_lost(setup: Setup, folder: Path) -> None:
    async def ask() -> None:
        futures = Futures(Interrupted(1), setup, lambda: None)
        try:
            await futures.ask("ticket", parcel_of(folder))
        finally:
            await futures.close()

    with pytest.raises(WorkerLost, match="KeyboardInterrupt"):
        asyncio.run(ask())


def test_an_executor_that_takes_no_more_is_lost(setup: Setup, folder: Path) -> None:
    async def ask() -> None:
        executor = ThreadPoolExecutor(1)
        executor.shutdown()
        futures = Futures(executor, setup, lambda: executor)
        try:
            await futures.ask("ticket", parcel_of(folder))
        finally:
            await futures.close()

    with pytest.raises(WorkerLost, match="the executor takes no more cases: cannot schedule new futures"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("local", "local"),
        (" Processes:04 ", "processes:4"),
        ("dask://Host", "dask://Host:8786"),
        ("DASK://10.0.0.1:99", "dask://10.0.0.1:99"),
        ("dask+tls://[::1]:99/", "dask+tls://[::1]:99"),
        ("tls://host", "tls://host:8786"),
    ],
)
def test_executors_are_parsed(text: str, value: str) -> None:
    assert parse_executor(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "processes",
        "processes:",
        "processes:0",
        "processes:65",
        "processes:x",
        "local:2",
        "dask://",
        "dask://a b",
        "dask://h:x",
        "tcp://h",
    ],
)
def test_other_executors_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_executor(text)


@pytest.mark.parametrize("text", ["-1", "11", "x"])
def test_odd_numbers_of_lost_retries_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected 0"):
        parse_lost_retries(text)


@pytest.mark.parametrize(
    ("executor", "most"), [(None, 50), ("local", 50), ("processes:3", 150), ("dask://host:8786", 3200)]
)
def test_each_process_takes_fifty_cases(executor: str | None, most: int) -> None:
    assert check_workers(str(most), executor) == most
    with pytest.raises(ValueError, match=rf"{most + 1} workers are out of range: expected 1 to {most} \("):
        check_workers(str(most + 1), executor)
