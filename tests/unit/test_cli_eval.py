"""`agentv eval`: the pytest call that its arguments stand for."""

import pytest

from pytest_agentv.cli.eval import PYTEST_FLAGS_WITH_VALUE, UsageError, build_pytest_call

SUITE = "evalcases:\n  - id: a\n    expected_outcome: o\n    input_messages: [{role: user, content: q}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals").mkdir()
    for name in ("qa.eval.yaml", "evals/chat.yaml", "evals/deep.yml"):
        (tmp_path / name).write_text(SUITE)
    return tmp_path


def call(*arguments):
    return list(build_pytest_call(arguments).arguments)


def test_flags_of_pytest_are_handed_on_wherever_they_stand():
    assert call("-n", "4", "qa.eval.yaml", "-k", "a or b", "-x", "evals", "--junitxml", "out.xml", "--lf", "-vv") == [
        "-n4",
        "-ka or b",
        "--junitxml=out.xml",
        "-x",
        "--lf",
        "-vv",
        "evals/chat.yaml",
        "evals/deep.yml",
        "qa.eval.yaml",
    ]


def test_flags_of_other_plugins_take_their_value_after_a_sign_or_after_two_dashes():
    assert call("qa.eval.yaml", "--page=out.html", "--", "--css", "x.css") == [
        "--page=out.html",
        "--css",
        "x.css",
        "qa.eval.yaml",
    ]


def test_files_outside_the_working_directory_are_absolute(folder, monkeypatch):
    monkeypatch.chdir(folder / "evals")
    assert call("..") == ["chat.yaml", "deep.yml", str(folder / "qa.eval.yaml")]


def test_a_file_without_the_shape_of_an_eval_file_is_claimed_so_that_pytest_says_what_is_wrong(folder):
    (folder / "my *broken one.yaml").write_text("evalcase: [")
    assert call("my *broken one.yaml", "qa.eval.yaml") == [
        "-o",
        "agentv_files='*.eval.yaml' '*.eval.yml' '*.eval.jsonl' EVAL.yaml EVAL.yml '*.EVAL.yaml' '*.EVAL.yml' "
        "'my [*]broken one.yaml'",
        "my *broken one.yaml",
        "qa.eval.yaml",
    ]


@pytest.mark.scenario("Path expansion and validation")
def test_all_patterns_without_an_eval_file_are_named_at_once(folder, agentv, golden):
    (folder / "empty").mkdir()
    (folder / "targets.yaml").write_text("targets: []\n")
    (folder / "notes.txt").write_text("x")
    run = agentv("eval", "qa.eval.yaml", "nope.yaml", "empty", "x/**/*.yaml", "targets.yaml", "notes.txt")
    assert (run.exit_code, run.out, run.err) == (4, "", golden("cli/eval_unmatched.txt"))


def test_a_misspelt_flag_before_its_value_is_told(agentv):
    run = agentv("eval", "qa.eval.yaml", "--treshold", "0.5")
    assert run.err == (
        "agentv eval: no eval files for:\n"
        "  0.5: there is no such file or folder\n"
        "Write the value of an unknown flag after `=`: --treshold=0.5\n"
        "--treshold is not an option of agentv; did you mean '--threshold'?\n"
        "Try: agentv eval --help\n"
    )


@pytest.mark.scenario("Worker limits and validation")
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--workers=0", "argument --workers: 0 workers are out of range: expected 1 to 50 (the minimum is 1)"),
        ("--workers=many", "argument --workers: 'many' is not a number of workers: expected 1 to 50"),
        ("--output-format=xml", "argument --output-format: unknown output format 'xml': expected one of jsonl, yaml"),
    ],
)
def test_a_bad_value_is_refused_before_anything_runs(agentv, flag, message):
    run = agentv("eval", "qa.eval.yaml", flag)
    assert (run.exit_code, run.out) == (4, "")
    assert run.err == f"agentv eval: {message}\nTry: agentv eval --help\n"


def test_the_table_of_flags_with_a_value_is_that_of_pytest_and_xdist(pytestconfig):
    groups = ("general", "terminal reporting", "pytest-warnings", "collect", "debugconfig", "logging", "xdist")
    options = [option for group in pytestconfig._parser._groups if group.name in groups for option in group.options]
    with_value = {
        name
        for option in options
        if option.attrs().get("action", "store") in ("store", "append") and option.attrs().get("nargs") is None
        for name in option.names()
    }
    assert {"-k", "--tb", "-n"} <= with_value
    assert with_value - {"--runpytest"} <= set(PYTEST_FLAGS_WITH_VALUE)


LEFT_OUT = (
    "evals/test_math.yaml:1: has a list of cases but is not collected: names like test_*.yaml belong to other files "
    "(rename it to math.eval.yaml, or add its name to the ini key agentv_files)"
)


def test_files_of_a_folder_that_their_names_leave_out_are_told(folder):
    (folder / "evals/test_math.yaml").write_text(SUITE)
    (folder / "evals/test_other.yaml").write_text("stages: []\n")
    made = build_pytest_call(["evals", "evals/deep.yml"])
    assert made.arguments == ("evals/chat.yaml", "evals/deep.yml")
    assert list(map(str, made.left_out)) == [LEFT_OUT]
    assert not build_pytest_call(["evals/test_math.yaml"]).left_out
    with pytest.raises(UsageError, match=r"evals/test_math\.yaml:1: has a list of cases"):
        build_pytest_call(["evals", "--strict"])


def test_paths_with_brackets_are_refused_with_a_way_to_run_them(folder):
    for name in ("app/[slug]/qa.eval.yaml", "app/[a]/evals/b [b]/x/deep.yaml", "app/one[1].eval.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SUITE)
    with pytest.raises(UsageError) as refused:
        call("app")
    assert str(refused.value).splitlines() == [
        "pytest takes no path with brackets; run `pytest` with a folder above:",
        "  app/[a]/evals/b [b]/x/deep.yaml",
        "  app/[slug]/qa.eval.yaml",
        "  app/one[1].eval.yaml",
    ]
