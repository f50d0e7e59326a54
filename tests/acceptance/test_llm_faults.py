"""The fault matrix: what becomes of each fault of each API, for a model that is judged and for one that judges.

All cases run through the real litellm at a server on loopback; the tests read what the runs leave. litellm takes
seconds to import, so the runs follow one another in one process. The first of them imports it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import warm
from fake_llm import FakeLlm, Reply
from thorough import THOROUGH

pytestmark = pytest.mark.slow

KEYS = {kind: f"sk-{kind}-5f0c1d2e3b4a" for kind in ("azure", "anthropic", "gemini", "openai", "litellm")}
ROLES = ("target", "judge")
MODELS = {
    "azure": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "openai": "gpt-4o",
    "litellm": "openai/gpt-4o",
}
SPEAKS_OPENAI = ("openai", "litellm")
ANSWER = json.dumps({"score": 1.0, "hits": ["it says hello"], "misses": []})
OK = Reply(ANSWER)
NOWHERE = "http://127.0.0.1:9"
"""Where nobody listens."""


@dataclass(frozen=True)
class Fault:
    """What a server does, and what is to come of it."""

    replies: tuple[Reply, ...]
    asked: int
    """Requests that arrive; two retries are configured."""
    kind: str | None = None
    """None: the case passes."""
    message: str = ""
    """A format of `model`, `key` and `where`."""


SAID = "{model} replied HTTP %d: the server says no to the key {key}"
LOST = "no whole reply from {model}: "
BROKEN = "Response payload is not completed"

FAULTS = {
    "none": Fault((OK,), 1),
    "slow": Fault((Reply(ANSWER, delay_seconds=0.3),), 1),
    "429-then-ok": Fault((Reply(status=429), Reply(status=429), OK), 3),
    "429-retry-after-then-ok": Fault((Reply(status=429, headers={"Retry-After": "60"}), OK), 2),
    "429": Fault((Reply(status=429),), 3, "rate_limit", SAID % 429),
    "400": Fault((Reply(status=400),), 1, "config", SAID % 400),
    "401": Fault((Reply(status=401),), 1, "auth", f"{SAID % 401} (check the api_key of {{where}})"),
    "403": Fault(
        (Reply(status=403),), 1, "auth", f"{SAID % 403} (check what the api_key may use, and the model, of {{where}})"
    ),
    "404": Fault((Reply(status=404),), 1, "config", f"{SAID % 404} (check the model and the URL of {{where}})"),
    "500": Fault((Reply(status=500),), 3, "network", SAID % 500),
    "503": Fault((Reply(status=503),), 3, "network", SAID % 503),
    "503-then-ok": Fault((Reply(status=503), OK), 2),
    "malformed": Fault(
        (Reply(fault="malformed"),),
        1,
        "crash",
        "{model} replied with what is no JSON: Unterminated string starting at (character 15)",
    ),
    "empty": Fault((Reply(fault="empty"),), 1, "crash", "{model} replied with an empty body"),
    "cut": Fault((Reply(fault="cut"),), 3, "network", f"{LOST}Server disconnected"),
    "cut-in-the-body": Fault((Reply(fault="cut_body"),), 3, "network", f"{LOST}{BROKEN}"),
    "cut-then-ok": Fault((Reply(fault="cut"), OK), 2),
}
CELLS = [(fault, kind, role) for fault in FAULTS for kind in KEYS for role in ROLES]
OF_ALL_KINDS = ("none", "429-then-ok", "429", "401", "500", "malformed", "cut")
"""Faults whose messages or ways differ by kind; the others are those of the client that all direct kinds share."""


def is_usual(fault: str, kind: str, role: str) -> bool:
    """Tell whether every run has a cell. A judge is asked as a target is, so there are fewer for judges."""
    if role == "judge":
        return fault in (OF_ALL_KINDS if kind in SPEAKS_OPENAI else ("none", "401"))
    return fault in OF_ALL_KINDS or kind in SPEAKS_OPENAI


RUN = CELLS if THOROUGH else [cell for cell in CELLS if is_usual(*cell)]

Cells = Mapping[str, tuple[str, tuple[Reply, ...], str]]
"""Kind, replies and role by the name that case, target and script have."""

LOOK_UPS = """
import os, sys
asked = set()
def hook(event, args):
    if event == "socket.getaddrinfo" and args[0] != "127.0.0.1":
        asked.add(str(args[0]))
sys.addaudithook(hook)
def pytest_unconfigure():
    print("LOOK-UPS", sorted(asked), [name for name in os.environ if name.startswith("LITELLM")])
    print("IMPORTED", "litellm" in sys.modules)
