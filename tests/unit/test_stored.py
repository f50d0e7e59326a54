"""Which answers the store keeps, which questions get them, and what makes those of a target invalid."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt, PromptMode
from pytest_agentv.engine.stored import StoredProvider
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Costs, Message, TokenUsage
from pytest_agentv.model.secrets import Masker, Secret
from pytest_agentv.providers.api.openai import OpenAi
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.cli import Cli
from pytest_agentv.providers.kind import Provider
from pytest_agentv.providers.python import Python
from pytest_agentv.store.answers import AnswerStore, Question, Runs, Stored
from pytest_agentv.store.fingerprints import Fingerprints

REQUEST = ProviderRequest(Prompt("question"), eval_id="a")
RESPONSE = ProviderResponse((Message("assistant", "an answer"),), token_usage=TokenUsage(1, 2))


class Answering:
    """Gives one answer."""

    mode: PromptMode = "lm"

    def __init__(self, response: ProviderResponse = RESPONSE) -> None:
        self.response = response

    async def check(self) -> None: ...

    async def close(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return self.response


def target(settings: Provider | None = None, kind: str = "openai") -> Target:
    return Target("t", kind, settings or OpenAi(model="gpt", api_key=Secret("sk-secret-1"), temperature=0.5))


def ask(
    provider: Answering, folder: Path, of: Target | None = None, request: ProviderRequest = REQUEST
) -> ProviderResponse:
    """Ask as a run of its own does that may take the answers of all runs."""
    fingerprint = Fingerprints([folder, Path(__file__).parent], lambda *_: None).of_target(of or target())
    assert fingerprint is not None
    store = AnswerStore(Runs(folder / "answers.sqlite", "run", Path("own.jsonl"), any_run=True), pytest.fail)
    try:
        return asyncio.run(StoredProvider(provider, fingerprint, store, Masker(["sk-secret-1"])).invoke(request))
    finally:
        store.close()


@pytest.mark.parametrize(
    "response",
    [
        RESPONSE.replace(output_messages=()),  # the provider did not wait for it
        RESPONSE.replace(output_messages=(Message("assistant", None),)),
        RESPONSE.replace(output_messages=(Message("assistant", {1: "a key of another type"}),)),
        RESPONSE.replace(output_messages=(Message("assistant", "the key is sk-secret-1"),)),
        RESPONSE.replace(trace_ref="missing.jsonl"),
        RESPONSE.replace(error="something went wrong"),
        RESPONSE.replace(finish_reason="length"),
    ],
    ids=["none", "null", "no JSON", "secret", "no trace", "failed", "incomplete"],
)
def test_an_answer_that_no_other_run_may_take_is_not_kept(tmp_path: Path, response: ProviderResponse) -> None:
    assert [ask(Answering(response), tmp_path).cached for _ in range(2)] == [False, False]
    assert b"sk-secret-1" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


PLAIN = target()


@pytest.mark.parametrize(
    "other",
    [
        target(OpenAi(model="gpt-2", temperature=0.5)),
        target(OpenAi(model="gpt", temperature=0.7)),
        target(OpenAi(model="gpt", temperature=0.5, base_url="http://localhost")),
        target(Cli(command_template="echo", cwd="/")),
        target(kind="azure"),
        target(OpenAi(model="gpt", api_key=Secret("sk-other-22"), temperature=0.5)),
        PLAIN.replace(provider_batching=True),
    ],
)
def test_another_target_is_asked_anew(tmp_path: Path, other: Target) -> None:
    assert [ask(Answering(), tmp_path, each).cached for each in (PLAIN, other, PLAIN)] == [False, False, True]


QUESTION = Question("a.yaml::a", "a", "key")


def keep(runs: Runs, *questions: Question) -> None:
    """Keep an answer to each question, which tells its run."""

    async def add() -> None:
        for question in questions:
            await store.add(question, json.dumps({"by": runs.run_id}), Costs(1))

    store = AnswerStore(runs, pytest.fail)
    store.drop("nothing")  # opens the file, also for a run that asks nothing
    asyncio.run(add())
    store.close()


def found(runs: Runs, question: Question = QUESTION) -> str | None:
    """Return the run whose answer a run gets."""
    store = AnswerStore(runs, pytest.fail)
    answer = store.find(question)
    store.close()
    return None if answer is None else str(answer.response["by"])


@pytest.mark.parametrize(
    ("earlier", "gets"),
    [
        ([("first", "own", "")], None),
        ([("first", "old", "")], "first"),
        ([("first", "old", ""), ("second", "old", "old")], "second"),
        ([("first", "older", ""), ("second", "old", "older")], "second"),
        ([("first", "older", ""), ("asks nothing", "old", "older")], "first"),
        ([("first", "old", ""), ("asks nothing", "old", "")], None),
    ],
)
def test_a_run_gets_the_newest_answer_of_the_runs_that_it_goes_on_with(
    tmp_path: Path, earlier: Sequence[tuple[str, str, str]], gets: str | None
) -> None:
    """`earlier` are runs, their files, and the files that they go on with. A new run puts others out of its file."""
    store = tmp_path / "answers.sqlite"
    for run_id, file, resumed in earlier:
        runs = Runs(store, run_id, Path(file), Path(resumed) if resumed else None)
        keep(runs, *([] if run_id == "asks nothing" else [QUESTION]))
    last, other = Runs(store, "last", Path("own"), Path("old")), QUESTION.replace(item="b.yaml::a")
    assert (found(last), found(last, other)) == (gets, None)
    newest = [run_id for run_id, *_ in earlier if run_id != "asks nothing"][-1]
    last = last.replace(resumed=None, any_run=True)
    assert (found(last), found(last, other)) == (newest, newest)


def test_answers_that_are_older_than_some_days_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(tmp_path / "answers.sqlite", "first", Path("old"))
    keep(runs, QUESTION)
    last = runs.replace(run_id="last", resumed=Path("old"))
    assert found(last) == "first"
    later = time.time() + 31 * 24 * 60 * 60
    monkeypatch.setattr("time.time", lambda: later)
    assert found(last) is None


def test_a_judgement_with_half_a_character_holds_up_no_answer(tmp_path: Path) -> None:
    async def ask() -> object:
        first = await store.add(question, "{}", Costs(1))
        store.judge(first, "grading", [{"hits": ["\ud800"]}])
        await asyncio.wait_for(store.add(dataclasses.replace(question, key="other"), "{}", Costs(1)), 30)
        return AnswerStore(runs, pytest.fail).find(question)

    question = Question("item", "id", "key")
    runs = Runs(tmp_path / "answers.sqlite", "run", Path("own.jsonl"))
    store = AnswerStore(runs, pytest.fail)
    found = asyncio.run(ask())
    store.close()
    assert isinstance(found, Stored)
    assert found.judgement == [{"hits": ["\ud800"]}]


PROJECT = {
    "agent.py": "import os, prices as p\nfrom shop import (\n    stock,  # a module\n    NAME,\n)\n",
    "prices.py": "if True:\n    import shop.deep.inner\n",
    "shop/__init__.py": "NAME = 1\n",
    "shop/stock.py": "from .deep import outer\n",
    "shop/deep/__init__.py": "",
    "shop/deep/inner.py": "def late():\n    try:\n        import last\n    finally: ...\n",
    "shop/deep/outer.py": "match 1:\n    case 1: from ...near import x\n",
    "near.py": "import near, agent\n",
    "last.py": "",
    "unrelated.py": "",
    "os.txt": "",
    "venv/lib/site-packages/installed.py": "",
}
PROGRAM = {
    *("agent.py", "prices.py", "near.py", "last.py"),
    *("shop/__init__.py", "shop/stock.py", "shop/deep/__init__.py", "shop/deep/inner.py", "shop/deep/outer.py"),
}


def write(folder: Path, files: dict[str, str] = PROJECT) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def hash_of(root: Path, settings: Any, warnings: list[Problem] | None = None, **others: Any) -> str | None:
    target = Target("t", "kind", settings, path=str(root / "targets.yaml"), line=1, **others)
    told = [] if warnings is None else warnings
    return Fingerprints([root], lambda problem, _: told.append(problem)).of_target(target)


def counting(root: Path, settings: Any) -> set[str]:
    """Return the files whose edit changes the hash of a target."""
    usual, found = hash_of(root, settings), set[str]()
    assert usual is not None
    for name in PROJECT:
        text = (root / name).read_text()
        (root / name).write_text(f"{text}\n")
        found |= {name} if hash_of(root, settings) != usual else set()
        (root / name).write_text(text)
    return found


@pytest.mark.parametrize("name", ["agent.py:answer", "agent:answer"])
def test_a_function_is_its_module_and_what_that_imports_early_or_late(tmp_path: Path, name: str) -> None:
    assert counting(write(tmp_path), Python(callable=name)) == PROGRAM


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python last.py {PROMPT} --note agent.txt", {"last.py"}),
        ("python -m shop.deep.inner", {"shop/__init__.py", "shop/deep/__init__.py", "shop/deep/inner.py", "last.py"}),
        ("cat os.txt; (./unrelated.py)|cat>last.py", {"os.txt", "unrelated.py"}),
        ("agent --config=os.txt", {"os.txt"}),
        ("cd shop && python __init__.py; cd deep;cat inner.py", {"shop/__init__.py", "shop/deep/inner.py", "last.py"}),
        ("cd missing || cd 'a\0b' && cat os.txt", set()),
        ("echo hello > os.txt; echo hello >> os.txt; cat os.txt", set()),
        ("python venv/lib/site-packages/installed.py", set()),
        ("python missing.py; cat 'an open quote os.txt", {"os.txt"}),
        (f"cat {'x' * 5000} /etc/hostname .", set()),
    ],
)
def test_the_words_of_a_command_name_files(tmp_path: Path, command: str, expected: set[str]) -> None:
    settings = Cli.model_construct(command_template=command)
    assert counting(write(tmp_path), settings) == expected


@pytest.mark.parametrize("text", ["this is no Python", "a\0b"])
def test_a_file_whose_imports_cannot_be_read_may_have_changed(tmp_path: Path, text: str) -> None:
    write(tmp_path, {**PROJECT, "shop/deep/outer.py": text})
    assert hash_of(tmp_path, Python(callable="agent.py:answer")) is None
