"""Writes the folders that the benchmarks run in: no-op functions, and the same number of eval cases."""

import json
import sys
from pathlib import Path
from typing import Any

EVALUATOR = {"name": "h", "type": "heuristic", "hits": ["hello"]}

TARGETS = """\
targets:
  - {name: default, provider: mock, response: "hello"}
"""

JUDGE = """\
import json, sys


def judge(case):
    return {"score": float("hello" in case.candidate_answer)}


if __name__ == "__main__":
    print(json.dumps({"score": float("hello" in json.load(sys.stdin)["candidate_answer"])}))
"""

YAML_HEADER = """\
execution:
  evaluators:
    - {name: h, type: heuristic, hits: [hello]}
evalcases:
"""

YAML_CASE = """\
  - id: case-{number:05}
    expected_outcome: The answer greets customer {number}
    input_messages:
      - role: user
        content: Say hello to customer {number}
"""

TABLE = """\
evalcases: {from: customers.csv}
case:
  id: case-{{ number }}
  input: "Answer in one sentence: {{ question }}"
  expected_output: "{{ word }}"
  evaluators:
    - {name: h, type: heuristic, hits: ["{{ word }}"]}
"""

CHECKED_TABLE = """\
evalcases: {from: customers.csv}
matrix:
  target: [default, second]
case:
  id: case-{{ number }}
  input: "Answer in one sentence: {{ question }}"
  assert:
    - {contains: "{{ word }}"}
    - {icontains: HELLO}
    - {starts-with: "{{ word }}"}
    - {not-contains: goodbye}
    - {regex: "^h[a-z]+o"}
    - {length: {max_words: 10}}
"""

FUNCTIONS = """\
import pytest

@pytest.mark.parametrize("number", range({cases}))
def test_nothing(number):
    pass
"""


def write_functions(folder: Path, cases: int) -> Path:
    """One file with a no-op function that is parametrized."""
    _create(folder)
    (folder / "test_functions.py").write_text(FUNCTIONS.format(cases=cases))
    return folder


def write_yaml(folder: Path, cases: int, files: int = 1) -> Path:
    """Eval cases spread evenly over YAML files, and a mock target that answers them."""
    _create(folder)
    (folder / "targets.yaml").write_text(TARGETS)
    for file in range(files):
        numbers = range(file * cases // files, (file + 1) * cases // files)
        text = YAML_HEADER + "".join(YAML_CASE.format(number=number) for number in numbers)
        (folder / f"suite_{file:03}.eval.yaml").write_text(text)
    return folder


def write_jsonl(folder: Path, cases: int, delay_ms: int = 0) -> Path:
    """The same cases as one JSONL file; what holds for all is in its sidecar. Answers may take their time."""
    _create(folder)
    (folder / "targets.yaml").write_text(TARGETS.replace("}", f", delay_ms: {delay_ms}}}"))
    lines = "".join(json.dumps(_json_case(number)) + "\n" for number in range(cases))
    (folder / "suite.eval.jsonl").write_text(lines)
    write_evaluator(folder, EVALUATOR)
    return folder


def write_table(folder: Path, cases: int) -> Path:
    """A CSV file with a row for each case, and the case that each row becomes."""
    _create(folder)
    (folder / "targets.yaml").write_text(TARGETS)
    (folder / "suite.eval.yaml").write_text(TABLE)
    rows = "".join(f"{number:05},Say hello to customer {number},hello\n" for number in range(cases))
    (folder / "customers.csv").write_text(f"number,question,word\n{rows}")
    return folder


def write_checked_table(folder: Path, rows: int) -> Path:
    """The same table, asked of two targets; each answer has six checks."""
    write_table(folder, rows)
    (folder / "targets.yaml").write_text(f'{TARGETS}  - {{name: second, provider: mock, response: "hello there"}}\n')
    (folder / "suite.eval.yaml").write_text(CHECKED_TABLE)
    return folder


def write_judged(folder: Path, cases: int) -> Path:
    """Cases that a Python script judges, each in a process of its own."""
    write_jsonl(folder, cases)
    (folder / "judge.py").write_text(JUDGE)
    write_evaluator(folder, {"name": "j", "type": "code_judge", "script": [sys.executable, "judge.py"]})
    return folder


def write_evaluator(folder: Path, evaluator: dict[str, Any]) -> None:
    (folder / "suite.eval.yaml").write_text(json.dumps({"execution": {"evaluators": [evaluator]}}))


def write_nothing(folder: Path) -> Path:
    _create(folder)
    return folder


def _create(folder: Path) -> None:
    """Make a folder that is a pytest project of its own."""
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")


def _json_case(number: int) -> dict[str, Any]:
    return {
        "id": f"case-{number:05}",
        "expected_outcome": f"The answer greets customer {number}",
        "input_messages": [{"role": "user", "content": f"Say hello to customer {number}"}],
    }