"""


@dataclass(frozen=True)
class MatrixRun:
    """What a pytest run over a project left behind."""

    folder: Path
    exit_code: int
    output: str
    server: FakeLlm

    @cached_property
    def results(self) -> dict[str, dict[str, Any]]:
        lines = (self.folder / "out.jsonl").read_text("utf-8").splitlines()
        return {result["eval_id"]: result for result in map(json.loads, lines)}


def targets_file(server: FakeLlm, cells: Cells) -> str:
    entries = ["targets:"]
    for name, (kind, replies, role) in cells.items():
        url = server.script(name, *replies) if replies else NOWHERE
        entries += [
            f"  - name: {name}",
            f"    provider: {kind}",
            f"    endpoint: {url}/v1" if kind in SPEAKS_OPENAI else f"    endpoint: {url}",
            f"    api_key: ${{{{ KEY_{kind.upper()} }}}}",
            f"    model: {MODELS[kind]}",
            "    max_retries: 2\n    retry_initial_delay_ms: 2\n    retry_max_delay_ms: 8",
        ]
        if role == "judge":
            entries += [f"  - {{name: judged-by-{name}, provider: mock, response: hello, judge_target: {name}}}"]
    return "\n".join(entries)


def eval_file(cells: Cells) -> str:
    entries = ["evalcases:"]
    for name, (_, _, role) in cells.items():
        evaluator = (
            "{name: judge, type: llm_judge}" if role == "judge" else "{name: words, type: heuristic, hits: [hello]}"
        )
        target = f"judged-by-{name}" if role == "judge" else name
        entries += [
            f"  - id: {name}\n    expected_outcome: says hello\n    execution: {{target: {target}}}",
            f"    input_messages: [{{role: user, content: Say hello}}]\n    evaluators: [{evaluator}]",
        ]
    return "\n".join(entries)


KEPT = ("PATH", "HOME", "TMPDIR", "PYTHON", "LANG", "LC_")
"""Variables without keys and settings of models; with those of the interpreter, the process is forked."""
FLAGS = ("-rA", "-vv", "-W", "error", "--agentv-out=out.jsonl", "-p", "no:rerunfailures", "-p", "no:hypothesispytest")
ARTIFACTS = (
    *("--junitxml=junit.xml", "-o", "junit_logging=all", "--log-level=DEBUG"),
    *("--agentv-dump-prompts=prompts", "--agentv-dump-traces=traces"),
)
RUNS = """
import os, sys
import pytest

for words in sys.argv[1:]:
    folder, *flags = words.split("\\n")
    os.chdir(folder)
    print("ENDED", int(pytest.main(flags)), flush=True)
"""


def run_in_turn(server: FakeLlm, *runs: tuple[Path, tuple[str, ...]]) -> list[MatrixRun]:
    """Run pytest over projects, with flags of their own, one after another in a new process."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    keys = {f"KEY_{kind.upper()}": key for kind, key in KEYS.items()}
    done = warm.run(
        [sys.executable, "-c", RUNS, *("\n".join([str(folder), *FLAGS, *flags]) for folder, flags in runs)],
        cwd=runs[0][0],
        env=kept | keys,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    outputs = re.split(r"^ENDED (\d+)\n", done.stdout, flags=re.MULTILINE)
    assert len(outputs) == 2 * len(runs) + 1, done.stdout
    pairs = zip(runs, outputs[1::2], outputs[::2], strict=False)
    return [MatrixRun(folder, int(exit_code), output, server) for (folder, _), exit_code, output in pairs]


def write_project(folder: Path, server: FakeLlm, cells: Cells) -> Path:
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / "targets.yaml").write_text(targets_file(server, cells), "utf-8")
    (folder / "faults.eval.yaml").write_text(eval_file(cells), "utf-8")
    (folder / "conftest.py").write_text(LOOK_UPS, "utf-8")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[FakeLlm]:
    with FakeLlm() as running:
        yield running


WAITING_AGENT = """
import sys, time

def answer(_request):
    until = time.monotonic() + 30
    while "litellm" not in sys.modules and time.monotonic() < until:
        time.sleep(0.01)
    return "hello" if "litellm" in sys.modules else "nobody imports the judge's library"
"""


NOT_SEARCHED_AGAIN = """
import gc
def pytest_sessionfinish():
    gc.freeze()
"""
"""pytest collects garbage twice at the end of each run, a quarter of a second each time, with litellm in memory."""


