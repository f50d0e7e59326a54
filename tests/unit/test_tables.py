"""Tables of data: what is read from each format, and what is said of rows and files that do not fit."""

import gc
import json
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest

from pytest_agentv.cases.entries import is_function, no_functions, sample
from pytest_agentv.cases.tables import read_tables
from pytest_agentv.errors import AgentvError, SourceError
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import Source
from pytest_agentv.providers.user_modules import call_row_maker


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(*names, call=no_functions):
    """Return the rows of tables, and the problems."""
    problems = []
    eval_file = Path.cwd() / "q.eval.yaml"
    place = Place(Source(eval_file, {}, "", {}), ("evalcases",), problems)
    return read_tables([(name, place) for name in names], eval_file, call), [str(problem) for problem in problems]


def write(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(data)


def read(name, content):
    """Return what a table holds: line and values of each row, or its fault."""
    write(name, content)
    return [(row.number, row.fault or row.values) for row in rows_of(name)[0]]


def error_of(name, content):
    write(name, content)
    with pytest.raises(SourceError) as caught:
        rows_of(name)
    return str(caught.value)


TWO_CELLS = "has 2 cells: expected 1, as many as the header has (a text with a delimiter needs quotes)"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n3,4\n", [(2, {"a": "1", "b": "2"}), (3, {"a": "3", "b": "4"})]),
        ("\ufeffa;b\r\n1;2,5\r\n", [(2, {"a": "1", "b": "2,5"})]),
        ("a\tb\n1\t2\n", [(2, {"a": "1", "b": "2"})]),
        ("a|b\n1|2\n", [(2, {"a": "1", "b": "2"})]),
        ("sep=;\na;b\n1;2\n", [(3, {"a": "1", "b": "2"})]),
        ('a,b\n"x, y","say ""hi"""\n', [(2, {"a": "x, y", "b": 'say "hi"'})]),
        ('a,b\n"one\ntwo\r\nthree",2\n3,4\n', [(2, {"a": "one\ntwo\r\nthree", "b": "2"}), (5, {"a": "3", "b": "4"})]),
        ("a,b\n\n1,2\n\n\n3,4", [(3, {"a": "1", "b": "2"}), (6, {"a": "3", "b": "4"})]),
        ("a,b\n1,\n,\n , \n", [(2, {"a": "1", "b": ""})]),
        (" a , b\n1,2\n", [(2, {"a": "1", "b": "2"})]),
        ('"a;x",b\n1,2\n', [(2, {"a;x": "1", "b": "2"})]),
        ("a,b,,\n1,2,,\n1,2,x,\n", [(2, {"a": "1", "b": "2"}), (3, {"a": "1", "b": "2"})]),
        ("a,b\n1,2,,\n", [(2, {"a": "1", "b": "2"})]),
        ("a\n1\n", [(2, {"a": "1"})]),
        ('a\n"Dear Ada,"\n', [(2, {"a": "Dear Ada,"})]),
        ("a\nDear Ada,\n", [(2, TWO_CELLS)]),
        ('a\n,\n\n , \n""\n","\n', [(2, TWO_CELLS), (4, TWO_CELLS), (6, {"a": ","})]),
        ("a,b\r1,2\r", [(2, {"a": "1", "b": "2"})]),
        ("a,b\nü,日本\n", [(2, {"a": "ü", "b": "日本"})]),
        ("a,b\n", []),
        ("a,b\n1,x\0y\n", [(2, {"a": "1", "b": "x\0y"})]),
        ("a;b\r\n1;é\r\n".encode("utf-16"), [(2, {"a": "1", "b": "é"})]),
        (f"a,b\n{'x' * 300_000},1\n", [(2, {"a": "x" * 300_000, "b": "1"})]),
    ],
)
def test_csv_is_read_as_spreadsheets_write_it(text, rows):
    assert read("q.csv", text) == rows


