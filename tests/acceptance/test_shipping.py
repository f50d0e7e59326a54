"""Cases whose files are shipped: workers that live as on other machines give the records of a local run."""

import io
import json
import pickle
import re
import shutil
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elsewhere import reason_not_to_hide
from fake_llm import FakeLlm, Reply
from scripted_agent import numbered, read_calls, write_agent, write_cases

from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.executors.shipping.parcel import Parcel

TESTS = Path(__file__).parents[1]
BUNDLE = "--agentv-ship=bundle"
AT_HOME, ON_WORKERS = "sk-at-home-0123456789abcdef", "sk-on-workers-0123456789abcdef"

ELSEWHERE = """
import sys
sys.path.append({tests!r})
from pathlib import Path
from elsewhere import Elsewhere

def pytest_agentv_executor(config):
    return Elsewhere({folders!r}, {hidden!r}, Path({log!r}))
""".replace("({folders!r}", "([Path(each) for each in {folders!r}]")


class Machines:
    """Two workers with folders of their own, from which a project is hidden where that is allowed."""

    def __init__(self, project, folder):
        self.folders = [folder / name for name in ("one", "two")]
        self.log = folder / "sent.bin"
        for each in self.folders:
            each.mkdir(parents=True)
        self.is_hidden = reason_not_to_hide() is None
        hidden = [str(project.path)] if self.is_hidden else []
        names = {"folders": [str(each) for each in self.folders], "hidden": hidden, "log": str(self.log)}
        project.write("conftest.py", ELSEWHERE.format(tests=str(TESTS), **names))

    def write(self, name, text):
        for each in self.folders:
            (each / name).write_text(text)

    def sent(self):
        return self.log.read_bytes()


TARGETS = """
targets:
  - {name: default, provider: mock, response: hello world}
  - {name: shell, provider: cli, command_template: "sh ../tools/hello.sh $SHOP_API_KEY", judge_target: judge}
  - {name: code, provider: python, callable: agent.py:answer}
  - {name: module, provider: python, callable: shop.agents:answer}
  - {name: service, provider: asgi, app: service.py:app, body: {question: "{{ prompt }}"}, answer: $.said}
  - name: web
    provider: http
    url: ${{ MODEL_URL }}/v1/chat/completions
    headers: {Authorization: "Bearer ${{ SHOP_API_KEY }}"}
    body: {model: m, messages: [{role: user, content: "{{ prompt }}"}]}
    answer: $.choices[0].message.content
  - {name: model, provider: openai, base_url: "${{ MODEL_URL }}", api_key: "${{ SHOP_API_KEY }}", model: m}
  - {name: judge, provider: openai, base_url: "${{ JUDGE_URL }}", api_key: "${{ SHOP_API_KEY }}", model: m}
  - {name: embeddings, provider: openai, base_url: "${{ MODEL_URL }}", api_key: "${{ SHOP_API_KEY }}", model: e}
  - {name: claude, provider: claude-code, executable: agents/claude}
  - {name: codex, provider: codex, executable: agents/codex}
  - {name: pi, provider: pi, executable: agents/pi}
  - {name: broken, provider: cli, command_template: "echo no such thing >&2; exit 3"}
  - {name: unset, provider: openai, api_key: "${{ NOWHERE }}", model: m}
  - {name: absent, provider: cli, command_template: "cat ../notes/absent.txt; pwd"}
"""

FILES = {
    "evals/agent.py": """
        import logging
        import os

        from helpers.polite import greeting

        def answer(prompt):
            logging.getLogger("agent").warning("my key is %s", os.environ["SHOP_API_KEY"])
            return f"{greeting()} from python: {open('notes/note.txt').read()}"
        """,
    "evals/helpers/__init__.py": "",
    "evals/helpers/polite.py": "def greeting():\n    return 'hello'\n",
    "evals/service.py": """
        import json

        async def app(scope, receive, send):
            question = json.loads((await receive())["body"])["question"]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps({"said": f"hello {question}"}).encode()})
        """,
    "evals/checks.py": "def is_short(answer):\n    return len(answer) < 500\n",
    "src/shop/__init__.py": "",
    "src/shop/agents.py": "from shop.words import HELLO\n\ndef answer(prompt):\n    return f'{HELLO} from a package'\n",
    "src/shop/words.py": "HELLO = 'hello'\n",
    "src/shop/unused.py": "",
    "pytest.ini": "[pytest]\npythonpath = src\n",
    "notes/note.txt": "Say hello to the note.\n",
    "notes/style.instructions.md": "Be polite.\n",
    "tools/hello.sh": "echo hello $1; echo $0 >&2\n",
    "judges/judge.py": """
        import json, sys
        from rules import SCORE
        case = json.load(sys.stdin)
        table = open("table.txt").read()
        print(json.dumps({"score": SCORE, "hits": [table.strip(), *case["input_files"]]}))
        """,
    "judges/rules.py": "SCORE = 0.5\n",
    "judges/reused.py": "from rules import SCORE\n\ndef judge(case):\n    return {'score': 1, 'hits': [f'{SCORE}']}\n",
    "judges/asking.py": """
        from pytest_agentv.sdk import Result, code_judge, create_target_client

        @code_judge
        def judge(case):
            return Result(score=1, hits=[create_target_client().invoke("Is it?", target="default").raw_text])
        """,
    "judges/table.txt": "what lies beside it\n",
    "prompts/judge.md": "Was it polite? {{ candidate_answer }}\n",
    "schemas/offer.json": '{"type": "object", "required": ["price"]}',
}

PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89"


def content(*files):
    return [
        {"role": "user", "content": [{"type": "text", "value": "read"}, *({"type": "file", "value": f} for f in files)]}
    ]


def write_project(project, url):
    (project.path / ".git").mkdir()
    for name, text in FILES.items():
        project.write(name, text)
    project.write("evals/targets.yaml", TARGETS)
    for name in ("claude", "codex", "pi"):
        path = project.write(f"agents/{name}", f'#!/bin/sh\ncat > /dev/null\ncat "$(dirname $0)/{name}.jsonl"\n')
        path.chmod(0o755)
        project.write(f"agents/{name}.jsonl", (TESTS / f"golden/agents/{name}-tools.jsonl").read_text())
    project.write(".env", f"SHOP_API_KEY={AT_HOME}\nMODEL_URL={url}/model\nJUDGE_URL={url}/judge\n")
    (project.path / "notes/chart.png").write_bytes(PICTURE)
    words = {"name": "words", "type": "heuristic", "hits": ["hello"], "misses": ["bye"]}
    code = {"name": "code", "type": "code_judge", "script": ["python3", "judge.py"], "cwd": "judges"}
    reused = {**code, "name": "reused", "script": ["python3", "reused.py"], "reuse": True}
    asking = {**code, "name": "asking", "script": ["python3", "asking.py"], "target": True}
    judge = {"name": "judge", "type": "llm_judge", "prompt": "../prompts/judge.md"}
    both = {
        "name": "both",
        "type": "composite",
        "evaluators": [words, code],
        "aggregator": {"type": "weighted_average"},
    }
    check = {"name": "check", "type": "python", "value": "checks.py:is_short"}
    json_check = {"name": "json", "type": "is-json", "value": "../schemas/offer.json"}
    tokens = {"name": "tokens", "type": "token_usage", "max_total": 100000}
    similar = {"name": "similar", "type": "similar", "value": "hello", "target": "embeddings"}
    calls = {"name": "calls", "type": "tool_trajectory", "mode": "any_order", "minimums": {"search": 1}}
    files = content("notes/note.txt", "notes/style.instructions.md")
    cases = {
        "mock": ("default", [words, json_check, calls], "hi"),
        "shell": ("shell", [words, code, judge], files),
        "python": ("code", [both, check], files),
        "package": ("module", [words], "hi"),
        "asgi": ("service", [words], "hi"),
        "scripts": ("default", [reused, asking], "hi"),
        "http": ("web", [words], "hi"),
        "model": ("model", [words, tokens], files),
        "picture": ("model", [words], content("notes/chart.png")),
        "similar": ("default", [similar], "hi"),
        "claude": ("claude", [words, code], files),
        "codex": ("codex", [words, calls], files),
        "pi": ("pi", [words], files),
        "broken": ("broken", [words], "hi"),
        "unset": ("unset", [words], "hi"),
        "unknown": ("nowhere", [words], "hi"),
        "absent": ("absent", [words], "hi"),
    }
    entries = [
        {"id": name, "expected_outcome": "hello", "input": said, "execution": {"target": target, "evaluators": checks}}
        for name, (target, checks, said) in cases.items()
    ]
    repeated = {"id": "repeated", "expected_outcome": "hello", "input": "x", "evaluators": [words], "repeat": 3}
    project.write("evals/a.eval.yaml", json.dumps({"evalcases": [*entries, repeated]}))
    write_examples(project)


