"""The score from which a case passes: where it is written, and which place counts."""

import pytest
from thorough import varied

HALF = "    evaluators: [{name: words, type: heuristic, hits: [hello, nowhere]}]\n"
"""An evaluator that gives 0.5 for the answer `hello world`."""


@pytest.fixture
def half(project):
    """Return what runs one case with the score 0.5, with thresholds wherever they are wanted."""
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")

    def run(*flags, ini=None, file=None, case=None):
        project.write("pytest.ini", "[pytest]\n" + ("" if ini is None else f"agentv_threshold = {ini}\n"))
        project.write(
            "a.eval.yaml",
            ("" if file is None else f"threshold: {file}\n")
            + "evalcases:\n  - id: a\n    expected_outcome: o\n    input_messages: [{role: user, content: q}]\n"
            + ("" if case is None else f"    threshold: {case}\n")
            + HALF,
        )
        return project.run(*flags)

    return run


@pytest.mark.parametrize(
    ("flag", "case", "file", "ini", "threshold", "source"),
    [
        (0.5, 0.6, 0.7, 0.8, 0.5, "command line"),
        varied(0.9, 0.1, 0.2, 0.3, 0.9, "command line"),
        varied(None, 0.5, 0.7, 0.8, 0.5, "case"),
        (None, 0.6, 0.1, 0.2, 0.6, "case"),
        (None, None, 0.5, 0.8, 0.5, "file"),
        varied(None, None, 0.7, 0.1, 0.7, "file"),
        varied(None, None, None, 0.5, 0.5, "ini"),
        (None, None, None, 0.8, 0.8, "ini"),
        (None, None, None, None, 1, "default"),
        (0, 0.6, 0.7, 0.8, 0, "command line"),
        (None, 0, 0.7, 0.8, 0, "case"),
    ],
)
def test_the_threshold_comes_from_command_line_then_case_then_file_then_ini_file(
    half, flag, case, file, ini, threshold, source
):
    run = half(*([] if flag is None else [f"--agentv-threshold={flag}"]), case=case, file=file, ini=ini)
    (result,) = run.results
    assert (result["score"], result["threshold"], result["threshold_source"]) == (0.5, threshold, source)
    passes = threshold <= 0.5
    assert result["status"] == ("pass" if passes else "fail")
    assert run.outcomes == ({"passed": 1} if passes else {"failed": 1})
    assert run.exit_code == (0 if passes else 1)


@pytest.mark.parametrize(
    ("flags", "places", "words"),
    [
        (["--agentv-threshold=0.9"], {}, "0.900 (from --agentv-threshold)"),
        ([], {"case": 0.8}, "0.800 (written in the case)"),
        ([], {"file": 0.75}, "0.750 (written in the eval file)"),
        ([], {"ini": 0.7}, "0.700 (agentv_threshold of the ini file)"),
        ([], {}, "1.000 (the default)"),
    ],
)
def test_the_text_of_a_failure_says_score_and_threshold_and_where_the_threshold_is_written(half, flags, places, words):
    run = half(*flags, **places)
    assert f"Score 0.500 is below the threshold {words}" in run.lines


def test_thresholds_may_stand_in_the_execution_maps_of_case_and_file(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    project.write(
        "a.eval.yaml",
        "execution: {threshold: 0.4}\nevalcases:\n"
        "  - id: own\n    expected_outcome: o\n    input_messages: [{role: user, content: q}]\n"
        f"    execution: {{threshold: 0.6}}\n{HALF}"
        f"  - id: of-file\n    expected_outcome: o\n    input_messages: [{{role: user, content: q}}]\n{HALF}",
    )
    run = project.run()
    assert {eval_id: result["threshold"] for eval_id, result in run.by_id.items()} == {"own": 0.6, "of-file": 0.4}
    assert run.statuses == {"own": "fail", "of-file": "pass"}


def test_a_mean_that_rounding_left_a_hair_below_the_threshold_has_reached_it(project):
    # (0.7 + 0.7 + 0.7) / 3 is 0.6999999999999998.
    project.write(
        "targets.yaml",
        "targets: [{name: default, provider: mock, response: hi, judge_target: judge}, "
        "{name: judge, provider: mock, response: '{\"score\": 0.7}'}]\n",
    )
    judges = ", ".join(f"{{name: j{number}, type: llm_judge}}" for number in range(3))
    project.write(
        "a.eval.yaml",
        "threshold: 0.7\nevalcases:\n  - id: a\n    expected_outcome: o\n"
        f"    input_messages: [{{role: user, content: q}}]\n    evaluators: [{judges}]\n",
    )
    run = project.run()
    assert run.by_id["a"]["score"] < 0.7
    assert run.statuses == {"a": "pass"}


def test_a_case_with_an_error_is_an_error_whatever_the_threshold(project):
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: exit 3}]\n")
    project.write(
        "a.eval.yaml",
        f"evalcases:\n  - id: a\n    expected_outcome: o\n    input_messages: [{{role: user, content: q}}]\n{HALF}",
    )
    run = project.run("--agentv-threshold=0")
    assert run.statuses == {"a": "error"}
    assert run.outcomes == {"errors": 1}


@pytest.mark.scenario("Multiple evaluators aggregation")
def test_two_evaluators_of_which_one_gives_nothing_make_a_half_and_a_failed_case(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: a
            expected_outcome: o
            input_messages: [{role: user, content: q}]
            evaluators:
              - {name: A, type: heuristic, hits: [hello]}
              - {name: B, type: heuristic, hits: [nowhere]}
        """,
    )
    (result,) = project.run().results
    assert (result["score"], result["status"]) == (0.5, "fail")
