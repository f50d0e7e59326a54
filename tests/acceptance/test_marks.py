"""Marks, skips and fixtures that eval files give their cases."""

from typing import Any

from .conftest import WITH_WORKERS_ON_REQUEST

MOCK_TARGETS = "targets: [{name: default, provider: mock, response: hello world}]"
CASE = "expected_outcome: x, input: hi, evaluators: [{name: h, type: heuristic, hits: [%s]}]"
PASSES, FAILS = CASE % "hello", CASE % "nothing"


def write(project: Any, *cases: str, header: str = "") -> None:
    project.write("evals/targets.yaml", MOCK_TARGETS)
    project.write("evals/a.yaml", f"{header}\nevalcases:\n" + "".join(f"  - {{{case}}}\n" for case in cases))


@WITH_WORKERS_ON_REQUEST
def test_a_case_with_skip_is_not_run(project_in_all_modes: Any) -> None:
    write(project_in_all_modes, f"id: a, skip: not today, {PASSES}", f"id: b, {PASSES}")
    run = project_in_all_modes.run("evals", "-rs")
    assert run.outcomes == {"passed": 1, "skipped": 1}
    assert list(run.by_id) == ["b"]
    assert "SKIPPED [1] evals/a.yaml: not today" in run.text


def test_a_file_with_skip_runs_none_of_its_cases(project: Any) -> None:
    write(project, f"id: a, {PASSES}", f"id: b, {PASSES}", header="skip: the shop is closed")
    run = project.run("evals")
    assert (run.outcomes, run.results) == ({"skipped": 2}, [])


def test_xfail_expects_a_low_score(project: Any) -> None:
    write(project, f"id: a, xfail: known gap, {FAILS}", f"id: b, xfail: known gap, {PASSES}")
    assert project.run("evals").outcomes == {"xfailed": 1, "xpassed": 1}


def test_xfail_does_not_hide_an_error(project: Any) -> None:
    write(project, "id: a, xfail: known gap, expected_outcome: x, input: hi, evaluators: [{name: h, type: nope}]")
    run = project.run("evals")
    assert (run.outcomes, run.exit_code) == ({"errors": 1}, 1)


def test_marks_of_file_and_case_select(project: Any) -> None:
    project.write("pytest.ini", "[pytest]\nmarkers =\n  slow: takes long\n  shop: about the shop\n")
    write(project, f"id: a, marks: [slow], {PASSES}", f"id: b, {PASSES}", header="marks: shop")
    assert list(project.run("evals", "-m", "slow").by_id) == ["a"]
    assert list(project.run("evals", "-m", "shop and not slow").by_id) == ["b"]


def test_an_unknown_mark_is_told_at_the_line_of_its_case(project: Any) -> None:
    write(project, f"id: a, {PASSES}", f"id: b, marks: slwo, {PASSES}")
    assert "a.yaml:3: PytestUnknownMarkWarning: Unknown pytest.mark.slwo" in project.run("evals").text


def test_an_unknown_mark_is_told_once_for_all_cases_and_files(project: Any) -> None:
    project.write("evals/targets.yaml", MOCK_TARGETS)
    for name in ("evals/a.yaml", "evals/b.yaml"):
        cases = "".join(f"  - {{id: c{number}, marks: [slwo, fsat], {PASSES}}}\n" for number in range(3))
        project.write(name, f"evalcases:\n{cases}")
    run = project.run("evals")
    assert run.outcomes == {"passed": 6, "warnings": 2}
    assert run.text.count("Unknown pytest.mark.slwo") == run.text.count("Unknown pytest.mark.fsat") == 1
    assert any("evals/a.yaml:2" in line for line in run.lines)


