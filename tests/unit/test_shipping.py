"""The parts of shipping by themselves: relative paths, bundles, what stays at home, stores, who brings what."""

import asyncio
import contextvars
import fcntl
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.jobs import CaseIdentity, CaseJob
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.executors.base import (
    JobRefused,
    Outgoing,
    Parcel,
    Reply,
    SentFile,
    WorkerLost,
    pack,
    unpack,
    write_sent,
)
from pytest_agentv.executors.bundles import (
    PROJECT,
    BundleTooLarge,
    Roots,
    ShippingRules,
    Spot,
    Translation,
    make_bundle,
    roots_of,
)
from pytest_agentv.executors.shipping import FilesAbsent, OutsideProject, SeenFiles, Shipper, Store
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind_table import no_kinds
from pytest_agentv.model.messages import FilePart, InputMessage, TextPart
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.runtime.files import listen_to_writing, write_atomically

HERE, THERE = Roots((("project", "/home/me/shop"),)), Roots((("project", "/srv/x"),))
RULES = ShippingRules()


# Roots and packing


@pytest.mark.parametrize(
    ("path", "spot"),
    [
        ("/home/me/shop", Spot("project", "")),
        ("/home/me/shop/evals/a.yaml", Spot("project", "evals/a.yaml")),
        ("/home/me/shop-2/a", None),
        ("/home/me/shop/../other", None),
        ("/home/me", None),
        ("evals/a.yaml", None),
    ],
)
def test_a_spot_is_below_a_root(path: str, spot: Spot | None) -> None:
    assert HERE.spot(path) == spot
    if spot is not None:
        assert HERE.path(spot) == path


def test_roots_do_not_lie_within_each_other() -> None:
    folders = [Path("/w/shop/evals"), Path("/w/shop"), Path("/data"), Path("/data"), Path("/w/shop2")]
    assert roots_of(folders).folders == (("project", "/w/shop"), ("project-2", "/data"), ("project-3", "/w/shop2"))


def test_paths_of_what_is_packed_are_those_of_the_place() -> None:
    said = {
        "text": "/home/me/shop/evals/checks.py:is_polite",
        "path": Path("/home/me/shop/evals"),
        "root": "/home/me/shop",
        "python": sys.executable,
        "other": "/usr/bin/sh",
        "prose": "see /home/me/shop for more",
    }
    data = pack(said, HERE)
    assert unpack(data, HERE) == said
    assert unpack(data, THERE) == {
        **said,
        "text": "/srv/x/evals/checks.py:is_polite",
        "path": Path("/srv/x/evals"),
        "root": "/srv/x",
    }
    assert sys.executable.encode() not in data
    assert data.count(b"/home/me/shop") == 1, "prose stays as it is"


def test_a_root_that_is_not_known_is_refused() -> None:
    with pytest.raises(JobRefused, match="project"):
        unpack(pack("/home/me/shop/a", HERE), Roots())


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("/srv/x", "/home/me/shop"),
        ("file:///srv/x/a.md", "file:///home/me/shop/a.md"),
        ("in /srv/x/a.md: /srv/x.", "in /home/me/shop/a.md: /home/me/shop."),
        ("/srv/x-2 /srv/xy /data/srv/x /srv/x.py", "/srv/x-2 /srv/xy /data/srv/x /srv/x.py"),
    ],
)
def test_texts_are_translated(text: str, home: str) -> None:
    translation = Translation({"/srv/x": "/home/me/shop"})
    assert translation.text(text) == home
    assert translation.plain({"a": [text, 1, None], text: text}) == {"a": [home, 1, None], home: home}


def test_the_interpreter_is_translated_as_a_word_only() -> None:
    translation = Translation({}, {"/usr/bin/python3": "/home/me/venv/bin/python"})
    said = {"script": ["/usr/bin/python3", "judge.py"], "text": "I use /usr/bin/python3"}
    assert translation.plain(said) == {**said, "script": ["/home/me/venv/bin/python", "judge.py"]}


def test_equal_places_need_no_translation() -> None:
    value = {"a": ["/srv/x"]}
    assert Translation({"/srv/x": "/srv/x"}).plain(value) is value


