"""Rows of a Parquet file, which only runs with pyarrow read."""

import pytest


def test_rows_of_parquet_may_differ_in_their_evaluators(project):
    """A struct of Parquet has the fields of all rows. Those that a row lacks are null."""
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rows = [
        {
            "id": "a",
            "input": "120",
            "vars": {"x": None, "y": "1"},
            "evaluators": [{"type": "contains", "value": "120"}],
        },
        {"id": "b", "input": "{{ x }}", "vars": {"x": "tent"}, "evaluators": [{"type": "heuristic", "hits": ["tent"]}]},
        {
            "id": "c",
            "input": "{{ 'missing' if y is none }}",
            "vars": {"x": ""},
            "evaluators": [{"type": "contains", "value": "missing"}],
        },
        {"id": "d", "input": "no", "evaluators": [{"type": "contains", "value": "no", "hitz": [{"deep": None}]}]},
    ]
    project.write("evals/targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n")
    project.write("evals/agent.py", "def answer(prompt): return f'You said: {prompt}'\n")
    (project.path / "evals/data").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), project.path / "evals/data/cases.parquet")
    project.write("evals/q.eval.yaml", "evalcases: data/cases.parquet\n")
    run = project.run()
    assert run.statuses == {"a": "pass", "b": "pass", "c": "pass", "d": "error"}
    assert run.by_id["d"]["error"] == (
        "evals/data/cases.parquet: evaluators[0].hitz: unknown key [evals/data/cases.parquet, row 4]"
    )
