"""Files that are broken in any way give `compare`, `convert` and `validate` a message and an exit code."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thorough import tries

RESULTS = "".join(
    json.dumps({"eval_id": f"ä{number}", "score": 0.5, "hits": ["x"], "candidate_answer": "two\nlines"}) + "\n"
    for number in range(3)
)
DOCUMENTS = "---\neval_id: a\nscore: 1\ncandidate_answer: |\n  two\n  lines\n---\neval_id: &b b\nscore: 0.5\nx: *b\n"
SUITE = """\
$schema: agentv-eval-v2
execution: {target: default, threshold: 0.5}
evalcases:
  - id: a
    expected_outcome: "ö"
    input_messages:
      - role: user
        content: [{type: file, value: a.md}, {type: text, value: "x"}]
    rubrics: [short]
    evaluators:
      - &e {name: n, type: latency, threshold: 1}
      - {name: c, type: composite, evaluators: [*e], aggregator: {type: weighted_average, weights: {n: 1}}}
  - {id: b, criteria: o, input: q, expected_output: {x: 1}, <<: {threshold: 1}}
"""
TARGETS = """\
targets:
  - {name: default, provider: cli, command_template: "run {PROMPT} ${{ X }}", judge_target: m}
  - {name: m, provider: azure, endpoint: "${{ E }}", retry_status_codes: [500], workers: 2}
"""
CONFIG = "$schema: agentv-config-v2\nguideline_patterns: ['**/*.md', '!x']\n"
DATASET = (
    '{"id": "a", "expected_outcome": "o", "input": "q"}\n{"id": "b", "criteria": "o", "input": [{"role": "user"}]}\n'
)
FILES = {
    "r.jsonl": RESULTS,
    "r.yaml": DOCUMENTS,
    "qa.eval.yaml": SUITE,
    "targets.yaml": TARGETS,
    ".agentv.yaml": CONFIG,
    "d.eval.jsonl": DATASET,
}
VALIDATED = ("qa.eval.yaml", "targets.yaml", ".agentv.yaml", "d.eval.jsonl")
ODD_BYTES = st.binary(max_size=8) | st.sampled_from(
    [
        *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x85", b"\n", b"\r\n", b"\t"),
        *(b"---\n", b"...\n", b"%YAML 3.0\n", b"? ", b": ", b"- ", b'"', b"'", b"~", b"!foo ", b"!!int x", b"\x1b[31m"),
        *(b"{", b"[" * 3000, b"- " * 3000, b"<<: 5\n", b"1e999", b"9" * 5000, b"NaN", b"-.inf", b"\\ud800"),
        *(b"0x" + b"f" * 5000, b"0x" + b"f" * 300, b"&a [*a]", b"*x"),
    ]
)  # fmt: skip

MANY = settings(max_examples=tries(12, 250), suppress_health_check=[HealthCheck.function_scoped_fixture])
"""The files are written anew for each example."""


@st.composite
def mutated(draw, text):
    """Cut bytes out of a text, put others in, or break it off."""
    data = text.encode()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)) | st.just(start))
        data = data[:start] + draw(st.just(b"") | ODD_BYTES) + data[end:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@pytest.fixture
def check(agentv):
    """Run a command that must print something and must not raise."""

    def check(arguments, exit_codes):
        run = agentv(*arguments)
        assert run.exit_code in exit_codes
        assert run.out or run.err
        assert "Traceback" not in run.out + run.err
        assert "\x00" not in run.out + run.err
        return run.exit_code, run.out, run.err

    for name, text in FILES.items():
        Path(name).write_bytes(text.encode())
    return check


@pytest.mark.parametrize("name", ["r.jsonl", "r.yaml"])
@MANY
@given(data=st.data())
def test_mutated_results_are_compared_and_converted_or_refused(check, name, data):
    Path("broken" + name).write_bytes(data.draw(mutated(FILES[name]) | st.binary(max_size=200)))
    for pair in (("broken" + name, name), (name, "broken" + name)):
        exit_code, out, err = check(["compare", *pair], {0, 1, 2})
        assert any(line.startswith("agentv compare: ") for line in err.splitlines()[-1:]) is (exit_code == 2)
        if out:
            compared = json.loads(out)
            assert exit_code == 2 or (compared["matched"] and not compared["unmatched"]["file1"])
        else:
            assert exit_code == 2
    out_name = "out.yaml" if name.endswith(".jsonl") else "out.jsonl"
    exit_code, out, err = check(["convert", "broken" + name, "--force", "--out", out_name], {0, 1, 2})
    assert (err == "") is (exit_code == 0)
    assert out.startswith("Converted ") is (exit_code < 2)


@pytest.mark.parametrize("name", VALIDATED)
@MANY
@given(data=st.data())
def test_mutated_files_are_validated(check, name, data):
    Path(name).write_bytes(data.draw(mutated(FILES[name]) | st.binary(max_size=200)))
    exit_code, out, err = check(["validate", "--format=json", *VALIDATED], {0, 1})
    report = json.loads(out)
    assert err == ""
    assert exit_code == int(report["errors"] > 0)
    assert all(problem["message"] for problem in report["problems"])
    Path(name).write_bytes(FILES[name].encode())


@pytest.mark.parametrize(
    "text", [b"", b"\x00" * 100, b"\xff\xfe" * 50, b"\x1f\x8b\x08" + bytes(range(256)), b"[" * 100_000]
)
@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_files_that_are_none_are_refused(check, text, suffix):
    name = f"none.{suffix}"
    Path(name).write_bytes(text)
    assert check(["compare", name, "r.jsonl"], {2})
    assert check(["convert", name, "--out", "none.out.jsonl"], {2})
    assert check(["validate", name], {1})