# Bundles


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in {"evals/a.eval.yaml": "x", "evals/judge.sh": "#!/bin/sh\n", "notes/n.txt": "note"}.items():
        write(folder / name, text)
    (folder / "evals/judge.sh").chmod(0o755)
    (folder / "evals/empty").mkdir()
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names_of(data: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


def bundled(folder: Path, *places: Path, rules: ShippingRules = RULES) -> list[str]:
    return names_of(make_bundle([str(place) for place in places or [folder]], roots_of([folder]), rules).data)


def test_a_bundle_says_nothing_of_times_and_places(project: Path, tmp_path: Path) -> None:
    first = make_bundle([str(project)], roots_of([project]), RULES)
    for path in project.rglob("*"):
        os.utime(path, (0, 0))
    other = project.rename(tmp_path / "moved")
    assert make_bundle([str(other)], roots_of([other]), RULES) == first
    assert first.digest == hashlib.sha256(first.data).hexdigest()
    assert names_of(first.data) == [
        "project/evals/a.eval.yaml",
        "project/evals/empty/",
        "project/evals/judge.sh",
        "project/notes/n.txt",
    ]
    write(other / "notes/n.txt", "another note")
    assert make_bundle([str(other)], roots_of([other]), RULES).digest != first.digest


@pytest.mark.parametrize(
    "name",
    [
        *(
            ".env",
            ".env.local",
            ".envrc",
            "evals/.env",
            "prod.env",
            "tls.pem",
            ".env.d/keys.txt",
            ".netrc",
            ".ssh/id_rsa",
            "keys/id_ed25519",
        ),
        *(".git/config", ".venv/lib/x.py", "evals/__pycache__/a.cpython-311.pyc", "node_modules/a/index.js"),
        *(".agentv/results/r.jsonl", ".agentv/cache/ab/x.json", ".pytest_cache/x", "out.jsonl", ".out.jsonl.lock"),
        *(".out.jsonl.kept/x.json", "dumped/a.json"),
    ],
)
def test_what_stays_at_home(project: Path, name: str) -> None:
    write(project / name, "x")
    written = (str(project / "out.jsonl"), str(project / "dumped"))
    rules = ShippingRules(str(project), written=written)
    assert f"project/{name}" not in bundled(project, rules=rules)


@pytest.mark.parametrize("name", [".agentv/targets.yaml", "environment.yaml", "results/table.csv", "out.jsonl.txt"])
def test_what_only_looks_like_it_travels(project: Path, name: str) -> None:
    write(project / name, "x")
    assert f"project/{name}" in bundled(project, rules=ShippingRules(str(project), written=(f"{project}/out.jsonl",)))


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "CACHEDIR.TAG"])
def test_environments_and_caches_by_any_name_stay_at_home(project: Path, mark: str) -> None:
    write(project / "tools" / mark, "")
    assert "project/tools/" not in "".join(bundled(project))


def test_projects_say_what_else_stays_at_home(project: Path) -> None:
    write(project / "data/big.csv", "x")
    write(project / "data/small.txt", "x")
    write(project / "evals/big.csv", "x")
    found = bundled(project, rules=ShippingRules(str(project), globs=("data/*.csv", "*.sh")))
    assert "project/data/big.csv" not in found
    assert "project/evals/judge.sh" not in found
    assert {"project/data/small.txt", "project/evals/big.csv"} <= set(found)


def test_links_become_what_they_lead_to_unless_that_is_secret(project: Path, tmp_path: Path) -> None:
    far = write(tmp_path / "far.txt", "far away")
    write(project / ".env", "KEY=1")
    (project / "near.txt").symlink_to(far)
    (project / "settings").symlink_to(project / ".env")
    (project / "loop").symlink_to(project)
    (project / "gone").symlink_to(tmp_path / "nowhere")
    data = make_bundle([str(project)], roots_of([project]), RULES).data
    assert zipfile.ZipFile(io.BytesIO(data)).read("project/near.txt") == b"far away"
    assert not {"project/settings", "project/loop/notes/n.txt", "project/gone"} & set(names_of(data))


def test_a_link_into_a_folder_of_secrets_stays_at_home(project: Path, tmp_path: Path) -> None:
    (project / "credentials").symlink_to(write(tmp_path / "home/.aws/credentials", "KEY=1"))
    (project / "keys").symlink_to(write(tmp_path / "home/.ssh/old/rsa", "KEY=1").parent)
    (project / "near").symlink_to(project / "notes")
    found = bundled(project, rules=ShippingRules(str(project)))
    assert {name for name in found if name.startswith(("project/credentials", "project/keys"))} == set()
    assert "project/near/n.txt" in found