def overlap_project(folder: Path, server: FakeLlm) -> Path:
    """Write a case whose target answers when litellm is imported, which its judge needs."""
    write_project(folder, server, {"overlap": ("litellm", (OK,), "judge")})
    (folder / "conftest.py").write_text(LOOK_UPS + NOT_SEARCHED_AGAIN, "utf-8")
    (folder / "agent.py").write_text(WAITING_AGENT, "utf-8")
    targets = (folder / "targets.yaml").read_text("utf-8")
    judged = "{name: judged-by-overlap, provider: mock, response: hello, judge_target: overlap}"
    waiting = "{name: judged-by-overlap, provider: python, callable: agent.py:answer, judge_target: overlap}"
    assert judged in targets
    (folder / "targets.yaml").write_text(targets.replace(judged, waiting), "utf-8")
    return folder


@dataclass(frozen=True)
class Runs:
    """The runs of one process, in this order."""

    overlap: MatrixRun
    cached: MatrixRun
    matrix: MatrixRun
    hanging: MatrixRun


@pytest.fixture(scope="module")
def runs(server: FakeLlm, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    cells = {f"{fault}-{kind}-{role}": (kind, FAULTS[fault].replies, role) for fault, kind, role in RUN}
    prose = "I like this answer: 10/10."
    cells |= {f"prose-{kind}-judge": (kind, (Reply(prose),), "judge") for kind in KEYS}
    cells |= {f"nowhere-{kind}-{role}": (kind, (), role) for kind in KEYS for role in ROLES}
    hang = (Reply(delay_seconds=60),)
    hanging = {f"hang-{kind}-{role}": (kind, hang, role) for kind in KEYS for role in ROLES}
    cached: Cells = {f"cached-{role}": ("litellm", (OK,), role) for role in ROLES}
    folder = tmp_path_factory.mktemp("faults")
    return Runs(
        *run_in_turn(
            server,
            (overlap_project(folder / "overlap", server), ()),
            (write_project(folder / "cached", server, cached), ("--agentv-cache",)),
            (
                write_project(folder / "matrix", server, cells),
                (*ARTIFACTS, "--agentv-workers=20", "--agentv-timeout=60"),
            ),
            (
                write_project(folder / "hanging", server, hanging),
                (*ARTIFACTS, "--agentv-workers=20", "--agentv-timeout=1.5", "--agentv-max-retries=1"),
            ),
        )
    )


@pytest.fixture(scope="module")
def matrix(runs: Runs) -> MatrixRun:
    return runs.matrix


@pytest.fixture(scope="module")
def hanging(runs: Runs) -> MatrixRun:
    """A run against servers that never answer, with a time limit of 1.5 seconds and one retry of timeouts."""
    return runs.hanging


def expected_message(fault: Fault, name: str, kind: str, folder: Path) -> re.Pattern[str]:
    line = next(
        number
        for number, text in enumerate((folder / "targets.yaml").read_text("utf-8").splitlines(), start=1)
        if text == f"  - name: {name}"
    )
    message = fault.message.format(
        model=f"model {MODELS[kind]!r} ({kind})",
        key="Bearer ***" if kind in SPEAKS_OPENAI else "***",
        where=f"target {name!r} (targets.yaml:{line})",
    )
    requests = rf" \({fault.asked} requests, \d\.\d s of waiting\)" if fault.asked > 1 else ""
    return re.compile(re.escape(message) + requests)


@pytest.mark.parametrize(("fault", "kind", "role"), RUN)
@pytest.mark.scenario("Default exponential backoff")
@pytest.mark.scenario("Non-retryable errors")
def test_a_fault_has_the_outcome_the_attempts_and_the_message_it_should(
    matrix: MatrixRun, fault: str, kind: str, role: str
) -> None:
    name, expected = f"{fault}-{kind}-{role}", FAULTS[fault]

    result = matrix.results[name]

    assert len(matrix.server.asked(name)) == expected.asked
    assert result["status"] == ("pass" if expected.kind is None else "error")
    if role == "target":
        assert (result["attempts"], result["request_attempts"]) == (1, expected.asked)
        assert ("waited_ms" in result) == ("last_error" in result) == (fault not in ("none", "slow"))
    if expected.kind is None:
        assert result["score"] == 1
        return
    message = expected_message(expected, name, kind, matrix.folder).pattern
    prefix = f"the judge '{name}' could not be asked: " if role == "judge" else ""
    assert re.fullmatch(re.escape(prefix) + message, result["error"])
    stage = "evaluator" if role == "judge" else "provider"
    assert result["error_detail"] == {"stage": stage, "kind": expected.kind}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KEYS)