def write_examples(project):
    """Write the examples of all evaluators that have some, each with a target that gives its answer."""
    targets, cases = [], []
    for word, kind in EVALUATORS.items():
        for number, example in enumerate(kind.examples if word == kind.kind else ()):
            name = f"{word}-{number}"
            targets.append({"name": name, "provider": "mock", "response": example["answer"], "judge_target": "judge"})
            case = {"id": name, "expected_outcome": "x", "input": "q", "target": name, "assert": example["assert"]}
            cases.append({**case, **({"vars": example["vars"]} if "vars" in example else {})})
    checks = [{"id": f"statement-{number}", "satisfied": True, "reasoning": ""} for number in (1, 2)]
    reply = json.dumps({"checks": checks, "overall_reasoning": ""})
    judge = {"name": "judge", "provider": "mock", "response": reply}
    model = {"provider": "openai", "base_url": "${{ MODEL_URL }}", "api_key": "${{ SHOP_API_KEY }}", "model": "e"}
    targets += [judge, {"name": "embeddings", **model}]
    project.write("examples/targets.yaml", json.dumps({"targets": targets}))
    project.write("examples/checks.py", "def is_polite(answer):\n    return True\n")
    project.write("examples/kinds.eval.yaml", json.dumps({"evalcases": cases}))


TIMES = {"timestamp", "run_id", "duration_ms", "tool_durations", "durationMs", "waited_ms"}