def test_pipes_and_files_that_cannot_be_read_stay_at_home(project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert "project/pipe" not in bundled(project)


def test_a_secret_stays_at_home_even_if_a_case_names_it(project: Path) -> None:
    secret = write(project / ".env", "KEY=1")
    rules = ShippingRules(str(project))
    hidden = write(project / ".env.d/keys.txt", "KEY=1")
    assert bundled(project, secret, hidden, project / ".env.d", rules=rules) == []
    assert bundled(project, write(project / ".kube/sub/config", "x"), rules=rules) == []
    assert bundled(project, project / "notes/n.txt") == ["project/notes/n.txt"]


def test_too_large_a_folder_is_told_with_its_largest_files(project: Path) -> None:
    write(project / "data/big.bin", "1" * 2_000_000)
    write(project / "data/less.bin", "1" * 1_000_000)
    with pytest.raises(BundleTooLarge) as caught:
        bundled(project, rules=ShippingRules(str(project), limit_mb=2.5))
    assert str(caught.value) == (
        f"{project}: 3.0 MB in 6 files are to be shipped to workers, and the limit is 2.5 MB; the largest: "
        "data/big.bin (2.0 MB), data/less.bin (1.0 MB), evals/judge.sh (0.0 MB), notes/n.txt (0.0 MB), "
        "evals/a.eval.yaml (0.0 MB); name what is not needed in agentv_ship_ignore, raise --agentv-ship-limit, or use "
        "--agentv-ship=none where workers see the files"
    )


# Stores


@pytest.fixture
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def archive(*names: str) -> tuple[str, bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for name in names:
            zipped.writestr(name, "x")
    return hashlib.sha256(file.getvalue()).hexdigest(), file.getvalue()


def test_a_store_has_what_was_bundled_until_it_is_closed(project: Path, own_temp: Path) -> None:
    bundle = make_bundle([str(project)], roots_of([project]), RULES)
    store = Store(roots_of([project]))
    assert store.take(Parcel(needs=(bundle.digest,))) == (bundle.digest,)
    assert store.take(Parcel(needs=(bundle.digest,), bundles=((bundle.digest, bundle.data),))) == ()
    assert store.take(Parcel(needs=(bundle.digest,))) == ()
    folder = Path(dict(store.roots.folders)[PROJECT])
    assert (folder / "notes/n.txt").read_text() == "note"
    assert os.access(folder / "evals/judge.sh", os.X_OK)
    assert not os.access(folder / "notes/n.txt", os.X_OK)
    assert (folder / "evals/empty").is_dir()
    assert folder.stat().st_mode & 0o077 == 0 or folder.parent.stat().st_mode & 0o077 == 0
    store.close()
    assert not list(own_temp.glob("*/*"))


@pytest.mark.parametrize("name", ["project/../../evil", "/etc/evil", "other/a", "../evil"])
def test_a_bundle_that_reaches_out_is_refused(own_temp: Path, name: str) -> None:
    store = Store(HERE)
    try:
        with pytest.raises(JobRefused, match="a bundle names a file outside of the run's folders"):
            store.take(Parcel(bundles=(archive(name),)))
    finally:
        store.close()
    assert not list(own_temp.rglob("*evil*"))


def test_a_damaged_bundle_is_refused(own_temp: Path) -> None:
    store = Store(HERE)
    digest, data = archive("project/a")
    with pytest.raises(JobRefused, match=f"bundle {digest[:12]} arrived damaged"):
        store.take(Parcel(bundles=((digest, data + b"!"),)))
    store.close()


def test_the_next_store_removes_those_of_processes_that_died(own_temp: Path) -> None:
    program = (
        "import os, sys; from pytest_agentv.executors import shipping as store; from pathlib import Path\n"
        "store.remove_at_end = lambda folder: None\n"  # as if its watcher had died too
        "made = store.Store(store.Roots((('project', '/x'),))); print(made.name, flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "TMPDIR": str(own_temp)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as other:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        (home,) = own_temp.iterdir()
        mine, too = Store(HERE), Store(HERE)
        assert {each.name for each in home.iterdir()} == {name, mine.name, too.name}, "it lives"
        other.kill()
    third = Store(HERE)
    assert {each.name for each in home.iterdir()} == {mine.name, too.name, third.name}
    for store in (mine, too, third):
        store.close()
    assert not list(home.iterdir())


def test_a_store_is_not_put_into_a_folder_of_somebody_else(own_temp: Path) -> None:
    shared = own_temp / f"agentv-stores-{os.getuid()}"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    store = Store(HERE)
    assert not list(shared.iterdir())
    store.close()


def test_a_store_that_is_being_made_is_left_alone(own_temp: Path) -> None:
    first = Store(HERE)
    (home,) = own_temp.iterdir()
    (home / "_made").mkdir()
    with (home / "_made/lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
    Store(HERE).close()
    assert (home / "_made").exists()
    first.close()


# Where files are seen


def test_a_worker_finds_the_project_in_its_own_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "evals")
    site = SeenFiles(HERE)
    assert site.take(Parcel(probe=Spot(PROJECT, "notes/n.txt"))) == ()
    assert site.roots.folders == ((PROJECT, str(project)),)


def test_the_folder_of_the_run_comes_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    write(project / "copy/notes/n.txt", "copy")
    site = SeenFiles(Roots(((PROJECT, str(project / "copy")),)))
    site.take(Parcel(probe=Spot(PROJECT, "notes/n.txt")))
    assert site.roots.folders == ((PROJECT, str(project / "copy")),)


def test_files_that_are_nowhere_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FilesAbsent, match=r"does not see the project: a/b\.yaml is neither .*--agentv-ship=bundle"):
        SeenFiles(HERE).take(Parcel(probe=Spot(PROJECT, "a/b.yaml")))


# What comes home


def test_new_files_go_home_once_and_masked(tmp_path: Path) -> None:
    there, home = tmp_path / "there", tmp_path / "home"
    write(there / "logs/old.log", "old")
    outgoing = Outgoing([there / "logs"], Roots(((PROJECT, str(there)),)))

    def run() -> None:
        listen_to_writing(outgoing.note)
        for name in ("logs/sub/new.log", "kept/x.json", "logs/sub/new.log"):
            write_atomically(there / name, "the key-0123456789")

    contextvars.copy_context().run(run)
    write_atomically(there / "logs/other.log", "of another job")
    written = outgoing.take()
    assert written == (there / "logs/sub/new.log",)
    assert outgoing.take() == ()
    files = tuple(outgoing.read((*written, there / "gone.log", Path("/etc/hostname"))))
    assert [file.rest for file in files] == ["logs/sub/new.log"]
    write_sent(files, Roots(((PROJECT, str(home)),)), Masker(["key-0123456789"]))
    assert (home / "logs/sub/new.log").read_text() == "the ***"


def test_files_do_not_go_beyond_their_root(tmp_path: Path) -> None:
    write_sent([SentFile(PROJECT, "../evil", "x")], Roots(((PROJECT, str(tmp_path / "home")),)), Masker())
    assert not (tmp_path / "evil").exists()


# Who brings what


def job_of(folder: Path, *parts: FilePart) -> CaseJob:
    path = str(folder / "evals/a.eval.yaml")
    message = InputMessage("user", (TextPart("hi"), *parts))
    case = EvalCase("a", "a", path, 1, "says hello", "hi", (message,), (), evaluators=())
    identity = CaseIdentity(
        eval_id="a", dataset="a", target="default", eval_file="a.eval.yaml", line=1, node_id="a", run_id="r"
    )
    return CaseJob(identity, case, RunOptions())


def file_part(path: Path) -> FilePart:
    return FilePart(path.name, path.name, str(path), "text")


@pytest.fixture
def shipper(project: Path) -> Callable[..., Shipper]:
    write(project / "evals/targets.yaml", "targets: [{name: default, provider: mock}]\n")

    def make(rules: ShippingRules | None = RULES) -> Shipper:
        pool = TargetPool(RunOptions(), Places(project, project), Masker(), no_kinds)
        return Shipper(roots_of([project]), pool, rules)

    return make


class Workers:
    """Gives each parcel to the next of some workers, as `order` says, and notes what it brought."""

    name, processes = "workers", 2

    def __init__(self, order: str, stores: dict[str, set[str]] | None = None, *, loses_bundles: bool = False) -> None:
        self.brought: list[tuple[str, bool]] = []
        """The worker of each parcel with bundles, and whether there was a job in it."""
        self._order = iter(order)
        self._stores = stores if stores is not None else {worker: set() for worker in order}
        self._loses_bundles = loses_bundles

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        worker, found = next(self._order), Parcel.from_bytes(parcel)
        await asyncio.sleep(0)
        if found.bundles:
            self.brought.append((worker, found.job is not None))
            if self._loses_bundles:
                raise WorkerLost("gone")
        self._stores[worker] |= {digest for digest, _ in found.bundles}
        missing = tuple(digest for digest in found.needs if digest not in self._stores[worker])
        done = {} if missing or found.job is None else {"result": {"eval_id": ticket}}
        return Reply(missing=missing, worker=worker, **done)

    def written(self, ticket: str) -> None: ...

    async def close(self) -> None: ...


def handed_over(shipper: Shipper, job: CaseJob, workers: Workers, count: int = 1) -> list[Reply]:
    async def run() -> list[Reply]:
        parcel = await shipper.parcel(job)
        return await asyncio.gather(*(shipper.ask(workers, str(number), parcel) for number in range(count)))

    return asyncio.run(run())


def test_a_worker_gets_what_it_lacks_once(shipper: Callable[..., Shipper], project: Path) -> None:
    workers = Workers("AAAAAAAAAA")
    replies = handed_over(shipper(), job_of(project), workers, count=4)
    assert all(reply.result for reply in replies)
    assert workers.brought == [("A", False)]


def test_a_worker_that_has_all_gets_nothing(shipper: Callable[..., Shipper], project: Path) -> None:
    one = shipper()
    stores: dict[str, set[str]] = {"A": set()}
    handed_over(one, job_of(project), Workers("AAA", stores))
    workers = Workers("A", stores)
    assert handed_over(one, job_of(project), workers)[0].result
    assert workers.brought == []


def test_bundles_go_with_the_job_if_others_get_them_each_time(shipper: Callable[..., Shipper], project: Path) -> None:
    workers = Workers("ABCDEFG")
    (reply,) = handed_over(shipper(), job_of(project), workers)
    assert reply.result
    assert workers.brought == [("B", False), ("D", False), ("F", False), ("G", True)]


def test_a_worker_that_is_lost_with_a_bundle_was_paid_nothing(shipper: Callable[..., Shipper], project: Path) -> None:
    workers = Workers("AAAAAAAAA", loses_bundles=True)
    with pytest.raises(WorkerLost):
        handed_over(shipper(), job_of(project), workers)
    assert [with_job for _, with_job in workers.brought] == [False, False, False, True]


def needs(shipper: Shipper, job: CaseJob) -> tuple[list[str], Parcel]:
    parcel = asyncio.run(shipper.parcel(job))
    return [name for digest in parcel.needs for name in names_of(shipper.bundle(digest).data)], parcel


def test_a_job_names_its_folders_and_files(shipper: Callable[..., Shipper], project: Path) -> None:
    one = shipper()
    names, parcel = needs(one, job_of(project, file_part(project / "notes/n.txt")))
    assert parcel.probe == Spot(PROJECT, "evals/a.eval.yaml")
    assert sorted(names) == [
        "project/evals/a.eval.yaml",
        "project/evals/empty/",
        "project/evals/judge.sh",
        "project/evals/targets.yaml",
        "project/notes/n.txt",
    ]
    assert asyncio.run(one.parcel(job_of(project))).needs == parcel.needs[:1]


def test_what_a_case_names_travels_though_its_folder_does_not(shipper: Callable[..., Shipper], project: Path) -> None:
    inner = write(project / "evals/node_modules/said.txt", "x")
    assert "project/evals/node_modules/said.txt" not in needs(shipper(), job_of(project))[0]
    assert "project/evals/node_modules/said.txt" in needs(shipper(), job_of(project, file_part(inner)))[0]


def test_the_folder_of_a_script_behind_cd_travels(shipper: Callable[..., Shipper], project: Path) -> None:
    for name in ("tools/agent.py", "tools/deep/read.txt", "tools/beside.txt", "other/left.txt"):
        write(project / name, "")
    make = shipper()
    command = "cd ../tools && python agent.py {PROMPT}"
    target = f"{{name: default, provider: cli, command_template: '{command}'}}"
    write(project / "evals/targets.yaml", f"targets: [{target}]\n")

    names = needs(make, job_of(project))[0]

    assert {f"project/tools/{name}" for name in ("agent.py", "deep/read.txt", "beside.txt")} <= set(names)
    assert "project/other/left.txt" not in names


def test_a_folder_that_is_too_large_is_looked_through_once(
    shipper: Callable[..., Shipper], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, job = shipper(ShippingRules(limit_mb=0.000001)), job_of(project)
    for _ in range(2):
        with pytest.raises(BundleTooLarge):
            asyncio.run(one.parcel(job))
        monkeypatch.setattr("pytest_agentv.executors.shipping.make_bundle", None)


def test_a_file_outside_of_the_project_keeps_its_case_at_home(
    shipper: Callable[..., Shipper], project: Path, tmp_path: Path
) -> None:
    far = file_part(write(tmp_path / "far.txt", "x"))
    with pytest.raises(OutsideProject, match="far"):
        asyncio.run(shipper().parcel(job_of(project, far)))
    assert asyncio.run(shipper(None).parcel(job_of(project, far))).needs == ()


def test_the_folder_of_the_project_is_not_in_a_job(shipper: Callable[..., Shipper], project: Path) -> None:
    job = job_of(project, file_part(project / "notes/n.txt"))
    data: Any = asyncio.run(shipper().parcel(job)).job
    assert str(project).encode() not in data
    moved: CaseJob = unpack(data, THERE)
    assert moved.case.path == "/srv/x/evals/a.eval.yaml"
