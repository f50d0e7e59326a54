"""Cases whose files are shipped: workers that live as on other machines give the records of a local run."""

import io
import json
import pickle
import re
import shutil
import zipfile
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from elsewhere import reason_not_to_hide, write_interpreter
from every_kind import ARGS, AT_HOME, EVAL_FILES, ON_WORKERS, TESTS, content, every_kind, kinds_in, without_times
from fake_llm import FakeLlm
from forked_workers import fork_workers
from scripted_agent import numbered, read_calls, write_agent, write_cases
from thorough import THOROUGH, variation, varied

from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.executors.base import Parcel
from pytest_agentv.executors.processes import WorkerProcess
from pytest_agentv.providers.table import KINDS

BUNDLE = "--agentv-ship=bundle"

ELSEWHERE = """
import sys
sys.path.append({tests!r})
from pathlib import Path
from elsewhere import Elsewhere

def pytest_agentv_executor(config):
    return Elsewhere({folders!r}, {hidden!r}, Path({log!r}), is_fresh={fresh!r})
""".replace("({folders!r}", "([Path(each) for each in {folders!r}]")


class Machines:
    """Workers with folders of their own, from which a project is hidden where that is allowed."""

    def __init__(self, project, folder, names=("one", "two"), *, is_fresh=False):
        self.folders = [folder / name for name in names]
        self.log = folder / "sent.bin"
        for each in self.folders:
            each.mkdir(parents=True)
        self.is_hidden = reason_not_to_hide() is None
        hidden = [str(project.path)] if self.is_hidden else []
        names = {"folders": [str(each) for each in self.folders], "hidden": hidden, "log": str(self.log)}
        project.write("conftest.py", ELSEWHERE.format(tests=str(TESTS), fresh=is_fresh, **names))

    def write(self, name, text):
        for each in self.folders:
            (each / name).write_text(text)

    def sent(self):
        return self.log.read_bytes()


PROCESSES = """
from types import SimpleNamespace
from pytest_agentv.executors import processes

processes.sys = SimpleNamespace(executable={program!r})
"""


def write_processes(project, folder):
    """Have the workers of `processes:N` live like those of `Machines`."""
    (folder / ".env").write_text(env_of_workers(project))
    hidden = [project.path] if reason_not_to_hide() is None else []
    project.write("conftest.py", PROCESSES.format(program=str(write_interpreter(folder, hidden))))


def env_of_workers(project):
    return (project.path / ".env").read_text().replace(AT_HOME, ON_WORKERS)


@dataclass(frozen=True)
class There:
    """A run on other machines."""

    run: Any
    dumped: dict[str, str]
    """The prompts that came home."""
    keys: list[str | None]
    """The API keys that came to the models."""


@dataclass(frozen=True)
class Compared:
    """Every kind, run here and on other machines."""

    project: Any
    machines: Machines
    here: Any
    dumped: dict[str, str]
    """The prompts of the local run."""
    by_hook: There
    by_processes: There | None
    """None: thorough runs have it."""

    @property
    def parcels(self):
        file, found = io.BytesIO(self.machines.sent()), []
        while file.tell() < len(file.getvalue()):
            _, (_, _, data) = pickle.load(file)
            found.append(Parcel.from_bytes(data))
        return found


@pytest.fixture(scope="module")
def kinds(shared_project, tmp_path_factory):
    """Run every kind here and there."""
    project = shared_project()
    with every_kind(project, tmp_path_factory.mktemp("home")) as model:
        here = project.run("--agentv-executor=local", *ARGS)
        dumped = take_dumped(project)
        names = ["one", "two"] if THOROUGH else ["one"]
        machines = Machines(project, tmp_path_factory.mktemp("machines"), names, is_fresh=True)
        machines.write(".env", env_of_workers(project))
        by_hook = run_there(project, model)
        write_processes(project, tmp_path_factory.mktemp("processes"))
        by_processes = run_there(project, model, "--agentv-executor=processes:2") if THOROUGH else None
    return Compared(project, machines, here, dumped, by_hook, by_processes)