def test_a_server_that_is_not_there_is_tried_again_and_named(matrix: MatrixRun, kind: str, role: str) -> None:
    name = f"nowhere-{kind}-{role}"
    result = matrix.results[name]

    expected = f"no whole reply from model {MODELS[kind]!r} ({kind}): Cannot connect to host 127.0.0.1:9 "
    prefix = f"the judge {name!r} could not be asked: " if role == "judge" else ""
    assert result["error"].startswith(prefix + expected)
    assert re.search(r" \(3 requests, \d\.\d s of waiting\)$", result["error"])
    stage = "evaluator" if role == "judge" else "provider"
    assert (result["status"], result["error_detail"]) == ("error", {"stage": stage, "kind": "network"})
    if role == "target":
        assert (result["attempts"], result["request_attempts"]) == (1, 3)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.scenario("LLM judge evaluation failure")
def test_a_judge_that_replies_with_prose_is_an_error_with_score_0_and_the_reply_is_kept(
    matrix: MatrixRun, kind: str
) -> None:
    result = matrix.results[f"prose-{kind}-judge"]

    assert (result["status"], result["score"]) == ("error", 0)
    assert result["evaluator_results"][0]["raw_output"] == "I like this answer: 10/10."


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.scenario("Timeout with retry")
@pytest.mark.scenario("Maximum retries exceeded")
def test_a_server_that_never_answers_is_a_timeout_that_is_tried_again(hanging: MatrixRun, kind: str, role: str) -> None:
    name = f"hang-{kind}-{role}"
    result = hanging.results[name]
    message = f"no answer from model {MODELS[kind]!r} ({kind}) within 1.5 s"

    assert len(hanging.server.asked(name)) == 2
    assert result["status"] == "error"
    if role == "target":
        assert (result["error"], result["attempts"], result["request_attempts"]) == (message, 2, 2)
        assert result["error_detail"] == {"stage": "provider", "kind": "timeout"}
    else:
        assert result["error"] == f"the judge {name!r} could not be asked: {message}"
        assert result["error_detail"] == {"stage": "evaluator", "kind": "timeout"}


@pytest.mark.parametrize("kind", KEYS)
def test_no_secret_is_in_any_artifact(matrix: MatrixRun, hanging: MatrixRun, kind: str) -> None:
    texts = {"output": matrix.output + hanging.output}
    for folder in (matrix.folder, hanging.folder):
        texts |= {str(path): path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file()}

    assert len(texts) > len(RUN)
    assert [name for name, text in texts.items() if KEYS[kind] in text] == []


@pytest.mark.parametrize("kind", KEYS)
def test_an_answer_brings_its_tokens_cost_and_duration_into_the_record(matrix: MatrixRun, kind: str) -> None:
    result = matrix.results[f"429-then-ok-{kind}-target"]
    metrics = result["execution_metrics"]

    assert metrics["token_usage"] == {"input": 30, "output": 5}
    assert 0 < metrics["cost_usd"] < 0.01
    assert metrics["duration_ms"] + result["waited_ms"] <= result["duration_ms"]
    assert result["trace_summary"]["cost_usd"] == metrics["cost_usd"]


def test_the_runs_end_with_failures_look_nothing_up_and_leave_no_variable(
    runs: Runs, matrix: MatrixRun, hanging: MatrixRun
) -> None:
    assert (matrix.exit_code, hanging.exit_code) == (1, 1)
    for run in (runs.overlap, runs.cached, matrix, hanging):
        assert (run.output.count("LOOK-UPS [] []"), run.output.count("IMPORTED True")) == (1, 1)
    assert "Give Feedback" not in matrix.output


def test_the_import_of_litellm_for_a_judge_overlaps_with_the_first_call_of_its_target(runs: Runs) -> None:
    assert runs.overlap.exit_code == 0, runs.overlap.output
    assert runs.overlap.results["overlap"]["candidate_answer"] == "hello"


def test_runs_that_ask_no_model_do_not_import_litellm(server: FakeLlm, runs: Runs, tmp_path: Path) -> None:
    """A collection, a dry run, a run of another target, and one that is answered from the cache."""
    folder = write_project(tmp_path / "project", server, {"c1": ("azure", (OK,), "target")})
    with (folder / "targets.yaml").open("a", encoding="utf-8") as file:
        file.write("\n  - {name: plain, provider: mock, response: hello}\n")

    without = run_in_turn(
        server,
        *((folder, (flag,)) for flag in ("--collect-only", "--agentv-dry-run", "--agentv-target=plain")),
        (runs.cached.folder, ("--agentv-cache",)),
    )

    for run in without:
        assert run.exit_code == 0, run.output
        assert run.output.count("IMPORTED False") == 1
    assert runs.cached.exit_code == 0
    assert [len(server.asked(name)) for name in ("c1", "cached-target", "cached-judge")] == [0, 1, 1]