def test_rows_of_csv_that_do_not_fit_are_faults_of_these_rows():
    assert read("q.csv", 'a,b\n1,2\n1\n1,2,3\n"x"y,2\n3,4\n"never\nclosed,4\n') == [
        (2, {"a": "1", "b": "2"}),
        (3, "has 1 cell: expected 2, as many as the header has"),
        (4, "has 3 cells: expected 2, as many as the header has (a text with a delimiter needs quotes)"),
        (5, "is no valid CSV: ',' expected after '\"'"),
        (6, {"a": "3", "b": "4"}),
        (7, 'is no valid CSV: a quote (") is opened and never closed; no row below is read'),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.csv", "", "q.csv:1: expected a first line with the names of the columns"),
        ("q.csv", "a,b,a\n1,2,3\n", "q.csv:1: the column 'a' is there twice"),
        ("q.csv", b"a,b\n1,\xe4\n", "q.csv:2: is not UTF-8: byte 0xe4 (save it as CSV UTF-8)"),
        (
            "q.csv",
            '"a,b\n1,2\n',
            'q.csv:1: is no valid CSV: a quote (") is opened and never closed; no row below is read',
        ),
        ("q.json", "{}", "q.json:1: expected a list of rows, got an empty mapping"),
        ("q.json", '[\n {"a": 1},\n {"a": }\n]', "q.json:3: invalid JSON: Expecting value"),
        ("q.json", '[\n {"a": 1}\n {"a": 2}]', "q.json:3: invalid JSON: expected `,` or the end of the list"),
        ("q.json", "[", "q.json:1: invalid JSON: Expecting value"),
        ("q.json", '[\n{"a": 1},\n{"a": NaN}]', "q.json:3: invalid JSON: NaN is no JSON"),
        ("q.json", '[\n{"a": 1, "a": 2}]', "q.json:2: invalid JSON: the key 'a' is there twice"),
        ("q.json", "[\n1" + "0" * 5000 + "]", "q.json:2: invalid JSON: Exceeds the limit (4300 digits)"),
        ("q.json", "[] x", "q.json:1: invalid JSON: expected `,` or the end of the list"),
        ("q.yaml", "a: 1\n", "q.yaml:1: expected a list of rows, got a mapping"),
        ("q.yaml", "cases: 1\n", "q.yaml:1: expected a list of rows, got the number 1"),
        ("q.yaml", "- a: [\n", "q.yaml:2: invalid YAML: "),
    ],
)
def test_a_table_that_cannot_be_read_is_one_error(name, content, message):
    assert error_of(name, content).startswith(message)


def test_json_jsonl_and_yaml_keep_types_and_know_their_lines():
    first, second = {"a": 1, "b": [True, None]}, {"a": "x", "b": {"c": 1.5}}
    assert read("q.jsonl", f"{json.dumps(first)}\n\n{json.dumps(second)}\nnonsense\n[1]\n") == [
        (1, first),
        (3, second),
        (4, "invalid JSON: Expecting value (column 1)"),
        (5, "expected a JSON object, got [1]"),
    ]
    assert read("q.json", f" [\n\n  {json.dumps(first)}, {json.dumps(second)},\n 5\n]\n") == [
        (3, first),
        (3, second),
        (4, "expected a row: a mapping of columns to values, got the number 5"),
    ]
    assert read("q.json", "[]") == []
    yaml = "- {a: 1, b: [true, null]}\n- a: x\n  b: {c: 1.5}\n- 5\n"
    assert read("q.yaml", yaml) == [
        (1, first),
        (2, second),
        (4, "expected a row: a mapping of columns to values, got the number 5"),
    ]
    assert read("q.yml", f"evalcases:\n{yaml}")[1] == (3, second)


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
    first, second = rows_of("q.parquet")[0]
    assert first.values == {"price": 1.5, "rate": None, "parts": [["a", 1.5]], "at": "2023-11-14T22:13:20.123456"}
    assert (second.values, second.where) == ({"price": 2, "rate": 2.5, "parts": None, "at": None}, "q.parquet, row 2")
    parquet.write_table(pyarrow.table({"day": pyarrow.array([10**7], pyarrow.date32())}), folder / "q.parquet")
    with pytest.raises(SourceError, match=r"^q\.parquet: cannot be read as Parquet: date value out of range$"):
        rows_of("q.parquet")


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert error_of("q.parquet", b"") == "q.parquet: needs pyarrow: pip install 'pytest-agentv[parquet]'"


