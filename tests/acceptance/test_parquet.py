"""Rows of Parquet files as items. pyarrow is optional."""

import pytest

from .test_tables import calls, fill

pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


def test_rows_of_parquet_may_differ_in_their_evaluators(project_in_all_modes):
    """A struct of Parquet has the fields of all rows. Those that a row lacks are null."""
    project = project_in_all_modes
    fill(project)
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
    parquet.write_table(pyarrow.Table.from_pylist(rows), project.path / "evals/data/cases.parquet")
    project.write("evals/q.eval.yaml", "evalcases: data/cases.parquet\n")
    run = project.run()
    assert run.statuses == {"a": "pass", "b": "pass", "c": "pass", "d": "error"}
    assert run.by_id["d"]["error"] == (
        "evals/data/cases.parquet: evaluators[0].hitz: unknown key [evals/data/cases.parquet, row 4]"
    )


def test_a_template_sees_the_fields_that_a_row_of_parquet_lacks_as_null(project):
    fill(project)
    rows = [{"id": "a", "of": {"name": "Ada"}}, {"id": "b", "of": {"age": 3}}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), project.path / "evals/data/q.parquet")
    check = "evaluators: [{name: words, type: contains, value: '{{ of.name }}-{{ of.age }}'}]"
    template = "{id: '{{ id }}', input: '{{ of.name }}-{{ of.age }}', " + check + "}"
    project.write("evals/q.eval.yaml", f"evalcases: {{from: data/q.parquet}}\ncase: {template}\n")
    assert project.run().statuses == {"a": "pass", "b": "pass"}
    assert calls(project) == ["-3", "Ada-"]
