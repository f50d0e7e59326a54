import asyncio
import errno
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agentv.cases.prompts import ChatMessage, Prompt, PromptMode
from pytest_agentv.engine.cache import (
    CachedProvider,
    cached_file,
    keep_answer,
    read_answer,
    what_is_asked,
)
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Message, TokenUsage, TraceEvent
from pytest_agentv.model.secrets import Masker, Secret
from pytest_agentv.providers.api.openai import OpenAi
from pytest_agentv.providers.base import BatchProvider, ProviderRequest, ProviderResponse
from pytest_agentv.providers.cli import Cli
from pytest_agentv.providers.kind import Provider
from pytest_agentv.runtime import files
from pytest_agentv.store.fingerprints import Fingerprints

REQUEST = ProviderRequest(Prompt("question"), eval_id="a")
RESPONSE = ProviderResponse((Message("assistant", "an answer"),), token_usage=TokenUsage(1, 2))


class CountingProvider:
    """Counts its calls."""

    mode: PromptMode = "lm"

    def __init__(self, response: ProviderResponse | ProviderError = RESPONSE) -> None:
        self.calls = 0
        self._response = response

    async def check(self) -> None: ...

    async def close(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.calls += 1
        if isinstance(self._response, ProviderError):
            raise self._response
        return self._response


def target(settings: Provider | None = None, kind: str = "openai") -> Target:
    return Target("t", kind, settings or OpenAi(model="gpt", api_key=Secret("sk-secret-1"), temperature=0.5))


def ask(provider: CachedProvider, request: ProviderRequest = REQUEST) -> ProviderResponse:
    return asyncio.run(provider.invoke(request))


def cached(provider: CountingProvider, folder: Path, of: Target | None = None) -> CachedProvider:
    fingerprint = Fingerprints([folder, Path(__file__).parent], lambda *_: None).of_target(of or target())
    assert fingerprint is not None
    return CachedProvider(provider, fingerprint, folder, Masker(["sk-secret-1"]))


def test_the_same_question_is_asked_once_and_the_hit_is_marked(tmp_path: Path) -> None:
    provider = CountingProvider()
    first, second = ask(cached(provider, tmp_path)), ask(cached(provider, tmp_path))
    assert (first.cached, second.cached, provider.calls) == (False, True, 1)
    assert second.token_usage == TokenUsage(1, 2)


class SlowProvider(CountingProvider):
    """Takes a while, and does not say how long."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        await asyncio.sleep(0.02)
        return await super().invoke(request)

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        return [await self.invoke(request) for request in requests]


def test_an_answer_is_kept_with_the_time_that_it_took(tmp_path: Path) -> None:
    provider = cached(SlowProvider(), tmp_path)
    first, second = ask(provider), ask(provider)
    assert first.duration_ms is not None
    assert first.duration_ms >= 19
    assert second.duration_ms == first.duration_ms
    (batched,), (again,) = (asyncio.run(provider.invoke_batch([REQUEST.replace(answer=1)])) for _ in range(2))
    assert batched.duration_ms is not None
    assert batched.duration_ms >= 19
    assert (again.duration_ms, again.cached) == (batched.duration_ms, True)


def test_a_time_that_the_target_reports_is_kept_as_it_is(tmp_path: Path) -> None:
    provider = cached(SlowProvider(RESPONSE.replace(duration_ms=7.5)), tmp_path)
    assert [ask(provider).duration_ms for _ in range(2)] == [7.5, 7.5]


def test_what_was_kept_by_earlier_versions_is_found_and_not_paid_for_again() -> None:
    """A key that is made in another way misses every answer that users have."""
    prompt = {"question": "question", "guidelines": ""}
    asked = {"eval_id": "a", "prompt": prompt, "system_prompt": None, "guidelines": 0, "files": []}
    assert what_is_asked(REQUEST) == asked
    assert what_is_asked(REQUEST.replace(answer=2)) == {**asked, "answer": 2}
    name = "5fe3f7901f6c1ec9d009897c2ec260311d4f6e71ba9e1359f367df4e816bb0da"
    assert cached_file(Path("cache"), asked) == Path("cache") / name[:2] / f"{name}.json"


def test_the_output_of_a_batch_is_no_answer_to_a_single_call(tmp_path: Path) -> None:
    provider, plain = CountingProvider(), target()
    for of in (plain, plain.replace(provider_batching=True), plain):
        ask(cached(provider, tmp_path, of))
    assert provider.calls == 2


@pytest.mark.parametrize("messages", [(), (Message("assistant", None),)])
def test_an_answer_that_is_null_or_was_not_waited_for_is_not_kept(
    tmp_path: Path, messages: tuple[Message, ...]
) -> None:
    provider = CountingProvider(RESPONSE.replace(output_messages=messages))
    assert [ask(cached(provider, tmp_path)).cached for _ in range(2)] == [False, False]


def test_half_a_character_is_kept_as_well(tmp_path: Path) -> None:
    """Models that are cut off end in the middle of an emoji."""
    provider = CountingProvider(RESPONSE.replace(output_messages=(Message("assistant", "so \ud83d"),)))
    assert [ask(cached(provider, tmp_path)).cached for _ in range(2)] == [False, True]


def test_an_answer_is_read_only_for_the_run_that_kept_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    keep_answer(path, RESPONSE, Masker(), "run 1")
    assert [read_answer(path, run) for run in (None, "run 1", "run 2")] == [RESPONSE, RESPONSE, None]


def test_an_answer_that_cannot_be_written_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    keep_answer(tmp_path / "file" / "a.json", RESPONSE, Masker())
    assert "the answer cannot be kept for later runs: " in caplog.text


def test_an_answer_that_cannot_be_written_leaves_no_folder_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(files, "_write_new", fail)
    told: list[str] = []
    provider = CachedProvider(
        CountingProvider(), "fingerprint", tmp_path, Masker(), tell=lambda each: told.append(str(each))
    )
    assert [ask(provider).cached for _ in range(2)] == [False, False]
    assert [text.partition(": cannot be written: ")[2] for text in told] == ["No space left on device"] * 2
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_answers_stays(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    (tmp_path / "b.json").touch()
    assert keep_answer(tmp_path / "a.json", RESPONSE, Masker()) is not None
    assert len(list(tmp_path.iterdir())) == 2


def test_settings_that_do_not_affect_an_answer_do_not_have_it_paid_for_again(tmp_path: Path) -> None:
    provider = CountingProvider()
    for patience in ({}, {"max_retries": 7}, {"retry_max_delay_ms": 9, "retry_status_codes": [429]}):
        ask(cached(provider, tmp_path, target(OpenAi(model="gpt", **patience))))
    assert provider.calls == 1

    ask(cached(provider, tmp_path, target(OpenAi(model="gpt", max_retries=7, temperature=0.1))))
    assert provider.calls == 2


class Talker(Provider):
    """A kind of a user, to which our words mean something else."""

    kind = "talker"
    verbose: bool = False
    timeout_seconds: float | None = None

    def open(self, environment: object) -> object:
        return CountingProvider()


def test_what_a_key_of_a_users_kind_means_is_not_known(tmp_path: Path) -> None:
    provider = CountingProvider()
    for settings in (Talker(), Talker(timeout_seconds=9), Talker(verbose=True)):
        ask(cached(provider, tmp_path, target(settings, "talker")))

    assert provider.calls == 2


def test_an_answer_that_holds_a_secret_is_not_kept(tmp_path: Path) -> None:
    leaky = RESPONSE.replace(output_messages=(Message("assistant", "the key is sk-secret-1"),))
    provider = CountingProvider(leaky)
    answers = [ask(cached(provider, tmp_path)) for _ in range(2)]
    assert [(answer.output_messages, answer.cached) for answer in answers] == [(leaky.output_messages, False)] * 2
    assert (provider.calls, list(tmp_path.rglob("*.json"))) == (2, [])


def test_what_is_kept_for_debugging_is_masked_and_nothing_else_changes(tmp_path: Path) -> None:
    provider = CountingProvider(RESPONSE.replace(raw={"stderr": "used sk-secret-1"}))
    first, second = ask(cached(provider, tmp_path)), ask(cached(provider, tmp_path))
    assert second == first.replace(cached=True, raw={"stderr": "used ***"})
    (entry,) = tmp_path.rglob("*.json")
    assert "sk-secret-1" not in entry.read_text()


def test_an_answer_that_json_would_change_is_not_kept(tmp_path: Path) -> None:
    provider = CountingProvider(RESPONSE.replace(output_messages=(Message("assistant", {1: "a key of another type"}),)))
    assert [ask(cached(provider, tmp_path)).cached for _ in range(2)] == [False, False]
    assert (provider.calls, list(tmp_path.rglob("*.json"))) == (2, [])


@pytest.mark.scenario("Provider returns a trace")
def test_the_trace_of_a_file_is_kept_because_the_next_call_may_write_the_file_anew(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"type": "tool_call", "name": "first"}')
    provider = CountingProvider(RESPONSE.replace(trace_ref=str(file)))
    ask(cached(provider, tmp_path / "cache"))
    file.write_text('{"type": "tool_call", "name": "of another case"}')
    kept = ask(cached(provider, tmp_path / "cache"))
    assert (kept.trace, kept.trace_ref, provider.calls) == ((TraceEvent("tool_call", name="first"),), None, 1)


def test_an_answer_whose_trace_file_cannot_be_read_is_not_kept(tmp_path: Path) -> None:
    provider = CountingProvider(RESPONSE.replace(trace_ref=str(tmp_path / "missing.jsonl")))
    for _ in range(2):
        ask(cached(provider, tmp_path / "cache"))
    assert provider.calls == 2


def test_an_entry_that_names_a_trace_file_is_asked_for_again(tmp_path: Path) -> None:
    provider = CountingProvider()
    ask(cached(provider, tmp_path))
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "trace_ref": "trace.jsonl"}))
    ask(cached(provider, tmp_path))
    assert provider.calls == 2


@pytest.mark.parametrize(
    "request_",
    [
        REQUEST.replace(prompt=Prompt("another")),
        REQUEST.replace(prompt=Prompt("question", "guidelines")),
        REQUEST.replace(prompt=Prompt("question", chat_prompt=(ChatMessage("user", "x"),))),
        REQUEST.replace(system_prompt="be kind"),
        REQUEST.replace(eval_id="b"),
    ],
)
def test_what_shapes_the_answer_is_asked_anew(tmp_path: Path, request_: ProviderRequest) -> None:
    provider = CountingProvider()
    ask(cached(provider, tmp_path))
    assert not ask(cached(provider, tmp_path), request_).cached


@pytest.mark.parametrize(
    "other",
    [
        target(OpenAi(model="gpt-2", temperature=0.5)),
        target(OpenAi(model="gpt", temperature=0.7)),
        target(OpenAi(model="gpt", temperature=0.5, base_url="http://localhost")),
        target(Cli(command_template="echo", cwd="/")),
        target(kind="azure"),
        target(OpenAi(model="gpt", api_key=Secret("sk-other-22"), temperature=0.5)),
    ],
)
def test_another_target_is_asked_anew(tmp_path: Path, other: Target) -> None:
    provider = CountingProvider()
    ask(cached(provider, tmp_path))
    assert not ask(cached(provider, tmp_path, other)).cached


def test_a_changed_file_is_asked_anew(tmp_path: Path) -> None:
    file, provider = tmp_path / "notes.txt", CountingProvider()
    request = REQUEST.replace(input_paths=(str(file),))
    for text, is_hit in (("one", False), ("one", True), ("two", False)):
        file.write_text(text)
        assert ask(cached(provider, tmp_path / "cache"), request).cached is is_hit


def test_failures_are_not_kept(tmp_path: Path) -> None:
    failing = CountingProvider(ProviderError("down", "network"))
    for _ in range(2):
        with pytest.raises(ProviderError, match="down"):
            ask(cached(failing, tmp_path))
    complaining = CountingProvider(RESPONSE.replace(error="something went wrong"))
    for _ in range(2):
        ask(cached(complaining, tmp_path))
    assert (failing.calls, complaining.calls, list(tmp_path.rglob("*.json"))) == (2, 2, [])


@pytest.mark.parametrize("content", ['{"output_messages": [', "{}", '{"foo": 1}', "[]", '{"raw": 1}', ""])
def test_an_entry_that_holds_no_answer_is_asked_for_again(tmp_path: Path, content: str) -> None:
    provider = CountingProvider()
    ask(cached(provider, tmp_path))
    (entry,) = tmp_path.rglob("*.json")
    entry.write_text(content)
    assert not ask(cached(provider, tmp_path)).cached
    assert ask(cached(provider, tmp_path)).cached


class BatchingProvider(CountingProvider):
    """Answers with the ids of the cases, several of them in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        self.batches.append([request.eval_id for request in requests])
        return [ProviderResponse((Message("assistant", request.eval_id),)) for request in requests]


def test_a_batch_has_only_the_requests_that_are_not_in_the_cache(tmp_path: Path) -> None:
    provider = BatchingProvider()
    kept = cached(provider, tmp_path)
    requests = [REQUEST.replace(eval_id=name) for name in "abc"]
    for some in (requests[1:2], requests, requests):
        answers = asyncio.run(kept.invoke_batch(some))
        assert [answer.output_messages[0].content for answer in answers] == [request.eval_id for request in some]
    assert provider.batches == [["b"], ["a", "c"]]
    assert [answer.cached for answer in answers] == [True] * 3
    assert ask(kept, requests[0]).cached
    assert not isinstance(cached(CountingProvider(), tmp_path), BatchProvider)


def test_a_batch_with_an_answer_too_few_keeps_none_of_them(tmp_path: Path) -> None:
    class Short(BatchingProvider):
        async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
            return (await super().invoke_batch(requests))[1:]

    kept = cached(Short(), tmp_path)
    requests = [REQUEST.replace(eval_id=name) for name in "abc"]
    answers = asyncio.run(kept.invoke_batch(requests))
    assert [answer.error for answer in answers] == ["3 requests were sent and 2 responses came back"] * 3
    assert not any(tmp_path.rglob("*.json"))
