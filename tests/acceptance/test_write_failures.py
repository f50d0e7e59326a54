"""Results that cannot be written: said once and clearly, with the outcomes and what was written before unharmed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm
import yaml
from scripted_agent import numbered, write_agent, write_cases


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
    prompts = numbered(12, "say " + "hello " * 1000)
    write_cases(project, {**prompts, "bad": "say nothing"})
    run = project.run(*mode, "-p", "no:cacheprovider", subprocess=True)
    assert run.outcomes == {"passed": 12, "failed": 1}
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert lost(run) == ["Results were lost: out-1.jsonl: cannot be written: File too large"]
    written = results(project.path / "out-1.jsonl")
    assert 1 <= len(written) < 13
    assert {len(result["candidate_answer"]) for result in written} <= {5999, 7}
    assert run.internals == []


@pytest.mark.scenario("Mutex error handling")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_clear_error_and_the_run_does_not_count_as_good(project):
    (project.path / "full.jsonl").symlink_to("/dev/full")
    write_cases(project, numbered(5))
    run = project.run("--agentv-out=full.jsonl", "--agentv-workers=3")
    assert (run.exit_code, run.outcomes) == (pytest.ExitCode.TESTS_FAILED, {"passed": 5})
    assert lost(run) == ["Results were lost: full.jsonl: cannot be written: No space left on device"]
    assert run.internals == []


def test_a_path_that_is_a_folder_is_one_clear_error(project):
    (project.path / "folder").mkdir()
    write_cases(project, numbered(3))
    run = project.run("--agentv-out=folder")
    assert (run.exit_code, run.outcomes) == (pytest.ExitCode.TESTS_FAILED, {"passed": 3})
    assert lost(run) == ["Results were lost: folder: cannot be written: Is a directory"]


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_folder_that_nobody_may_write_to_is_one_clear_error(project, mode):
    folder = Path("/sys/kernel") if os.geteuid() == 0 else project.path / "readonly"
    if not folder.is_dir():
        folder.mkdir(mode=0o555)
    write_cases(project, numbered(4))
    run = project.run(f"--agentv-out={folder}/own.jsonl", *mode)
    assert (run.exit_code, run.outcomes) == (pytest.ExitCode.TESTS_FAILED, {"passed": 4})
    (line,) = lost(run)
    assert line.endswith("own.jsonl: cannot be written: Permission denied")
    assert run.internals == []


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_folder_that_is_deleted_during_the_run_is_made_again_with_what_was_in_it(project, mode):
    prompts = {**numbered(4), "deletes": "lines 4 deep/own.jsonl; delete deep; say hello", **numbered(4, word="later")}
    write_cases(project, prompts)
    run = project.run("--agentv-out=deep/own.jsonl", *mode)
    assert run.outcomes == {"passed": 9}
    assert sorted(result["eval_id"] for result in results(project.path / "deep/own.jsonl")) == sorted(prompts)
    assert "Total eval cases: 9 (9 passed, 0 failed, 0 errors)" in run.text
    assert lost(run) == []


def yaml_results(path):
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.scenario("Mutex-protected JSONL writes")
@pytest.mark.parametrize(("suffix", "read"), [("jsonl", results), ("yaml", yaml_results)], ids=["jsonl", "yaml"])
def test_two_runs_that_write_to_one_file_at_once_mix_no_lines_and_each_sums_up_its_own(project, suffix, read):
    answer = "say " + "hello " * 3000
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
