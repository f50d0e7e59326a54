"""Results that cannot be written: said once and clearly, with the outcomes and what was written before unharmed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm
import yaml
from scripted_agent import numbered, read_calls, write_agent, write_cases
from thorough import varied

from .conftest import WITH_WORKERS_ON_REQUEST, agentv

WORDS = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]


@pytest.fixture
def project(project):
    write_agent(project)
    return project


def lost(run):
    return [line for line in run.lines if line.startswith("Results were lost: ")]


def results(path):
    """Return the results of a file, of which each line has to be whole."""
    text = path.read_text()
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.scenario("Mutex error handling")
@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
@pytest.mark.parametrize("mode", [("--agentv-workers=3",), ("-n2",)], ids=["workers", "n2"])
def test_a_disk_that_fills_up_loses_no_line_that_was_written_and_no_outcome(project, mode):
    project.write(
        "conftest.py",
        """
        import resource

        def pytest_collection_finish():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))

        def pytest_unconfigure():
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        """,
    )
    prompts = numbered(40, "say " + "hello " * 1000)
    write_cases(project, {"bad": "say nothing", **prompts})
    run = project.run(*mode, "-p", "no:cacheprovider", subprocess=True)
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert lost(run) == ["Results were lost: out-1.jsonl: cannot be written: File too large"]
    written = results(project.path / "out-1.jsonl")
    assert 1 <= len(written) < 13
    assert {len(result["candidate_answer"]) for result in written} <= {5999, 7}
    assert "error" not in run.outcomes, "what was judged keeps its outcome"
    assert run.outcomes["failed"] == 1
    started = len(read_calls(project.path).started)
    assert len(written) < started < 30, "after the first failed write nothing new is begun"
    assert run.internals == []


@pytest.mark.scenario("Mutex error handling")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@WITH_WORKERS_ON_REQUEST
def test_a_full_disk_is_found_before_anything_is_called(project, mode):
    (project.path / "full.jsonl").symlink_to("/dev/full")
    refused(project, "full.jsonl", "full.jsonl: cannot be written: No space left on device", *mode)


NO_FILE = "is a device or a pipe: expected a file, because what a run says at its end is read from it"


@pytest.mark.skipif(sys.platform == "win32", reason="needs such a device")
@WITH_WORKERS_ON_REQUEST
def test_a_device_keeps_no_results_so_a_run_without_a_verdict_is_not_green(project, mode):
    (project.path / "null.jsonl").symlink_to("/dev/null")
    refused(project, "null.jsonl", f"null.jsonl: {NO_FILE}", "--agentv-gate=run", "--agentv-fail-under=1", *mode)


@pytest.mark.skipif(sys.platform == "win32", reason="needs such a device")
@WITH_WORKERS_ON_REQUEST
def test_a_python_test_that_hides_an_error_is_not_green_on_a_device(project, mode):
    (project.path / "null.jsonl").symlink_to("/dev/null")
    body = "    try:\n        agentv.run('say hello', evaluators=[{'name': 'x', 'type': 'nosuch'}])\n"
    project.write("test_one.py", f"def test_one(agentv):\n{body}    except Exception:\n        pass\n")
    run = project.run("--agentv-out=null.jsonl", *mode)
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert lost(run) == [f"Results were lost: null.jsonl: {NO_FILE}"]
    assert read_calls(project.path).started == []


def test_results_that_memory_cannot_hold_at_the_end_are_said_to_be_lost(project, monkeypatch):
    def fill(*_):
        raise MemoryError

    monkeypatch.setattr("pytest_agentv.store.readers._read_jsonl", fill)
    write_cases(project, numbered(1))
    run = project.run("--agentv-out=r.jsonl")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert lost(run) == ["Results were lost: 1 case ran, 0 lines in r.jsonl"]
    assert "r.jsonl: cannot be read: it is too large for the free memory" in run.lines
    assert run.internals == []


def test_a_checkout_that_cannot_be_written_says_how_to_name_another_file(project, pytester):
    write_cases(project, numbered(1))
    project.write(".agentv", "a file where the folder should be")
    finished = pytester.runpytest_inprocess("-p", "no:hypothesispytest")
    assert finished.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in finished.errlines + finished.outlines if "no results can be recorded" in line]
    assert line.endswith("(--agentv-out names a file)")
    assert read_calls(project.path).started == []


def refused(project, out, reason, *mode):
    """Check that a run ends as wrong usage, in one line, before its first call."""
    write_cases(project, numbered(4))
    run = project.run(f"--agentv-out={out}", *mode)
    assert (run.exit_code, run.outcomes.get("passed")) == (pytest.ExitCode.USAGE_ERROR, None)
    (line,) = [line for line in run.lines if "no results can be recorded" in line]
    assert line == f"ERROR: no results can be recorded: {reason}"
    assert (read_calls(project.path).started, run.internals) == ([], [])


def test_a_path_that_is_a_folder_is_one_clear_error(project):
    (project.path / "folder").mkdir()
    refused(project, "folder", "folder: cannot be written: Is a directory")


def test_no_results_are_appended_to_a_file_in_utf_16(project):
    """No reader would find them."""
    before = '{"eval_id": "a", "score": 1}\r\n'.encode("utf-16")
    (project.path / "old.jsonl").write_bytes(before)
    what = "is UTF-16, as `>` of Windows PowerShell writes it"
    refused(project, "old.jsonl", f"old.jsonl: {what}: save it as UTF-8, or let `-o` write the file")
    assert (project.path / "old.jsonl").read_bytes() == before


BASELINE = '{"agentv_baseline": 1}\n'


@pytest.mark.parametrize("flag", ["--agentv-out", "--agentv-html"])
@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("own.jsonl", BASELINE, "is a baseline"),
        ("new.eval.jsonl", None, "has the name of an eval file"),
        ("rows.eval.jsonl", '{"id": "a", "input": "say hello"}\n', "is an eval file of this run"),
    ],
)
def test_a_run_does_not_write_into_its_inputs(project, flag, name, text, what):
    if text is not None:
        project.write(name, text)
    write_cases(project, numbered(2))
    run = project.run(f"{flag}={name}")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {flag}: {name} {what}, which this would spoil" in run.lines
    assert read_calls(project.path).started == []
    assert text == ((project.path / name).read_text() if (project.path / name).exists() else None)


@WITH_WORKERS_ON_REQUEST
def test_an_evaluation_in_python_spoils_no_baseline(project, mode):
    baseline = project.write("own.jsonl", BASELINE)
    project.write("test_one.py", f"def test_one(agentv):\n    agentv.run('say hello', evaluators={WORDS})\n")
    run = project.run("--agentv-out=own.jsonl", *mode)
    assert "own.jsonl: is a baseline, which this would spoil" in run.text
    assert (baseline.read_text(), read_calls(project.path).started) == (BASELINE, [])
    assert run.exit_code != 0


OVERWRITING = {"report": ("--format=html",), "merge": ("--overwrite",), "convert": ("--force",)}


def test_a_command_does_not_overwrite_what_a_run_reads(project, capsys):
    write_cases(project, numbered(1))
    project.run("--agentv-out=run.jsonl")
    for name, what in (("b.jsonl", "is a baseline"), ("b.eval.jsonl", "has the name of an eval file")):
        out = project.write(name, BASELINE)
        for command, flags in OVERWRITING.items():
            capsys.readouterr()
            assert agentv([command, "run.jsonl", "-o", name, *flags]) == 2
            assert f"{name} {what}, which this would spoil" in capsys.readouterr().err
            assert out.read_text() == BASELINE


def test_a_name_that_is_too_long_is_one_clear_error(project):
    name = f"{'x' * 300}.jsonl"
    refused(project, name, f"{name}: cannot be written: File name too long")


def test_a_folder_that_nobody_may_write_to_is_one_clear_error(project):
    folder = Path("/sys/kernel") if os.geteuid() == 0 else project.path / "readonly"
    if not folder.is_dir():
        folder.mkdir(mode=0o555)
    path = folder / "own.jsonl"
    shown = path.relative_to(project.path) if path.is_relative_to(project.path) else path
    refused(project, path, f"{shown}: cannot be written: Permission denied")


@WITH_WORKERS_ON_REQUEST
def test_an_evaluation_in_python_is_not_begun_either(project, mode):
    (project.path / "folder").mkdir()
    tests = (f"def test_{name}(agentv):\n    agentv.run('say hello', evaluators=WORDS)\n" for name in "abcdef")
    project.write("test_one.py", f"WORDS = {WORDS}\n{''.join(tests)}")
    run = project.run("--agentv-out=folder", *mode)
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert lost(run) == ["Results were lost: folder: cannot be written: Is a directory"]
    assert "results cannot be recorded: folder: cannot be written: Is a directory" in run.text
    assert run.outcomes["errors"] <= 2
    assert "passed" not in run.outcomes
    assert (read_calls(project.path).started, run.internals) == ([], [])


def test_looking_whether_a_file_can_be_written_leaves_it_as_it_is(project):
    write_cases(project, {"one": "say hello"})
    path = project.write("own.jsonl", '{"eval_id": "before"}\n')
    before = path.read_bytes()
    project.run("--agentv-out=own.jsonl", "--collect-only")
    assert path.read_bytes() == before
    project.run("--agentv-out=own.jsonl")
    lines = path.read_bytes().splitlines()
    assert (lines[0] + b"\n", len(lines)) == (before, 2)


@WITH_WORKERS_ON_REQUEST
def test_a_folder_that_is_deleted_during_the_run_is_made_again_with_what_was_in_it(project, mode):
    prompts = {**numbered(4), "deletes": "lines 4 deep/own.jsonl; delete deep; say hello", **numbered(4, word="later")}
    write_cases(project, prompts)
    run = project.run("--agentv-out=deep/own.jsonl", *mode)
    assert run.outcomes == {"passed": 9}
    assert sorted(result["eval_id"] for result in results(project.path / "deep/own.jsonl")) == sorted(prompts)
    assert "Total eval cases: 9 (9 passed, 0 failed, 0 errors)" in run.text
    assert lost(run) == []


def yaml_results(path):
    quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return list(yaml.load_all(path.read_text(), quick))


@pytest.mark.scenario("Mutex-protected JSONL writes")
@pytest.mark.parametrize(
    ("suffix", "read", "words"), [("jsonl", results, 3000), varied("yaml", yaml_results, 800)], ids=["jsonl", "yaml"]
)
def test_two_runs_that_write_to_one_file_at_once_mix_no_lines_and_each_sums_up_its_own(project, suffix, read, words):
    answer = "say " + "hello " * words  # more than the system writes at once
    write_cases(project, numbered(25, answer, "one"), "one.eval.yaml")
    write_cases(project, numbered(25, answer, "two"), "two.eval.yaml")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--agentv-out=own.{suffix}"]
    command.append(f"--agentv-output-format={suffix}")
    runs = [
        warm.Popen(
            [*command, "--agentv-workers=5", f"{word}.eval.yaml"], cwd=project.path, stdout=subprocess.PIPE, text=True
        )
        for word in ("one", "two")
    ]
    texts = [run.communicate(timeout=60)[0] for run in runs]
    assert all("Total eval cases: 25 (25 passed, 0 failed, 0 errors)" in text for text in texts)
    written = read(project.path / f"own.{suffix}")
    assert len(written) == 50
    assert len({(result["run_id"], result["eval_id"][:3]) for result in written}) == 2


REMOTE = """
import json

