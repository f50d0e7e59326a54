"""What a results file gives back, whole or broken."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from results_files import read_results

from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store import readers
from pytest_agentv.store.readers import RecordedResult, iter_entries, iter_recorded, iter_results, iter_texts
from pytest_agentv.store.writers import ResultSink


def file_of(tmp_path: Path, content: bytes, name: str = "run.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def read(path: Path) -> tuple[list[object], list[str]]:
    """The results, and the texts of the problems without the folder."""
    file = read_results(path)
    return list(file.results), [str(problem).replace(f"{path.parent}/", "") for problem in file.problems]


@pytest.mark.parametrize("output_format", ["jsonl", "yaml"])
def test_what_was_written_is_read_back_equal(tmp_path: Path, output_format: OutputFormat) -> None:
    results = [
        EvalResult("2026-11-20T13:11:09.075Z", f"c{n}", "d", 0.25, ("h",), (), "---\n a\n\u2028b", "t")
        for n in range(3)
    ]
    path = tmp_path / "out"
    sink = ResultSink(path, output_format, Masker())
    sink.write(*results)
    sink.close()
    file = read_results(path)
    assert [EvalResult.from_plain(plain) for plain in file.results] == results
    assert file.problems == ()


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ('"score":0,"error":"err (exit code 3)"', "error"),
        ('"score":1,"error":"err (exit code 3)"', "error"),
        ('"score":0.9', "fail"),
        ('"score":1', "pass"),
        ('"score":0.9,"threshold":0.9', "pass"),
        ('"score":0.9,"status":null', "fail"),
        ('"score":0.9,"status":"pass"', "pass"),
    ],
)
def test_a_result_of_agentv_without_a_status_is_no_pass_by_that(tmp_path: Path, keys: str, status: str) -> None:
    line = '{"timestamp":"t","eval_id":"a","dataset":"d","hits":[],"misses":[],"candidate_answer":"x","target":"t",'
    (found,) = iter_recorded(file_of(tmp_path, f"{line}{keys}}}".encode()))
    assert isinstance(found, RecordedResult)
    assert found.result.status == status


def test_a_torn_last_line_is_skipped_and_said(tmp_path: Path) -> None:
    path = file_of(tmp_path, b'{"eval_id":"a"}\n{"eval_id":"b","sco')
    assert read(path) == (
        [{"eval_id": "a"}],
        ["run.jsonl:2: the last line is incomplete, as after a crash; it was skipped"],
    )


def test_a_last_line_that_only_lacks_its_newline_counts(tmp_path: Path) -> None:
    assert read(file_of(tmp_path, b'{"eval_id":"a"}')) == ([{"eval_id": "a"}], [])


def test_unreadable_lines_are_skipped_with_their_numbers_and_reasons(tmp_path: Path) -> None:
    nested = b"[" * 200_000
    path = file_of(
        tmp_path, b'\xef\xbb\xbf{"eval_id":"a"}\r\n\n{"eval_id":}\n[1]\nnull\n{"x":"\xff"}\n' + nested + b'\n{"z":1}\n'
    )
    assert read(path) == (
        [{"eval_id": "a"}, {"z": 1}],
        [
            "run.jsonl:3: the line is invalid JSON: Expecting value, column 12; it was skipped",
            "run.jsonl:4: expected a result (a mapping), got a list; it was skipped",
            "run.jsonl:5: expected a result (a mapping), got null; it was skipped",
            "run.jsonl:6: the line is not UTF-8: byte 0xff; it was skipped",
            "run.jsonl:7: the line is nested too deeply; it was skipped",
        ],
    )


def test_a_line_with_nul_bytes_is_skipped(tmp_path: Path) -> None:
    """File systems fill what was lost with the machine with them."""
    nuls, told = b"\0" * 4096, "the line holds NUL bytes, as after a crash of the machine; it was skipped"
    path = file_of(tmp_path, b'{"eval_id":"a"}\n%b\n{"eval_id":"x%b\n{"eval_id":"b"}\n%b' % ((nuls,) * 3))
    assert read(path) == ([{"eval_id": "a"}, {"eval_id": "b"}], [f"run.jsonl:{line}: {told}" for line in (2, 3, 5)])
    path = file_of(tmp_path, b"---\neval_id: a\n---\neval_id: b\n%b\n---\neval_id: c\n" % nuls, "run.yaml")
    assert read(path) == ([{"eval_id": "a"}, {"eval_id": "c"}], [f"run.yaml:5: {told}"])


@pytest.mark.parametrize("iterate", [iter_entries, iter_texts])
def test_a_line_that_memory_cannot_hold_is_told_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iterate: Callable[[Path], Iterator[object]]
) -> None:
    def read(*_: object) -> Iterator[object]:
        raise MemoryError

    monkeypatch.setattr(readers, "_documents", read)
    with pytest.raises(FileError, match=r"run\.yaml: cannot be read: it is too large for the free memory$"):
        list(iterate(file_of(tmp_path, b"---\na: 1\n", "run.yaml")))


def test_line_separators_within_texts_do_not_end_a_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{"eval_id":"a\u2028b\x85c"}\n'.encode())
    assert read(path) == ([{"eval_id": "a\u2028b\x85c"}], [])


def test_a_broken_yaml_document_does_not_hide_the_others(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        b'---\neval_id: a\n---\neval_id: b\nscore: "torn\n---\n- 1\n---\n'
        b"x: \xff\n--- \neval_id: c\n---\neval_id: d\nsc",
        "run.yaml",
    )
    assert read(path) == (
        [{"eval_id": "a"}, {"eval_id": "c"}],
        [
            "run.yaml:6: invalid YAML: while scanning a quoted scalar that begins on line 5, "
            "found unexpected end of stream; it was skipped",
            "run.yaml:7: expected a result (a mapping), got a list; it was skipped",
            "run.yaml:9: the line is not UTF-8: byte 0xff; it was skipped",
            "run.yaml:13: the last document is incomplete, as after a crash; it was skipped",
        ],
    )


def test_yaml_of_agentv_is_read_by_the_rules_of_yaml_1_2(tmp_path: Path) -> None:
    path = file_of(tmp_path, b"---\ntimestamp: 2026-11-20T13:11:09.075Z\neval_id: on\n\n---\neval_id: 12:30\n", "r.yml")
    assert read(path) == ([{"timestamp": "2026-11-20T13:11:09.075Z", "eval_id": "on"}, {"eval_id": "12:30"}], [])


@pytest.mark.parametrize("name", ["run.jsonl", "run.yaml", "run"])
def test_an_empty_file_has_no_results(tmp_path: Path, name: str) -> None:
    assert read(file_of(tmp_path, b"", name)) == ([], [])


def test_results_of_one_run_are_picked_and_problems_kept(tmp_path: Path) -> None:
    path = file_of(tmp_path, b'{"eval_id":"a","run_id":"1"}\n{"eval_id":"a","run_id":"2"}\n{"eval_id":"b"}\n{\n')
    file = read_results(path, run_id="2")
    assert file.results == ({"eval_id": "a", "run_id": "2"},)
    assert [problem.line for problem in file.problems] == [4]
    assert [problem.level for problem in file.problems] == ["warning"]


def test_results_can_be_streamed(tmp_path: Path) -> None:
    path = file_of(tmp_path, b'{"eval_id":"a"}\n{\n{"eval_id":"b"}\n')
    entries = iter_results(path)
    assert next(entries) == {"eval_id": "a"}
    assert isinstance(next(entries), Problem)
    assert next(entries) == {"eval_id": "b"}
    assert next(entries, None) is None


def test_a_missing_file_is_an_error_with_path_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    with pytest.raises(FileError) as caught:
        read_results(path)
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize("name", ["run.jsonl", "run.yaml", "run.txt"])
@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_a_file_in_utf_16_is_an_error_that_says_so(tmp_path: Path, name: str, mark: bytes) -> None:
    """As `>` of PowerShell writes it. The lines were told to be incomplete, and some of them were left out."""
    line = '{"eval_id": "a", "score": 1}\n'.encode("utf-16-le" if mark == b"\xff\xfe" else "utf-16-be")
    path = file_of(tmp_path, mark + line, name)
    for reader in (iter_entries, iter_texts):
        with pytest.raises(FileError) as caught:
            list(reader(path))
        assert str(caught.value).endswith(
            f"{name}: is UTF-16, as `>` of Windows PowerShell writes it: save it as UTF-8, or let `-o` write the file"
        )