def test_a_function_gives_rows_of_plain_values_or_faults(folder):
    class Topic(str, Enum):  # noqa: UP042 - the text of a StrEnum is its value already
        HOURS = "hours"

    endless = {"id": 2}
    endless["all"] = [endless]
    made = {
        "a": ({"n": 1, "words": ("a", Path("b"))}, {"n": 1, "words": ["a", "b"]}),
        "b": ("nonsense", "expected a mapping, got a value of type str"),
        "c": ({"n": {1, 2}}, "holds a value of type set: expected texts, numbers, lists and mappings"),
        "d": ({"id": Topic.HOURS, "words": [Topic.HOURS]}, {"id": "hours", "words": ["hours"]}),
        "e": (endless, "holds itself, or values that are nested too deeply"),
        "i": ({"price": float("nan"), "all": [1.5, float("nan")]}, {"price": None, "all": [1.5, None]}),
    }
    rows, problems = rows_of("cases.py:make", call=lambda *_: (given for given, _ in made.values()))
    assert [row.fault or row.values for row in rows] == [expected for _, expected in made.values()]
    assert (rows[0].where, type(rows[3].values["id"]), problems) == ("cases.py:make, row 1", str, [])
    write("cases.py", "def make():\n    row = {}\n    for row['id'] in ('a', 'b'):\n        yield row\n")
    assert [row["id"] for row in call_row_maker("cases.py:make", folder)] == ["a", "b"]
    names = ("x/y.py:f", "module:make", "C:/x.csv", "a.py", "a b:c d")
    assert [name for name in names if is_function(name)] == ["x/y.py:f", "module:make"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("rows", "cases.py:rows is async: expected a function without `async` that returns "),
        ("stream", "cases.py:stream is async: expected a function without `async` that returns "),
        ("number", "cases.py:number: 'number' of cases.py is a value of type int, expected a function that returns "),
        ("nothing", "cases.py:nothing returned a value of type NoneType: expected "),
    ],
)
def test_what_makes_no_rows_is_told_with_what_is_expected(folder, name, fault):
    write(
        "cases.py",
        "number = 3\nasync def rows(): return []\nasync def stream(): yield {}\ndef nothing(): return None\n",
    )
    with pytest.raises(AgentvError) as caught:
        call_row_maker(f"cases.py:{name}", folder)
    told = str(caught.value)
    del caught  # its traceback holds what the function returned
    gc.collect()  # a coroutine that nobody awaits causes a warning when it is collected
    assert told == f"{fault}a list of mappings, or a generator of them"


def test_files_and_globs_are_found_beside_the_eval_file(folder):
    for name in ("b.csv", "a.csv", "data/c.jsonl", "notes.txt", "q.eval.yaml"):
        write(name, '{"x": 1}' if name.endswith("jsonl") else "x\n1\n")
    rows, problems = rows_of("*.csv", "data/*", str(folder / "a.csv"))
    assert [row.where for row in rows] == ["a.csv:2", "b.csv:2", "data/c.jsonl:1", "a.csv:2"]
    assert problems == []
    rows, problems = rows_of("c.csv", "x/*.csv", "notes.txt", "*.eval.yaml", "data")
    assert rows == []
    assert problems == [
        "q.eval.yaml:1: evalcases: there is no file c.csv",
        "q.eval.yaml:1: evalcases: no table matches 'x/*.csv' in .",
        "q.eval.yaml:1: evalcases: 'notes.txt' is no table: expected a name that ends in "
        ".csv, .tsv, .json, .jsonl, .parquet, .yaml, .yml",
        "q.eval.yaml:1: evalcases: no table matches '*.eval.yaml' in .",
        "q.eval.yaml:1: evalcases: 'data' is a folder (name its files: data/*.csv)",
    ]


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


def test_keys_beside_the_rows_of_an_eval_file_give_a_warning():
    write("q.yaml", "name: shop\nx-all: &all {a: 1}\nvars: {tone: formal}\ntarget: gpt\ncases:\n- *all\n")
    rows, problems = rows_of("q.yaml")
    assert [row.values for row in rows] == [{"a": 1}]
    assert problems == [
        "q.yaml:3: vars, target: not read, because only the rows of this file are taken (write them into the file that "
        "names it)"
    ]