import pytest

@pytest.hookimpl(trylast=True)
def pytest_configure_node(node):
    # As on another machine: the folder there is not that of the controller.
    identity = json.loads(node.workerinput["agentv"])
    identity["home"] = "another machine"
    identity["results_path"] = "{folder}/{name}"
    node.workerinput["agentv"] = json.dumps(identity)
"""


@pytest.mark.parametrize("output_format", ["jsonl", varied("yaml")])
def test_records_of_workers_on_another_machine_travel_home(project, output_format, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    out = f"own.{output_format}"
    project.write("conftest.py", REMOTE.format(folder=elsewhere, name=out))
    write_cases(project, {**numbered(5), "bad": "say nothing", "broken": "fail no tokens"})
    project.write(
        "test_one.py",
        "def test_two(agentv):\n"
        "    for word in ('x', 'y'):\n"
        f"        agentv.evaluate('hello', id=word, evaluators={WORDS})\n",
    )
    run = project.run("-n2", f"--agentv-out={out}", f"--agentv-output-format={output_format}")
    assert run.outcomes == {"passed": 6, "failed": 1, "errors": 1}
    read = results if output_format == "jsonl" else yaml_results
    ids = [*numbered(5), "bad", "broken", "x", "y"]
    assert sorted(result["eval_id"] for result in read(project.path / out)) == sorted(ids)
    assert "Total eval cases: 9 (7 passed, 1 failed, 1 error)" in run.lines
    assert list(elsewhere.iterdir()) == []
    assert (lost(run), run.internals) == ([], [])


def test_lines_of_cases_whose_items_were_not_reported_travel_home_as_well(project, tmp_path_factory):
    project.write("conftest.py", REMOTE.format(folder=tmp_path_factory.mktemp("elsewhere"), name="own.jsonl"))
    prompts = {"first": "in_flight 2; end_of case-0; say nothing", **numbered(4)}
    write_cases(project, prompts)
    run = project.run("-n1", "--agentv-workers=2", "-x", "--agentv-out=own.jsonl")
    assert run.outcomes["failed"] == 1
    assert {"first", "case-0"} <= {result["eval_id"] for result in results(project.path / "own.jsonl")}


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_run_whose_lines_are_not_there_is_red(project, mode):
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            if not hasattr(session.config, "workerinput"):
                (session.config.rootpath / "own.jsonl").unlink(missing_ok=True)
        """,
    )
    write_cases(project, numbered(3))
    run = project.run("--agentv-out=own.jsonl", *mode)
    assert (run.exit_code, run.outcomes) == (pytest.ExitCode.TESTS_FAILED, {"passed": 3})
    assert lost(run) == ["Results were lost: 3 cases ran, 0 lines in own.jsonl"]


def test_the_cases_whose_lines_are_not_there_are_named(project):
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            path = session.config.rootpath / "own.jsonl"
            path.write_text(path.read_text().splitlines(keepends=True)[2])
        """,
    )
    write_cases(project, numbered(6))
    names = ", ".join(f"a.eval.yaml::case-{number}" for number in (0, 1, 3))
    found = f"Results were lost: 6 cases ran, 1 line in own.jsonl; none of {names} and 2 more"
    assert lost(project.run("--agentv-out=own.jsonl")) == [found]