def without_times(results):
    """Return results by id, without what differs between any two runs."""
    text = json.dumps({result["eval_id"]: result for result in results}, sort_keys=True)
    text = re.sub("quoted-[0-9a-f]{16}", "quoted", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_(.+?)_[0-9a-f]{8}\.log", r"\1.log", text)
    return _timeless(json.loads(text))


def _timeless(value):
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


ARGS = ("evals", "examples", "--agentv-include-trace", "--agentv-dump-prompts=dumped")


@dataclass(frozen=True)
class Compared:
    """Every kind, run here and on other machines."""

    project: Any
    machines: Machines
    here: Any
    there: Any
    dumped: dict[str, str]
    """The prompts of the local run."""
    keys: list[str | None]
    """The API keys that came to the model from the workers."""

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
    verdict = json.dumps({"score": 0.75, "hits": ["kind"], "misses": [], "reasoning": "because"})
    with FakeLlm() as model:
        model.script("judge", Reply(verdict))
        model.script("model", Reply("hello from the model"))
        write_project(project, model.url)
        here = project.run("--agentv-executor=local", *ARGS)
        dumped = texts_in(project.path / "dumped")
        shutil.rmtree(project.path / "dumped")
        machines = Machines(project, tmp_path_factory.mktemp("machines"))
        machines.write(".env", (project.path / ".env").read_text().replace(AT_HOME, ON_WORKERS))
        before = len(model.asked("model"))
        there = project.run(BUNDLE, *ARGS, "-v")
        keys = [request.api_key for request in model.asked("model")[before:]]
    return Compared(project, machines, here, there, dumped, keys)


def texts_in(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.skipif(reason_not_to_hide() is not None, reason=str(reason_not_to_hide()))
def test_the_workers_do_not_see_the_project(kinds):
    assert kinds.machines.is_hidden


def test_records_are_those_of_a_local_run(kinds):
    local, shipped = without_times(kinds.here.results), without_times(kinds.there.results)
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


EXPECTED_ERRORS = {"broken", "unset", "unknown", "bleu-0", "rouge-0"}
"""Those of cases that are to fail, and of kinds whose packages may be absent."""


def test_no_case_stayed_at_home(kinds):
    assert re.search(r"^agentv: executor Elsewhere: \d+ answers$", kinds.there.text, re.MULTILINE)


def test_workers_have_secrets_of_their_own(kinds):
    assert kinds.keys
    assert all(key is not None and ON_WORKERS in key for key in kinds.keys)


def test_no_secret_travels_or_is_written(kinds):
    assert AT_HOME.encode() not in kinds.machines.sent()
    assert not [name for name in shipped_names(kinds) if "/.env" in name]
    assert "my key is ***" in kinds.there.text
    for secret in (AT_HOME, ON_WORKERS):
        assert secret not in kinds.there.text
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


def test_nothing_names_a_place_of_a_worker(kinds):
    written = [path for path in kinds.project.path.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    texts = [kinds.there.text, *(path.read_bytes().decode("utf-8", "replace") for path in written)]
    assert not [text for text in texts if "agentv-stores" in text]


def test_only_needed_folders_travel(kinds):
    names = shipped_names(kinds)
    assert "project/src/shop/words.py" in names
    assert "project/src/shop/unused.py" in names, "what lies beside a program goes with it"
    assert "project/notes/note.txt" in names
    assert "project/pytest.ini" not in names
    assert not [name for name in names if "__pycache__" in name]


def test_each_worker_gets_a_bundle_once_or_a_little_more(kinds):
    sent = Counter(digest for parcel in kinds.parcels for digest, _ in parcel.bundles)
    assert sent
    assert max(sent.values()) <= 2 * len(kinds.machines.folders)
    assert len(sent) < 10


def test_files_that_cases_write_come_home(kinds):
    assert texts_in(kinds.project.path / "dumped") == kinds.dumped
    for name in ("claude", "codex", "pi"):
        log = Path(kinds.there.by_id[name]["log_file"])
        assert log.is_relative_to(kinds.project.path)
        assert "stream log" in log.read_text()


def test_workers_leave_nothing(kinds):
    left = [path for each in kinds.machines.folders for path in (each / "tmp").rglob("*") if path.is_file()]
    assert left == []


# One matter each


@pytest.fixture
def machines(project, tmp_path):
    (project.path / ".git").mkdir()
    return Machines(project, tmp_path / "machines")


def test_processes_of_this_machine_get_files_too(project):
    write_agent(project)
    write_cases(project, {"a": "say hello", "b": "start_of a; say hello"})
    run = project.run("--agentv-executor=processes:1", BUNDLE, "--agentv-workers=2")
    assert run.statuses == {"a": "pass", "b": "pass"}
    assert not read_calls(project.path).notes, "the agent wrote into a folder of its worker"
    assert "agentv: executor processes:1: 2 answers" in run.lines
    assert not list(project.path.glob(".*.kept"))


def test_a_copy_of_the_project_will_do(project, machines):
    """As in an image of a container: nothing is shipped."""
    write_agent(project)
    write_cases(project, numbered(2))
    for each in machines.folders:
        shutil.copytree(project.path, each / "copy", ignore=shutil.ignore_patterns("conftest.py"))
    if not machines.is_hidden:
        pytest.skip(str(reason_not_to_hide()))
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("/one'", "/one/copy'").replace("/two'", "/two/copy'"))
    run = project.run()
    assert set(run.statuses.values()) == {"pass"}
    notes = [note for each in machines.folders for note in read_calls(each / "copy").notes]
    assert {note["id"] for note in notes} == set(numbered(2))
    assert b"agent.py" not in machines.sent()


def test_a_worker_without_the_files_says_so(project, machines):
    if not machines.is_hidden:
        pytest.skip(str(reason_not_to_hide()))
    write_agent(project)
    write_cases(project, numbered(1))
    run = project.run()
    result = run.by_id["case-0"]
    assert result["error_detail"] == {"stage": "setup", "kind": "config"}
    assert result["error"].startswith("this worker does not see the project: a.eval.yaml is neither in the folder of")
    assert result["error"].endswith("start workers in the project's folder, or ship it with --agentv-ship=bundle")


def test_too_many_megabytes_are_refused_before_anything_is_paid(project, machines):
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


def test_files_outside_of_the_project_stay_with_their_cases(project, machines, tmp_path):
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
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    write_cases(project, numbered(4))
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


def test_a_run_goes_on_where_shipped_cases_have_ended(project, machines):
    write_agent(project)
    write_cases(project, {"a": "say hello", "b": "fail once"})
    project.run(BUNDLE)
    (project.path / "out-1.jsonl").rename(project.path / "out.jsonl")
    write_cases(project, {"a": "say hello", "b": "say hello"})
    before = machines.sent()
    assert project.run(BUNDLE, "--agentv-resume=out.jsonl").statuses["b"] == "pass"
    assert machines.sent().removeprefix(before).count(b"case-a") == 0


PASSED = "value-that-was-passed"


def write_passing(project):
    command = "echo hello $SHOP_WORD"
    project.write("targets.yaml", f"targets: [{{name: default, provider: cli, command_template: '{command}'}}]\n")
    write_cases(project, numbered(1))
    project.write(".env", f"SHOP_WORD={PASSED}\n")


@pytest.mark.parametrize("executor", ["processes", "private", "open"])
def test_variables_are_passed_where_nobody_listens(project, machines, executor):
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


def test_a_variable_that_is_not_set_cannot_be_passed(project, machines):
    write_passing(project)
    run = project.run(BUNDLE, "--agentv-pass-env=SHOP_WORDS")
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert "--agentv-pass-env=SHOP_WORDS: this variable is set neither here nor in .env" in run.text
