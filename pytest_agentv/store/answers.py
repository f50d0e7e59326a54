"""The answers that were paid for, in one SQLite file: a row per answer, written before it is judged."""

import asyncio
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_agentv.model.base import Json, JsonObject, Record, compact_json
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import Spent

if TYPE_CHECKING:
    import sqlite3  # 17 ms that runs without paid answers save

STORE_FILE: Final = ".agentv/answers.sqlite"
"""Where the store is, below the root directory."""

_SCHEMA: Final = """
create table if not exists run(
  run_id text not null, file text not null, created real not null, primary key(run_id, file)) without rowid;
create table if not exists answer(
  id text not null unique, writer text not null, key text not null, n integer not null, rerun integer not null,
  run_id text not null, item text not null, eval_id text not null, target text not null, role text not null,
  created real not null, costs text not null, response text, grading text, judgement text, origin text);
create index if not exists by_key on answer(key, n);
create index if not exists by_item on answer(item, run_id);
"""
_INSERT: Final = "insert or ignore into answer values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_BUSY_SECONDS: Final = 20
_creating: Final = threading.Lock()
_DAY_SECONDS: Final = 24 * 60 * 60

_Statement: TypeAlias = tuple[str, tuple[Any, ...], "asyncio.Future[None] | None"]

current_case: Final[ContextVar[tuple[str, str, str]]] = ContextVar("agentv_case", default=("", "", ""))
"""Node id, id and target of the case that the running task asks for. Its judges ask for the same case."""


@dataclass(frozen=True, slots=True)
class Runs(Record):
    """The runs whose answers a run may take. Plain data, for other processes of the run."""

    store: Path
    run_id: str
    file: Path
    """The results file of the run."""
    resumed: Path | None = None
    """The results file that the run goes on with: the answers of all its runs count."""
    resumed_id: str | None = None
    """The id of the last run in that file, which may have been moved."""
    any_run: bool = False
    """Whether it takes the answers of all runs (`--agentv-cache`)."""
    rejudge: bool = False
    """Whether replies of judges are not taken (`--agentv-rejudge`)."""
    keep_days: int = 30
    """Older answers are deleted."""


@dataclass(frozen=True, slots=True)
class Question(Record):
    """What identifies an answer."""

    item: str
    """The node id; empty outside of any case."""
    eval_id: str
    key: str
    """Hash of what decides the answer: the definition of the target, its files, the prompt, attachments."""
    n: int = 0
    """The number of the answer, where a case asks for several."""
    rerun: int = 0
    """How often the case was asked before in its run."""
    target: str = ""
    """The target under test, also for its judges."""
    role: str = "answer"
    """`answer`, `turn` (of the answer that is a conversation, whose row costs nothing then) or `judge`."""


@dataclass(frozen=True, slots=True)
class Stored(Record):
    """An answer that may be taken."""

    id: str
    response: JsonObject
    grading: str | None
    """By what it was judged; None: it was not."""
    judgement: Json
    is_ours: bool
    """Whether a run asked for it that this one goes on with, else any run."""
    is_paid: bool
    """Whether such a run paid for it, and did not take it from another run itself."""