def run_there(project, model, *args):
    before = len(model.asked("model"))
    run = project.run(BUNDLE, *ARGS, "-v", *args)
    keys = [request.api_key for request in model.asked("model")[before:]]
    return There(run, take_dumped(project), keys)


def take_dumped(project):
    found = texts_in(project.path / "dumped")
    shutil.rmtree(project.path / "dumped")
    return found


@pytest.fixture(params=["hook", varied("processes")])
def there(kinds, request):
    return kinds.by_hook if request.param == "hook" else kinds.by_processes


def texts_in(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.skipif(reason_not_to_hide() is not None, reason=str(reason_not_to_hide()))
def test_the_workers_do_not_see_the_project(kinds):
    assert kinds.machines.is_hidden


def test_records_are_those_of_a_local_run(kinds, there):
    local, shipped = without_times(kinds.here.results), without_times(there.run.results)
    assert shipped.keys() == local.keys()
    for name, record in local.items():
        assert shipped[name] == record


def test_the_kinds_are_judged_at_all(kinds):
    """Else two records could be equal because nothing works."""
    local = kinds.here.by_id
    assert {name for name, each in local.items() if each["status"] == "error"} <= EXPECTED_ERRORS
    assert local["shell"]["evaluator_results"][1]["hits"][0] == "what lies beside it"
    assert local["python"]["score"] == 0.875
    assert [each["hits"] for each in local["scripts"]["evaluator_results"]] == [["0.5"], ["hello world"]]
    assert local["absent"]["candidate_answer"].endswith("/evals")
    assert all(local[name]["trace_summary"]["event_count"] for name in ("claude", "codex", "pi"))


EXPECTED_ERRORS = {"broken", "raising", "refused", "misjudged", "unset", "unknown"} | {
    f"{word}-0" for word, package in (("bleu", "sacrebleu"), ("rouge", "rouge_score")) if find_spec(package) is None
}
"""Those of cases that are to fail, and of kinds whose packages are missing."""


def test_no_kind_of_target_is_forgotten(kinds):
    written = yaml.safe_load((kinds.project.path / "evals/targets.yaml").read_text())["targets"]
    providers = {target["name"]: target["provider"] for target in written}
    asked = {providers.get(each["target"]) for each in kinds.here.results if each["status"] != "error"}
    assert asked - {None} == set(KINDS.table) - {"litellm"}, "that one takes seconds to import, and has its own test"


def test_no_kind_of_evaluator_is_forgotten(kinds):
    files = [json.loads((kinds.project.path / name).read_text()) for name in EVAL_FILES]
    assert set(EVALUATORS) == {*kinds_in(files), *kinds_in(kinds.here.results)}


def test_no_case_stayed_at_home(there):
    assert re.search(r"^agentv: executor (Elsewhere|processes:2): \d+ answers$", there.run.text, re.MULTILINE)


def test_workers_have_secrets_of_their_own(there):
    assert there.keys
    assert all(key is not None and ON_WORKERS in key for key in there.keys)


def test_errors_hold_no_secret_of_a_worker(there):
    errors = {name: there.run.by_id[name]["error"] for name in ("raising", "refused", "misjudged")}
    assert "raised RuntimeError: no luck with ***\n" in errors["raising"]
    assert errors["refused"] == "*** is wrong (exit code 3)"
    assert "I fail with ***" in errors["misjudged"]


def test_no_secret_travels_or_is_written(kinds, there):
    assert AT_HOME.encode() not in kinds.machines.sent()
    assert not [name for name in shipped_names(kinds) if "/.env" in name]
    assert "my key is ***" in there.run.text
    for secret in (AT_HOME, ON_WORKERS):
        assert secret not in there.run.text
        for path in kinds.project.path.rglob("*"):
            if path.is_file() and path.name != ".env":
                assert secret not in path.read_bytes().decode("utf-8", "replace"), path


def shipped_names(kinds):
    archives = {digest: data for parcel in kinds.parcels for digest, data in parcel.bundles}
    return [name for data in archives.values() for name in zipfile.ZipFile(io.BytesIO(data)).namelist()]


def test_a_job_has_no_path_of_the_run(kinds):
    jobs = [parcel.job for parcel in kinds.parcels if parcel.job is not None]
    assert jobs
    assert not [job for job in jobs if str(kinds.project.path).encode() in job]


def test_nothing_names_a_place_of_a_worker(kinds, there):
    written = [path for path in kinds.project.path.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    texts = [there.run.text, *(path.read_bytes().decode("utf-8", "replace") for path in written)]
    assert not [text for text in texts if "agentv-stores" in text]


def test_only_needed_folders_travel(kinds):
    names = shipped_names(kinds)
    assert "project/src/shop/words.py" in names
    assert "project/src/shop/unused.py" in names, "what lies beside a program goes with it"
    assert "project/notes/note.txt" in names
    assert "project/pytest.ini" not in names
    assert not [name for name in names if "__pycache__" in name]


def test_each_worker_gets_each_bundle_once(project, monkeypatch):
    sent = Counter()
    relay = WorkerProcess.relay

    def noted(worker, ticket, data):
        sent.update((id(worker), digest) for digest, _ in Parcel.from_bytes(data).bundles)
        return relay(worker, ticket, data)

    monkeypatch.setattr(WorkerProcess, "relay", noted)
    fork_workers(monkeypatch)
    write_agent(project)
    write_cases(project, numbered(24))
    run = project.run("--agentv-executor=processes:2", BUNDLE, "--agentv-workers=24")
    assert run.outcomes == {"passed": 24}
    assert len({worker for worker, _ in sent}) == 2
    assert set(sent.values()) == {1}


def test_a_pool_gets_bundles_seldom(kinds):
    """The pool decides which worker takes what is sent: a quick one may get it again before a slow one has it."""
    sent = Counter(digest for parcel in kinds.parcels for digest, _ in parcel.bundles)
    assert sent
    assert max(sent.values()) < len(kinds.here.results)
    assert len(sent) < 10


def test_files_that_cases_write_come_home(kinds, there):
    assert there.dumped == kinds.dumped
    for name in ("claude", "codex", "pi"):
        log = Path(there.run.by_id[name]["log_file"])
        assert log.is_relative_to(kinds.project.path)
        assert "stream log" in log.read_text()


def test_workers_leave_nothing(kinds):
    left = [path for each in kinds.machines.folders for path in (each / "tmp").rglob("*") if path.is_file()]
    assert left == []


LITELLM = """
targets:
  - {name: default, provider: litellm, base_url: "${{ MODEL_URL }}", api_key: k-0123456789, model: openai/gpt-4o}
  - name: direct
    provider: openai
    client: litellm
    base_url: ${{ MODEL_URL }}
    api_key: k-0123456789
    model: gpt-4o
"""


@variation
@pytest.mark.skipif(find_spec("litellm") is None, reason="litellm is not installed")
def test_models_through_litellm(shared_project, tmp_path):
    """One worker and few cases: each process imports litellm for seconds."""
    project = shared_project()
    (project.path / ".git").mkdir()
    project.write("targets.yaml", LITELLM)
    words = [{"contains": "hello"}]
    cases = {"default": words, "direct": [*words, {"cost": 1}]}
    keys = {"expected_outcome": "x", "input": "hi"}
    entries = [{"id": name, **keys, "target": name, "assert": checks} for name, checks in cases.items()]
    project.write("a.eval.yaml", json.dumps({"evalcases": entries}))
    with FakeLlm() as model:
        project.write(".env", f"MODEL_URL={model.script('model')}/v1\n")
        here = project.run("--agentv-executor=local")
        write_processes(project, tmp_path)
        there = project.run("--agentv-executor=processes:1", BUNDLE)
    assert set(here.statuses.values()) == {"pass"}
    assert without_times(there.results) == without_times(here.results)
    assert "agentv: executor processes:1: 2 answers" in there.lines


# One matter each


@pytest.fixture
def machines(project, tmp_path):
    (project.path / ".git").mkdir()
    return Machines(project, tmp_path / "machines")


@pytest.fixture
def machine(project, tmp_path):
    """One machine is enough for most tests."""
    (project.path / ".git").mkdir()
    return Machines(project, tmp_path / "machines", ["one"])


def test_processes_of_this_machine_get_files_too(project, monkeypatch):
    fork_workers(monkeypatch)
    write_agent(project)
    write_cases(project, {"a": "say hello", "b": "start_of a; say hello"})
    run = project.run("--agentv-executor=processes:1", BUNDLE, "--agentv-workers=2")
    assert run.statuses == {"a": "pass", "b": "pass"}
    assert not read_calls(project.path).notes, "the agent wrote into a folder of its worker"
    assert "agentv: executor processes:1: 2 answers" in run.lines
    assert not list(project.path.glob(".*.kept"))


def test_a_copy_of_the_project_will_do(project, machine):
    """As in an image of a container: nothing is shipped."""
    write_agent(project)
    write_cases(project, numbered(2))
    copy = machine.folders[0] / "copy"
    shutil.copytree(project.path, copy, ignore=shutil.ignore_patterns("conftest.py"))
    if not machine.is_hidden:
        pytest.skip(str(reason_not_to_hide()))
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("/one'", "/one/copy'"))
    run = project.run()
    assert set(run.statuses.values()) == {"pass"}
    assert {note["id"] for note in read_calls(copy).notes} == set(numbered(2))
    assert b"agent.py" not in machine.sent()


def test_a_worker_without_the_files_says_so(project, machine):
    if not machine.is_hidden:
        pytest.skip(str(reason_not_to_hide()))
    write_agent(project)
    write_cases(project, numbered(1))
    run = project.run()
    result = run.by_id["case-0"]
    assert result["error_detail"] == {"stage": "setup", "kind": "config"}
    assert result["error"].startswith("this worker does not see the project: a.eval.yaml is neither in the folder of")
    assert result["error"].endswith("start workers in the project's folder, or ship it with --agentv-ship=bundle")


def test_too_many_megabytes_are_refused_before_anything_is_paid(project, machine):
    write_agent(project)
    write_cases(project, numbered(1))
    project.write("big/one.bin", "1" * 300_000)
    project.write("big/two.bin", "2" * 200_000)
    project.write("pytest.ini", "[pytest]\nagentv_ship_limit = 0.4\n")
    error = project.run(BUNDLE).by_id["case-0"]["error"]
    assert "are to be shipped to workers, and the limit is 0.4 MB; the largest: big/one.bin (0.3 MB)" in error
    assert error.endswith("or use --agentv-ship=none where workers see the files")
    project.write("pytest.ini", "[pytest]\nagentv_ship_limit = 0.4\nagentv_ship_ignore = big/*\n")
    assert project.run(BUNDLE).statuses == {"case-0": "pass"}


def test_a_wrong_limit_is_told(project):
    write_agent(project)
    write_cases(project, numbered(1))
    project.write("pytest.ini", "[pytest]\nagentv_ship_limit = much\n")
    run = project.run(BUNDLE)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert "agentv_ship_limit: 'much' is not a number: expected a number of megabytes above 0" in run.text


def test_files_outside_of_the_project_stay_with_their_cases(project, machine, tmp_path):
    (tmp_path / "far.txt").write_text("far away\n")
    write_agent(project)
    write_cases(project, numbered(1, word="near"))
    said = [{"role": "user", "content": [{"type": "file", "value": str(tmp_path / "far.txt")}]}]
    case = {"id": "far", "expected_outcome": "x", "input": said, "target": "mock", "assert": [{"contains": "hello"}]}
    project.write("b/b.eval.yaml", json.dumps({"evalcases": [case]}))
    project.write("b/targets.yaml", "targets: [{name: mock, provider: mock, response: hello}]\n")
    run = project.run(BUNDLE)
    assert run.statuses == {"near-0": "pass", "far": "pass"}
    assert "1 ran in this process: 1 with files outside of the project" in run.text


def test_cached_answers_are_known_everywhere(project, machines):
    project.write("agent.py", "import uuid\n\n\ndef answer(prompt):\n    return f'hello {uuid.uuid4()}'\n")
    project.write("tools/tool.sh", "cat $1; echo hello $$\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: python, callable: agent.py:answer}
          - {name: shell, provider: cli, command_template: "sh tool.sh {FILES}", cwd: tools}
        """,
    )
    project.write("note.txt", "hi")
    shell = {"target": "shell", "input": content("note.txt")}
    write_cases(project, numbered(4), **{"case-2": shell, "case-3": shell})
    first = project.run(BUNDLE, "--agentv-cache")
    again = project.run(BUNDLE, "--agentv-cache")
    here = project.run("--agentv-executor=local", "--agentv-cache")
    answers = [{name: each["candidate_answer"] for name, each in run.by_id.items()} for run in (first, again, here)]
    assert answers[0] == answers[1] == answers[2]
    assert not any(each.get("cached") for each in first.results)
    assert all(each["cached"] for each in (*again.results, *here.results))


def test_a_target_is_checked_once(project, machines, tmp_path):
    checks = tmp_path / "checks.txt"
    project.write(
        "targets.yaml",
        f"""
        targets:
          - name: default
            provider: cli
            command_template: echo hello
            healthcheck: {{type: command, command_template: "echo checked >> {checks}"}}
        """,
    )
    write_cases(project, numbered(6))
    assert set(project.run(BUNDLE).statuses.values()) == {"pass"}
    assert checks.read_text() == "checked\n"


def test_a_run_goes_on_where_shipped_cases_have_ended(project, machine):
    write_agent(project)
    write_cases(project, {"a": "say hello", "b": "fail once"})
    project.run(BUNDLE)
    (project.path / "out-1.jsonl").rename(project.path / "out.jsonl")
    write_cases(project, {"a": "say hello", "b": "say hello"})
    before = machine.sent()
    assert project.run(BUNDLE, "--agentv-resume=out.jsonl").statuses["b"] == "pass"
    assert machine.sent().removeprefix(before).count(b"case-a") == 0


PASSED = "value-that-was-passed"


def write_passing(project):
    command = "echo hello $SHOP_WORD"
    project.write("targets.yaml", f"targets: [{{name: default, provider: cli, command_template: '{command}'}}]\n")
    write_cases(project, numbered(1))
    project.write(".env", f"SHOP_WORD={PASSED}\n")


@pytest.mark.parametrize("executor", ["processes", "private", "open"])
def test_variables_are_passed_where_nobody_listens(project, machine, executor):
    write_passing(project)
    conftest = project.path / "conftest.py"
    if executor == "private":
        text = conftest.read_text().replace("return Elsewhere(", "found = Elsewhere(")
        conftest.write_text(f"{text}    found.agentv_is_private = True\n    return found\n")
    more = ["--agentv-executor=processes:1"] if executor == "processes" else []
    run = project.run(BUNDLE, "--agentv-pass-env=SHOP_WORD", *more)
    assert PASSED not in run.text
    if executor == "open":
        assert run.exit_code == pytest.ExitCode.USAGE_ERROR
        assert "--agentv-pass-env: the connection to Elsewhere is not known to be encrypted or local" in run.text
    else:
        assert run.by_id["case-0"]["candidate_answer"] == "hello ***"


@pytest.mark.parametrize("more", [(), varied(("-n", "1"))])
def test_a_variable_for_workers_that_a_run_does_not_have_is_told(project, monkeypatch, more):
    """It was ignored without a word, even where it was not set."""
    monkeypatch.setenv("SHOP_WORD", "hello there")
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("a.eval.yaml", "evalcases: [{id: a, input: q, expected_outcome: o, assert: [{contains: hello}]}]\n")
    text = "--agentv-pass-env is for the workers of an executor, and this run has none: --agentv-executor asks for one"
    run = project.run("--agentv-pass-env=SHOP_WORD", *more, subprocess=bool(more))
    assert (run.exit_code, run.text.count(text)) == (0, 1)
    if not more:
        fork_workers(monkeypatch)
        assert text not in project.run("--agentv-pass-env=SHOP_WORD", "--agentv-executor=processes:1").text


def test_a_variable_that_is_not_set_cannot_be_passed(project, machine):
    write_passing(project)
    run = project.run(BUNDLE, "--agentv-pass-env=SHOP_WORDS")
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert "--agentv-pass-env=SHOP_WORDS: this variable is set neither here nor in .env" in run.text
