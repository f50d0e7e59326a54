"""`agentv eval`: the pytest call that its arguments stand for, and what it refuses before it."""

import pytest

SUITE = "evalcases:\n  - id: a\n    expected_outcome: o\n    input_messages: [{role: user, content: q}]\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "evals").mkdir()
    for name in ("qa.eval.yaml", "evals/chat.yaml", "evals/deep.yml"):
        (tmp_path / name).write_text(SUITE)
    return tmp_path


@pytest.fixture
def call(agentv, folder, monkeypatch):
    """Return the arguments that pytest gets, and what the command said."""

    def call(*arguments):
        calls = []
        monkeypatch.setattr(pytest, "main", lambda words: calls.append(words) or 0)
        run = agentv("eval", *arguments)
        assert len(calls) == (run.exit_code == 0)
        return calls[0] if calls else [], run.err

    return call


FILES = ["evals/chat.yaml", "evals/deep.yml", "qa.eval.yaml"]


def test_flags_of_pytest_and_of_plugins_are_handed_on_wherever_they_stand(call):
    words = ("-n", "4", "qa.eval.yaml", "-k", "a or b", "-x", "evals", "--junitxml", "out.xml", "--lf", "-vv")
    handed_on = ["-n4", "-ka or b", "--junitxml=out.xml", "-x", "--lf", "-vv"]
    assert call(*words)[0] == [*handed_on, *FILES]
    words = ("qa.eval.yaml", "--page=out.html", "--", "--css", "x.css")
    assert call(*words)[0] == ["--page=out.html", "--css", "x.css", "qa.eval.yaml"]


def test_files_outside_the_working_directory_are_absolute(call, folder, monkeypatch):
    monkeypatch.chdir(folder / "evals")
    assert call("..")[0] == ["chat.yaml", "deep.yml", str(folder / "qa.eval.yaml")]


def test_a_file_without_the_shape_of_an_eval_file_is_claimed_so_that_pytest_says_what_is_wrong(call, folder):
    (folder / "my *broken one.yaml").write_text("evalcase: [")
    assert call("my *broken one.yaml", "qa.eval.yaml")[0] == [
        "-o",
        "agentv_files='*.eval.yaml' '*.eval.yml' '*.eval.jsonl' EVAL.yaml EVAL.yml '*.EVAL.yaml' '*.EVAL.yml' "
        "'my [*]broken one.yaml'",
        *("my *broken one.yaml", "qa.eval.yaml"),
    ]


def test_what_is_refused_before_anything_runs(call, folder, golden):
    (folder / "empty").mkdir()
    (folder / "targets.yaml").write_text("targets: []\n")
    (folder / "notes.txt").write_text("x")
    lost = call("qa.eval.yaml", "nope.yaml", "empty", "x/**/*.yaml", "targets.yaml", "notes.txt")
    assert lost == ([], golden("cli/eval_unmatched.txt"))
    assert call("qa.eval.yaml", "--treshold", "0.5") == (
        [],
        "agentv eval: no eval files for:\n"
        "  0.5: there is no such file or folder\n"
        "Write the value of an unknown flag after `=`: --treshold=0.5\n"
        "--treshold is not an option of agentv; did you mean '--threshold'?\n"
        "Try: agentv eval --help\n",
    )


def test_each_flag_of_pytest_and_xdist_that_has_a_value_is_handed_on_with_it(call, pytestconfig):
    groups = ("general", "terminal reporting", "pytest-warnings", "collect", "debugconfig", "logging", "xdist")
    options = [option for group in pytestconfig._parser._groups if group.name in groups for option in group.options]
    with_value = {
        name
        for option in options
        if option.attrs().get("action", "store") in ("store", "append") and option.attrs().get("nargs") is None
        for name in option.names()
    }
    assert {"-k", "--tb", "-n"} <= with_value
    words = [word for name in sorted(with_value - {"--runpytest"}) for word in (name, "value")]
    assert call(*words, "qa.eval.yaml")[0][-1] == "qa.eval.yaml"


LEFT_OUT = (
    "evals/test_math.yaml:1: has a list of cases but is not collected: names like test_*.yaml belong to other files "
    "(rename it to math.eval.yaml, or add its name to the ini key agentv_files)"
)


def test_files_of_a_folder_that_their_names_leave_out_are_told(call, folder):
    (folder / "evals/test_math.yaml").write_text(SUITE)
    (folder / "evals/test_other.yaml").write_text("stages: []\n")
    found, said = call("evals", "evals/deep.yml")
    assert found == FILES[:2]
    assert LEFT_OUT in said
    assert LEFT_OUT not in call("evals/test_math.yaml")[1]
    assert LEFT_OUT in call("evals", "--strict")[1]


def test_paths_with_brackets_are_refused_with_a_way_to_run_them(call, folder):
    for name in ("app/[slug]/qa.eval.yaml", "app/[a]/evals/b [b]/x/deep.yaml", "app/one[1].eval.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SUITE)
    assert call("app")[1].splitlines()[:4] == [
        "agentv eval: pytest takes no path with brackets; run `pytest` with a folder above:",
        "  app/[a]/evals/b [b]/x/deep.yaml",
        "  app/[slug]/qa.eval.yaml",
        "  app/one[1].eval.yaml",
    ]