class AnswerStore:
    """The store of this process. It is read on the event loop, and one thread writes.

    A file that cannot be used is one warning: the run goes on, finds nothing and keeps nothing.
    """

    def __init__(self, runs: Runs, tell: Callable[[str], None]) -> None:
        """Open nothing yet. `tell` hears why the file cannot be used."""
        self._runs = runs
        self._tell = tell
        self._writer = uuid.uuid4().hex[:12]
        self._count = 0
        self._queue: SimpleQueue[_Statement | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._reader: sqlite3.Connection | None = None
        self._is_broken = False
        self._ours: tuple[str, ...] = ()

    def find(self, question: Question) -> Stored | None:
        """Return the newest answer to a question: of runs that this one goes on with, else of any if allowed.

        Never one of this process, because another item of the same name asks for its own. But a rerun takes an answer
        that was not judged.
        """
        if self._runs.rejudge and question.role == "judge":
            return None
        other: Stored | None = None
        for id_, writer, run_id, item, rerun, response, grading, judgement, origin in self._rows(question):
            is_open = question.role == "answer" and judgement is None and rerun < question.rerun
            if not is_open and (rerun != question.rerun or writer == self._writer):
                continue
            is_ours = run_id in self._ours and item == question.item != ""
            if is_ours or (self._runs.any_run and not is_open and other is None):
                judged = judgement and json.loads(judgement)
                found = Stored(id_, json.loads(response), grading, judged, is_ours, is_ours and origin is None)
                if is_ours:
                    return found
                other = found
        return other

    def _rows(self, question: Question) -> Iterable[tuple[Any, ...]]:
        columns = "id, writer, run_id, item, rerun, response, grading, judgement, origin"
        where = "key = ? and n = ? and role = ? and response is not null order by rowid desc"
        sql = f"select {columns} from answer where {where}"  # noqa: S608 - the parts are constants
        return self._read(sql, (question.key, question.n, question.role))

    def numbers(self, item: str, eval_id: str) -> frozenset[int]:
        """Return the numbers of the answers that a case has in the runs that this one goes on with."""
        sql = "select distinct n, run_id from answer where item = ? and eval_id = ? and role = 'answer' and writer != ?"
        rows = self._read(f"{sql} and response is not null", (item, eval_id, self._writer))
        return frozenset(n for n, run_id in rows if run_id in self._ours)

    def spent(self, item: str, eval_id: str, target: str) -> Spent | None:
        """Return what other processes and the runs that this one goes on with paid for a case and its target."""
        sql = "select role, run_id, costs from answer where item = ? and eval_id = ? and target = ?"
        sql += " and writer != ? and origin is null"
        costs: dict[str, list[Costs]] = {"answer": [], "judge": []}
        for role, run_id, text in self._read(sql, (item, eval_id, target, self._writer)):
            if run_id == self._runs.run_id or (run_id in self._ours and not self._runs.rejudge):
                costs["judge" if role == "judge" else "answer"].append(Costs.from_plain(json.loads(text)))
        if not any(costs.values()):
            return None
        return Spent(Costs.added(costs["answer"]), Costs.added(costs["judge"]) if costs["judge"] else None)

    async def add(
        self,
        question: Question,
        response: str | None,
        costs: Costs,
        *,
        judged: tuple[str, Json] | None = None,
        origin: str | None = None,
        waits: bool = True,
    ) -> str:
        """Write an answer, and return its id.

        Args:
            question: What was asked.
            response: The answer as JSON; None: nobody may take it, but its calls may have been paid for.
            costs: What its calls took.
            judged: By what it was judged, and the judgement.
            origin: The id of the answer of another run that it is.
            waits: Whether to return when it is on disk. It need not be if it is judged at once.
        """
        self._count += 1
        id_ = f"{self._writer}-{self._count}"
        grading, judgement = (None, None) if judged is None else (judged[0], json.dumps(judged[1]))
        asked = (question.key, question.n, question.rerun, self._runs.run_id, question.item, question.eval_id)
        values = (
            id_,
            self._writer,
            *asked,
            question.target,
            question.role,
            time.time(),
            compact_json(costs.to_plain()),
        )
        written = asyncio.get_running_loop().create_future() if waits else None
        self._put(_INSERT, (*values, response, grading, judgement, origin), written)
        if written is not None:
            await asyncio.shield(written)  # a case that is cancelled has paid for its answer
        return id_

    def judge(self, id_: str, grading: str, judgement: Json) -> None:
        """Add the judgement of an answer. Nobody waits for it: without it, the answer is judged again."""
        self._put("update answer set grading = ?, judgement = ? where id = ?", (grading, json.dumps(judgement), id_))

    def drop(self, id_: str) -> None:
        """Let nobody take an answer again. Its row stays, because it was paid for."""
        self._put("update answer set response = null where id = ?", (id_,))

    def sent(self, item: str, eval_id: str, n: int) -> "SentRows":
        """Return the rows that a worker of an executor may take for an answer of a case."""
        sql = "select * from answer where item = ? and eval_id = ? and n = ? and response is not null"
        rows = self._read(f"{sql} and (writer != ? or judgement is null)", (item, eval_id, n, self._writer))
        return SentRows(self._runs.run_id, self._ours, tuple(rows), any_run=self._runs.any_run)

    def insert(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write the rows that a worker of an executor has made for an answer."""
        for id_, _, *values in rows:
            self._put(_INSERT, (id_, self._writer, *values))

    def close(self) -> None:
        """Write what waits, and close the file."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _put(self, sql: str, values: tuple[Any, ...], written: "asyncio.Future[None] | None" = None) -> None:
        if self._thread is None and not self._is_broken:
            self._thread = threading.Thread(target=self._write_all, name="agentv-store", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # the system gives no more threads
                self._thread = None
                self._give_up(error)
        if self._is_broken:
            if written is not None:
                written.set_result(None)
            return
        self._queue.put((sql, values, written))

    def _write_all(self) -> None:
        import sqlite3  # noqa: PLC0415 - 17 ms

        db: sqlite3.Connection | None = None
        is_open = True
        while is_open:
            batch = [self._queue.get()]
            while not self._queue.empty():  # no other thread takes statements
                batch.append(self._queue.get())
            is_open = None not in batch
            statements = [each for each in batch if each is not None]
            try:
                if not self._is_broken and statements:
                    db = db or self._open()
                    with db:
                        db.execute("begin immediate")
                        for sql, values, _ in statements:
                            db.execute(sql, values)
            except (OSError, ValueError, sqlite3.Error) as error:  # a text that is no UTF-8 must not end the thread
                self._give_up(error)
            _tell([written for _, _, written in statements if written is not None])
        if db is not None:
            db.close()

    def _read(self, sql: str, values: Sequence[Any]) -> "list[tuple[Any, ...]]":
        import sqlite3  # noqa: PLC0415 - as above

        try:
            if self._reader is None and not self._is_broken and self._runs.store.exists():
                self._reader = self._open()
            return [] if self._reader is None else self._reader.execute(sql, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)
            return []

    def _open(self) -> "sqlite3.Connection":
        """Open the file, and note in it which results file the run writes. Raises `OSError`, `sqlite3.Error`."""
        db = connect(self._runs.store)
        runs, now = self._runs, time.time()
        file, resumed = str(runs.file), str(runs.resumed or "")
        with db:
            db.execute("begin immediate")
            known = [each for (each,) in db.execute("select run_id from run where file = ?", (resumed,))]
            ours = dict.fromkeys((runs.run_id, *known, *filter(None, [runs.resumed_id])))
            is_new = not db.execute("select 1 from run where run_id = ? and file = ?", (runs.run_id, file)).fetchone()
            if is_new and resumed != file:  # a new run with this file takes the place of those before
                db.execute("delete from run where file = ?", (file,))
            # Whoever goes on with our file goes on with these runs, too.
            db.executemany("insert or ignore into run values(?,?,?)", [(each, file, now) for each in ours])
            db.execute("delete from answer where created < ?", (now - runs.keep_days * _DAY_SECONDS,))
        self._ours = tuple(ours)
        return db

    def _give_up(self, error: Exception) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._tell(str(error))


@dataclass(frozen=True, slots=True)
class SentRows(Record):
    """The rows that a job of an executor takes along."""

    run_id: str
    ours: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    any_run: bool


class JobStore(AnswerStore):
    """The store of a worker of an executor: the rows that came with its jobs, and those that go with their replies."""

    def __init__(self) -> None:
        super().__init__(Runs(Path(), "", Path()), lambda _: None)
        self._known: dict[tuple[str, str, int], SentRows] = {}
        self._new: dict[str, list[Any]] = {}

    def take(self, item: str, eval_id: str, n: int, sent: "SentRows") -> None:
        """Take the rows of a job for an answer of a case."""
        self._known[item, eval_id, n] = sent
        self._runs = self._runs.replace(run_id=sent.run_id, any_run=sent.any_run)
        self._ours = sent.ours

    def give(self, item: str, eval_id: str, n: int) -> list[list[Any]]:
        """Return the rows that a job made, and forget them."""
        made = [id_ for id_, row in self._new.items() if (row[6], row[7], row[3]) == (item, eval_id, n)]
        return [self._new.pop(id_) for id_ in made]

    def _rows(self, question: Question) -> Iterable[tuple[Any, ...]]:
        sent = self._known.get((question.item, question.eval_id, question.n))
        for row in reversed(sent.rows) if sent is not None else ():
            id_, writer, key, n, rerun, run_id, item, *_, role, _, _, response, grading, judgement, origin = row
            if (key, n, role) == (question.key, question.n, question.role):
                yield id_, writer, run_id, item, rerun, response, grading, judgement, origin

    def _put(self, sql: str, values: tuple[Any, ...], written: "asyncio.Future[None] | None" = None) -> None:
        if sql == _INSERT:
            self._new[values[0]] = list(values)
        elif (row := self._new.get(values[-1])) is not None:
            row[12:15] = (None, *row[13:15]) if len(values) == 1 else (row[12], *values[:2])
        if written is not None:
            written.set_result(None)

    def _read(self, sql: str, values: Sequence[Any]) -> "list[tuple[Any, ...]]":  # noqa: ARG002 - nothing is here
        return []


def connect(path: Path) -> "sqlite3.Connection":
    """Open a store, and create it if there is none. Raises `OSError`, `sqlite3.Error`."""
    import sqlite3  # noqa: PLC0415 - as above

    path.parent.mkdir(parents=True, exist_ok=True)
    with _creating:
        with suppress(FileExistsError):  # closing an old file takes this process's locks from it: others lose rows
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # it holds prompts and answers
        db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            (mode,) = db.execute("pragma journal_mode = wal").fetchone()
            break
        except sqlite3.OperationalError as error:  # SQLite does not wait while another process does the same
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
    # A file system without shared memory has no WAL, and each commit would wait for the disk.
    db.execute(f"pragma synchronous = {'normal' if mode == 'wal' else 'off'}")
    if not db.execute("select 1 from sqlite_master where name = 'answer'").fetchone():
        db.executescript(f"begin immediate; {_SCHEMA} commit;")
    return db


def merge_stores(parts: Sequence[tuple[Path, Sequence[str]]], out: Path) -> None:
    """Let a run that resumes the results file `out` find the answers of the files that were merged into it.

    `parts` are these files, each with the ids of its runs. Answers in the stores of other folders are copied. Raises
    `OSError`, `sqlite3.Error`.
    """
    here = Path.cwd()
    names = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
    above = (here, *here.parents)  # pytest's root directory is the nearest one with a file of its settings
    home = next((each for each in above if any((each / name).is_file() for name in names)), here) / STORE_FILE
    stores: dict[Path, Path] = {}
    for path, _ in parts:
        near = (folder / STORE_FILE for folder in path.absolute().parents)
        if (store := next(filter(Path.is_file, near), None)) is not None:
            stores[path] = store
    if not stores:
        return
    db = connect(home)
    try:
        ours = {run_id for _, runs in parts for run_id in runs}
        for number, (path, store) in enumerate(stores.items()):
            name = "main"
            if store != home:
                name = f"part{number}"
                db.execute(f"attach ? as {name}", (str(store),))
            known = db.execute(f"select run_id, file from {name}.run").fetchall()  # noqa: S608 - our own names
            ours |= {run_id for run_id, file in known if Path(file).name == path.name}
            marks = ",".join("?" * len(ours))
            if name != "main":
                rows = f"select * from {name}.answer where run_id in ({marks})"  # noqa: S608 - as above
                db.execute(f"insert or ignore into main.answer {rows}", tuple(ours))
                db.execute(f"detach {name}")
        with db:
            db.execute("begin immediate")
            if all(path != out for path, _ in parts):
                db.execute("delete from run where file = ?", (str(out),))
            db.executemany("insert or ignore into run values(?,?,?)", [(each, str(out), time.time()) for each in ours])
    finally:
        db.close()


def _tell(written: "Sequence[asyncio.Future[None]]") -> None:
    """Complete all waiting futures in one call into the loop, because each call costs a switch of threads."""

    def complete() -> None:
        for each in written:
            if not each.done():
                each.set_result(None)

    if written:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            written[0].get_loop().call_soon_threadsafe(complete)
