"""What a results file gives back, whole or broken."""

from pathlib import Path

import pytest
from results_files import read_results

from pytest_agentv.errors import FileError
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store.readers import RecordedResult, iter_entries, iter_recorded, iter_texts
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
