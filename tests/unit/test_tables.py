"""Tables of data that no folder of the corpus shows. `tests/corpus/tables-at-their-edges` shows the others."""

from decimal import Decimal
from pathlib import Path

import pytest

from pytest_agentv.cases.entries import no_functions, sample
from pytest_agentv.cases.tables import read_tables
from pytest_agentv.errors import SourceError
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import Source


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(name):
    place = Place(Source(Path.cwd() / "q.eval.yaml", {}, "", {}), ("evalcases",), [])
    return read_tables([(name, place)], Path.cwd() / "q.eval.yaml", no_functions)


def test_a_cell_may_be_longer_than_the_csv_module_takes_by_itself(folder):
    (folder / "q.csv").write_text(f"a,b\n{'x' * 300_000},1\n")
    assert [row.values for row in rows_of("q.csv")] == [{"a": "x" * 300_000, "b": "1"}]


def test_numbers_and_times_of_parquet_are_plain_values(folder):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "price": [Decimal("1.50"), Decimal("2.00")],
            "rate": [float("nan"), 2.5],
            "parts": pyarrow.array([[("a", 1.5)], None], pyarrow.map_("string", "float32")),
            "at": pyarrow.array([1_700_000_000_123_456_000, None], pyarrow.timestamp("ns")),
        }
    )
    parquet.write_table(table, folder / "q.parquet")
    first, second = rows_of("q.parquet")
    assert first.values == {"price": 1.5, "rate": None, "parts": [["a", 1.5]], "at": "2023-11-14T22:13:20.123456"}
    assert (second.values, second.where) == ({"price": 2, "rate": 2.5, "parts": None, "at": None}, "q.parquet, row 2")
    parquet.write_table(pyarrow.table({"day": pyarrow.array([10**7], pyarrow.date32())}), folder / "q.parquet")
    with pytest.raises(SourceError, match=r"^q\.parquet: cannot be read as Parquet: date value out of range$"):
        rows_of("q.parquet")


def test_a_sample_is_the_same_each_time_and_hardly_moves():
    names = [f"q-{number}" for number in range(1000)]
    chosen = sample(names, 50)
    assert len(chosen) == 50
    assert sample(names, 50) == chosen
    assert sample(names, 50, seed=1) != chosen
    chosen_names = {names[index] for index in chosen}
    moved = ["new", *reversed(names)]
    assert len(chosen_names - {moved[index] for index in sample(moved, 50)}) <= 1
    assert sample(names, 5000) == frozenset(range(1000))
    assert len(sample(["same"] * 10, 3)) == 3