def test_fixtures_are_set_up_and_their_failure_is_an_error(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import pathlib, pytest

        @pytest.fixture
        def database():
            pathlib.Path("up").touch()

        @pytest.fixture
        def broken():
            raise RuntimeError("no database")
        """,
    )
    write(project, f"id: a, fixtures: [database], {PASSES}", f"id: b, fixtures: broken, {PASSES}")
    run = project.run("evals")
    assert (run.outcomes, list(run.by_id)) == ({"passed": 1, "errors": 1}, ["a", "b"])
    assert run.statuses == {"a": "pass", "b": "error"}
    assert (project.path / "up").exists()
    assert "RuntimeError: no database" in run.text


@WITH_WORKERS_ON_REQUEST
def test_a_fixture_may_have_a_name_that_is_no_word_of_python(project_in_all_modes: Any) -> None:
    project = project_in_all_modes
    project.write(
        "conftest.py",
        """
        import pathlib, pytest

        @pytest.fixture(name="my-shop")
        def open_shop():
            pathlib.Path("open").touch()
            yield
            pathlib.Path("closed").touch()
        """,
    )
    missing = ("class", "1a", "tmp_path, shop", "\\e[31mred")
    cases = [f'id: m{number}, fixtures: ["{name}"], {PASSES}' for number, name in enumerate(missing)]
    write(project, f"id: a, fixtures: [my-shop, tmp_path], {PASSES}", f"id: b, {PASSES}", *cases)
    run = project.run("evals")
    assert run.statuses == {"a": "pass", "b": "pass", "m0": "error", "m1": "error", "m2": "error", "m3": "error"}
    assert [(project.path / name).exists() for name in ("open", "closed")] == [True, True]
    assert "fixture 'tmp_path, shop' not found (did you mean 'tmp_path'?)" in run.text
    assert "Case:   evals/a.yaml:6" in run.text
    assert "fixture '\\x1b[31mred' not found" in run.text
    assert "\x1b" not in run.text
    assert "Traceback" not in run.text


def test_tags_are_words_for_k(project: Any) -> None:
    write(project, f"id: a, tags: [refunds], {PASSES}", f"id: b, {PASSES}")
    assert list(project.run("evals", "-k", "refunds").by_id) == ["a"]


def test_wrong_types_are_errors_of_the_case(project: Any) -> None:
    write(project, f"id: a, skip: 0, marks: 3, {PASSES}", f"id: b, {PASSES}")
    run = project.run("evals")
    assert run.statuses == {"a": "error", "b": "pass"}
    assert run.by_id["a"]["error"] == (
        "evals/a.yaml:2: evalcases[0].marks: expected a name or a list of names, got the number 3\n"
        "evals/a.yaml:2: evalcases[0].skip: expected a reason (a text), or true, got the number 0"
    )


def test_a_case_whose_reason_to_skip_cannot_be_read_is_an_error_and_not_skipped(project: Any) -> None:
    faults = [
        ("skip: {a: 1}", "skip: expected a reason (a text), or true, got a mapping"),
        ("skip: 1", "skip: expected a reason (a text), or true, got the number 1"),
        ("skip: no", "skip: expected a reason (a text), or true, got the text 'no' (write skip: false)"),
        ('xfail: "False"', "xfail: expected a reason (a text), or true, got the text 'False' (write xfail: false)"),
        ("vars: {a: b}, skip: '{{ why }}'", "skip: unknown variable 'why' (known: a)"),
    ]
    broken = [f"id: a{number}, {written}, {PASSES}" for number, (written, _) in enumerate(faults)]
    write(project, *broken, f"id: b, skip: ' ', {PASSES}", f"id: c, skip: later, {PASSES}")
    run = project.run("evals")
    assert run.outcomes == {"errors": len(faults), "passed": 1, "skipped": 1}
    for number, (_, fault) in enumerate(faults):
        assert run.by_id[f"a{number}"]["error"] == f"evals/a.yaml:{number + 2}: evalcases[{number}].{fault}"


def test_a_cell_without_a_value_is_no_reason_however_the_program_that_wrote_it_says_so(project: Any) -> None:
    nothing = ["None", "nan", "NULL", " N/A ", "<NA>", "-", "FALSE"]
    table = "".join(f"{number},{word}\n" for number, word in enumerate(nothing))
    project.write("evals/targets.yaml", MOCK_TARGETS)
    project.write("evals/a.csv", f"id,wip\n{table}empty,\nwritten,no longer\n")
    for key, ends in (("skip", "skipped"), ("xfail", "xfailed")):
        case = f'{{id: "{{{{ id }}}}", {key}: "{{{{ wip }}}}", {FAILS}}}'
        project.write("evals/a.yaml", f"evalcases: {{from: a.csv}}\ncase: {case}\n")
        run = project.run("evals")
        assert run.outcomes == {"errors": len(nothing), "failed": 1, ends: 1}
        expected = "expected a reason (a text), or true, got the text"
        assert f"{key}: {expected} 'nan' (leave it empty if there is none) [evals/a.csv:3]" in run.text
        assert f"{key}: {expected} 'FALSE' (write {key}: false) [evals/a.csv:8]" in run.text


def test_a_file_whose_reason_to_skip_needs_variables_does_not_skip_cases_that_cannot_be_read(project: Any) -> None:
    write(
        project,
        f"id: a, vars: {{why: ''}}, {PASSES}",
        f"id: b, vars: {{why: later}}, {PASSES}",
        f"id: c, vars: [why], {PASSES}",
        header="skip: '{{ why }}'",
    )
    project.write("evals/a.yaml", (project.path / "evals/a.yaml").read_text() + "  - a text\n")
    run = project.run("evals")
    assert run.outcomes == {"passed": 1, "skipped": 1, "errors": 2}
    assert "evals/a.yaml:5: evalcases[2].vars: expected a mapping, got a list" in run.text
    assert "evals/a.yaml:6: evalcases[3]: expected an eval case" in run.text


def test_an_empty_name_is_no_mark_and_one_that_pytest_refuses_is_an_error_of_its_case(project: Any) -> None:
    write(
        project,
        f"id: a, marks: ['', slow], fixtures: '', tags: ['', fast], {PASSES}",
        f"id: b, marks: _slow, {PASSES}",
        f"id: c, {PASSES}",
    )
    run = project.run("evals", "-W", "ignore")
    assert run.statuses == {"a": "pass", "b": "error", "c": "pass"}
    assert run.by_id["b"]["error"] == (
        "evals/a.yaml:3: evalcases[1].marks: '_slow' cannot mark a case "
        "(names of marks do not begin with an underscore)"
    )


def test_a_mark_that_needs_arguments_is_an_error_of_its_case(project: Any) -> None:
    """pytest-timeout ended the run with INTERNALERROR, and pytest skipped the case for `skipif`."""
    hints = {
        "timeout": "without seconds; write timeout_seconds: 60 at the target, or use --timeout=60",
        "skipif": "without a condition; write skip: REASON",
        "parametrize": "without values; write cases in a table, with `from:`",
        "usefixtures": "without names; write fixtures: [NAME]",
        "filterwarnings": "without a filter; write it in the ini file",
    }
    write(project, *(f"id: {name}, marks: [{name}], {PASSES}" for name in hints), f"id: fine, {PASSES}")
    run = project.run("evals")
    assert (run.statuses, run.internals) == ({**dict.fromkeys(hints, "error"), "fine": "pass"}, [])
    for number, (name, hint) in enumerate(hints.items()):
        fault = f"marks[0]: {name!r} cannot mark a case ({name} says nothing {hint})"
        assert run.by_id[name]["error"] == f"evals/a.yaml:{number + 2}: evalcases[{number}].{fault}"


def test_a_project_without_pytest_timeout_may_have_a_mark_of_that_name(project: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("pytest_agentv.files.places._has_pytest_timeout", lambda: False)
    write(project, f"id: a, marks: [timeout], {PASSES}", f"id: b, {PASSES}")
    run = project.run("evals", "-p", "no:timeout", "-m", "timeout", "-o", "markers=timeout: cases that take long")
    assert run.statuses == {"a": "pass"}


def test_a_mark_xfail_expects_low_scores_only(project: Any) -> None:
    broken = CASE.replace("heuristic", "heurstic") % "hello"
    write(project, f"id: a, marks: xfail, {FAILS}", f"id: b, marks: [xfail], {broken}")
    run = project.run("evals")
    assert (run.outcomes, run.exit_code) == ({"xfailed": 1, "errors": 1}, 1)


def test_an_eval_id_that_no_case_has_is_told(project: Any) -> None:
    write(project, f"id: greeting, {PASSES}")
    run = project.run("evals", "--agentv-eval-id=greetings")
    assert run.exit_code == 5
    assert "--agentv-eval-id=greetings: no collected case has this id (did you mean 'greeting'?)" in run.text
