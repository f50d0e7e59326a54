"""`agentv compare --statistics`, `plan`, `agree`, `label`: what they print, and their exit codes."""

import io
import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(name, passes, judged=5, **more):
    """Return the result of a case of which some answers pass."""
    scores = [1] * passes + [0] * (judged - passes)
    counts = {"planned": judged, "asked": judged, "judged": judged, "errors": 0, "needed": judged}
    repeat = counts | {"scores": scores, "passes": passes, "min_pass_rate": 1.0, "min_pass_rate_source": "case"}
    names = {"eval_id": name, "eval_file": "evals/a.yaml", "target": "azure", "case_hash": f"hash of {name}"}
    rest = {"grading_hash": "grading", "target_hash": "51c0", "score": sum(scores) / judged, "threshold": 1}
    return names | rest | {"repeat": repeat} | more


def results(name, cases):
    Path(name).write_text("".join(json.dumps(value) + "\n" for value in cases))
    return name


def run(name, passes, judged=5, **more):
    return results(name, [line(f"c{n}", each, judged, **more) for n, each in enumerate(passes)])


def baseline(*lines, **head):
    """Write a baseline of cases: their names, and what each line holds more."""
    first = {"agentv_baseline": 1, "repeat": 5, "target": "azure", "target_hash": "51c0", **head}
    usual = {"grading": "grading", "scores": [1] * 5, "threshold": 1}
    cases = [{"hash": f"hash of {name}", **usual, "case": f"evals/a.yaml::{name}", **more} for name, more in lines]
    return results("agentv.baseline.jsonl", [first, *cases])


@pytest.mark.parametrize(
    ("passes", "judged", "expected"),
    [
        ([1] * 47 + [0] * 3, 1, (0.94, 0.837829083112, 0.979385029651)),
        ([1] * 490 + [0] * 10, 1, (0.98, 0.963579816753, 0.989100816404)),
        ([0] * 10, 1, (0, 0, 0.277532799863)),
        ([4, 5, 5, 3, 5, 0, 2, 5, 5, 5], 5, (0.78, 0.481649795, 0.9311677173)),
        ([5] * 10, 5, (1, 0.6614913773, 1)),
        ([4] * 10, 5, (0.8, 0.4445294983, 0.9523653281)),
    ],
)
def test_the_golden_numbers_of_a_run(agentv, passes, judged, expected):
    name = run("a.jsonl", passes, judged)
    told = json.loads(agentv("compare", name, name, "--statistics", "--format=json").out)
    assert (told["mean"], told["low"], told["high"]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("wins", "losses", "n", "low", "high"),
    [
        (1, 7, 21, -0.5172322764, -0.02600303248),
        (0, 5, 25, -0.3913095037, -0.04016929887),
        (3, 15, 100, -0.208627584, -0.041243516),
        (0, 10, 10, -1, -0.4449344003),
    ],
)
def test_the_golden_numbers_of_a_difference(agentv, wins, losses, n, low, high):
    same = [1] * (n - wins - losses)
    old, new = run("a.jsonl", [0] * wins + [1] * losses + same, 1), run("b.jsonl", [1] * wins + [0] * losses + same, 1)
    told = json.loads(agentv("compare", old, new, "--statistics", "--format=json").out)
    assert (told["delta_low"], told["delta_high"]) == pytest.approx((low, high), abs=1e-9)


def test_scores_without_a_threshold_are_no_passes_and_their_order_tells_nothing(agentv):
    cases = [{"eval_id": "a", "score": 0.2}, {"eval_id": "b", "score": 0.5}]
    old = [cases[0] | {"repeat": {"scores": [0.1, 0.2, 0.3]}}, cases[1] | {"repeat": {"scores": [0.5] * 3}}]
    new = [cases[0] | {"repeat": {"scores": [0.3, 0.2, 0.1]}}, old[1]]
    out = agentv("compare", results("a.jsonl", old), results("b.jsonl", new), "--statistics").out
    assert "May be chance" not in out
    assert "Mean score     35.0 %" in out
    assert "never 2" not in out


def test_a_baseline_and_the_parts_of_a_run(agentv):
    base = baseline(*((f"c{n}", {}) for n in range(200)))
    parts = [results(f"{n}.jsonl", (line(f"c{each}", 5) for each in range(n, 200, 2))) for n in range(2)]
    done = agentv("compare", base, *parts, "--statistics", "--gate")
    assert done.exit_code == 0
    assert "Against agentv.baseline.jsonl (200 cases x 5, target azure): 200 compared" in done.out
    assert agentv("compare", base, parts[0], "--statistics", "--gate").exit_code == 3, "half is gone"


@pytest.mark.parametrize("is_later_first", [True, False])
def test_of_several_parts_the_result_that_ended_last_counts_as_in_merge(agentv, is_later_first):
    base, bad = run("a.jsonl", [5] * 20), run("b.jsonl", [1] * 20, timestamp="2026-11-20T10:00:02Z")
    good = run("c.jsonl", [5] * 20, timestamp="2026-11-20T10:00:01+00:00")
    parts = (bad, good) if is_later_first else (good, bad)
    assert agentv("compare", base, *parts, "--statistics", "--gate").exit_code == 1


CASE = '"case": "evals/a.yaml::lamp"'
THRESHOLD = '"threshold": 1,'


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('{"hash": "hash of tent"', "{broken", ":3: invalid JSON: Expecting property name"),
        ('{"hash": "hash of tent"', '[]\n{"hash": "hash of tent"', ":3: expected a JSON object"),
        ("a.yaml::tent", "a.yaml::lamp", ":3: the case 'evals/a.yaml::lamp' is there twice"),
        ("[1, 1, 1, 1, 1]", "[]", ":2: scores: expected a list of numbers from 0 to 1"),
        ("[1, 1, 1, 1, 1]", "[1.5]", ":2: scores: expected a list of numbers from 0 to 1"),
        (THRESHOLD, '"threshold": "x",', ":2: threshold: expected a number"),
        (THRESHOLD, '"passes": 6, "threshold": 1,', ":2: passes: expected a number from 0 to 5"),
        ('"repeat": 5', '"repeat": 0', ":1: repeat: expected a whole number from 1"),
        (CASE, '"case": 1', ":2: case: expected a text"),
        ('"azure"', '["azure"]', ":1: target: expected a text"),
        ('"gpt@9f3c"', "5", ":1: judge: expected a text"),
        ('"catalogue"', "{}", ":3: group: expected a text"),
        ('"hash of lamp"', "5", ":2: hash: expected a text"),
        (": 1, ", ": 2, ", ":1: is a baseline of a later version of pytest-agentv: its format is 2"),
    ],
)
def test_a_broken_baseline_is_refused_at_its_line(agentv, old, new, fault):
    path = Path(baseline(("lamp", {}), ("tent", {"group": "catalogue"}), judge="gpt@9f3c"))
    path.write_text(path.read_text().replace(old, new, 1))
    done = agentv("compare", str(path), run("a.jsonl", [5]), "--statistics")
    assert (done.exit_code, done.out) == (2, "")
    assert f"{path}{fault}" in done.err


def test_parts_of_a_run_may_have_one_test_of_several_with_an_id(agentv):
    nodes = [f"t.py::test[{number}]" for number in range(3)]
    named = {"hash": "hash of a", "scores": [1] * 5, "threshold": 1}
    base = baseline(*(("a", named | {"case": f"{node}::a", "test": node}) for node in nodes))
    lines = [line("a", 5, eval_file="t.py", node_id=node) for node in nodes]
    for first, second in ((lines[:1], lines[1:]), (lines[:1], lines)):
        parts = results("a.jsonl", first), results("b.jsonl", second)
        said = json.loads(agentv("compare", base, *parts, "--statistics", "--format=json").out)
        assert (said["n"], said["gone"], said["new"], said["verdict"]) == (3, [], [], "inconclusive")


@pytest.mark.parametrize("judged", [1, 5])
def test_a_plan_does_not_take_a_run_that_was_all_green_for_one_without_chance(agentv, judged):
    done = agentv("plan", run("a.jsonl", [judged] * 8, judged), "--see", "5")
    rows = [row.split() for row in done.out.splitlines()[4:8]]
    assert [int(row[1].replace(",", "")) for row in rows] == [134, 106, 106, 106]
    assert "as many cases as there are" not in done.out
    assert "All answers of a case went the same way, so chance is not known" in " ".join(done.out.split())
    assert "5 points are assumed" not in done.out


def test_a_plan_from_one_answer_per_case_says_that_it_is_an_upper_bound(agentv):
    results("a.jsonl", [{"eval_id": f"c{n}", "score": n % 2, "threshold": 1} for n in range(8)])
    results("b.jsonl", [{"eval_id": f"c{n}", "score": int(n % 3 > 0), "threshold": 1} for n in range(8)])
    assert "an upper bound, as if all cases were alike" in agentv("plan", "a.jsonl").out
    done = agentv("plan", "a.jsonl", "--against=b.jsonl")
    assert "an upper bound, half of that of the differences" in done.out


def labels(name="labels.jsonl", *, pairs, **more):
    return results(name, [{"eval_id": eval_id, "label": label, **more} for eval_id, label in pairs])


def test_the_gate_is_on_the_low_end_of_the_interval_of_kappa(agentv):
    verdicts = [(5, "pass")] * 13 + [(5, "fail")] * 5 + [(0, "pass")] * 6 + [(0, "fail")] * 48
    pairs = [(f"c{number}", label) for number, (_, label) in enumerate(verdicts)]
    files = labels(pairs=pairs), run("a.jsonl", [score for score, _ in verdicts])
    told = json.loads(agentv("agree", *files).out)
    assert told["kappa"] == pytest.approx(0.6)
    assert told["kappa_low"] < 0.5 < told["kappa_high"]
    assert agentv("agree", *files, f"--min-kappa={told['kappa_low']}").exit_code == 0
    done = agentv("agree", *files, "--min-kappa=0.5")
    assert (done.exit_code, "whose low end is below --min-kappa=0.5" in done.err) == (1, True)


@pytest.fixture
def person(agentv, monkeypatch):
    """Labels with the words that a person types; returns what was shown, and the labels of the file by case."""

    def label(results, *words, rater=""):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{word}\n" for word in words)))
        done = agentv("label", results, "--out=labels.jsonl", *([f"--rater={rater}"] if rater else []))
        lines = Path("labels.jsonl").read_text().splitlines() if Path("labels.jsonl").exists() else []
        return done, [json.loads(line) for line in lines]

    return label


def answered(name, answers, **more):
    judged = {"score": 0.123, "threshold": 0.8, "reasoning": "The judge likes it", "hits": ["so good"], **more}
    asked = {"lm_provider_request": {"question": "What does it cost?"}, "eval_file": "a.yaml", "target": "t"}
    return results(
        name, [{**judged, **asked, "eval_id": id_, "candidate_answer": text} for id_, text in answers.items()]
    )


def test_a_person_labels_blind_and_goes_on_later(agentv, person):
    answers = {f"c{n}": f"It costs {n} euros" for n in range(12)}
    done, known = person(answered("a.jsonl", answers), "p", "FAIL", "what", "s", "q")
    assert (done.exit_code, [each["label"] for each in known]) == (0, ["pass", "fail"])
    assert done.err == "labels.jsonl: 2 labels; 10 answers without one: call it again\n"
    assert done.out.count("What does it cost?") == 4
    assert not any(secret in done.out for secret in ("0.123", "likes", "so good", "status"))
    done, known = person("a.jsonl", *["p"] * 20)
    assert [done.out.count(f"{text}\n") for text in answers.values()].count(1) == 10, "the others are asked once"
    assert len({each["eval_id"] for each in known}) == len(known) == 12
    done, _ = person("a.jsonl")
    assert (done.out, done.err) == ("", "labels.jsonl: 12 labels\n")
    assert person("a.jsonl", *["f"] * 12, rater="ann")[1][-1]["rater"] == "ann"
    agreed = json.loads(agentv("agree", "labels.jsonl", "a.jsonl").out)
    assert (agreed["cases"] + agreed["split"], agreed["raters"], agreed["unmatched"]) == (12, 2, 0)


def test_a_label_is_of_the_answer_that_was_seen(agentv, person):
    person(answered("a.jsonl", {"c0": "120 euros", "c1": "130 euros"}), "p", "p")
    answered("b.jsonl", {"c0": "120 euros", "c1": "I do not know"})
    told = json.loads(agentv("agree", "labels.jsonl", "b.jsonl").out)
    assert (told["cases"], told["other_answers"]) == (1, 1)
    _, known = person("b.jsonl", "f")
    assert [(each["eval_id"], each["label"]) for each in known[2:]] == [("c1", "fail")]


def test_cases_of_one_name_are_labelled_by_their_items(agentv, person):
    names = [{"node_id": f"test_a.py::test_{n}", "eval_file": "test_a.py", "target": "t"} for n in range(2)]
    lines = [{"eval_id": "c", "score": n, "threshold": 1, "candidate_answer": "a", **names[n]} for n in range(2)]
    _, known = person(results("a.jsonl", lines), "p", "f")
    assert {each["eval_id"] for each in known} == {"test_a.py::test_0", "test_a.py::test_1"}
    assert json.loads(agentv("agree", "labels.jsonl", "a.jsonl").out)["cases"] == 2


def test_what_cannot_be_labelled(agentv):
    broken = {
        "eval_id": "c",
        "score": 0,
        "error": "no answer",
        "error_detail": {"stage": "provider", "kind": "network"},
    }
    done = agentv("label", results("a.jsonl", [{**broken, "candidate_answer": "Error"}]), "-o", "labels.jsonl")
    assert (done.exit_code, done.err) == (2, "agentv label: a.jsonl: holds no answers to label\n")
    done = agentv("label", "a.jsonl", "-o", "labels.csv")
    assert (done.exit_code, "expected a name that ends in .jsonl" in done.err) == (2, True)


def test_labels_as_spreadsheets_write_them(agentv):
    Path("l.csv").write_text(f"\ufeffeval_id;label;answer\nc0;pass;{'x' * 200_000}\n", encoding="utf-8")
    assert agentv("agree", "l.csv", run("a.jsonl", [5]), "-ftable").out.splitlines()[1].split() == ["labels", "1"]
    Path("l.csv").write_text('eval_id,label\nc0,"pass\n')
    done = agentv("agree", "l.csv", "a.jsonl")
    assert (done.exit_code, 'l.csv:2: is no valid CSV: a quote (") is opened and never closed' in done.err) == (2, True)


TOOLS = [["lookup"], [], ["lookup"], [], []]


def flaky(name, tools):
    figures = {"scores": [1, 0, 1, 0, 0], "passes": 2, "tools": tools}
    return line(name, 2, repeat=line(name, 2)["repeat"] | figures)


def many(passes, judged=5, **more):
    return [line(f"c{number}", each, judged, **more) for number, each in enumerate(passes)]


OUT = [line(f"c{number}", 0, error="HTTP 503", status="error") for number in (46, 47)]
BOTH = [line(name, 5, target=target) for name in "ab" for target in ("azure", "other")]
VARIANTS = [
    line(f"c{n}@{name}", passes, target=name, combination=name, node_id=f"evals/a.yaml::c{n}@{name}")
    for name, passes in (("gpt", 5), ("pi", 2))
    for n in range(6)
]


@pytest.mark.parametrize(
    ("old", "new", "said", "unsaid"),
    [
        (many([4] * 48), [*many([5] * 46), *OUT], ["on 46 of 48 cases: the others could not be judged"], []),
        (
            [line("a", 5, target=each) for each in ("gpt", "claude")] + [line("b", 5)],
            [line("a", 0, target=each) for each in ("gpt", "claude")] + [line("b", 0)],
            ["BROKEN a (gpt) 5/5 -> 0/5", "BROKEN a (claude) 5/5 -> 0/5", "BROKEN b 5/5 -> 0/5"],
            [],
        ),
        (BOTH, BOTH[::2], ["Gone 2 a (other), b (other)", "the run has no case of the target other"], []),
        (many([5] * 5), many([0] * 4 + [5]), ["worse 4 cases differ", "fewer than 5 cases differ"], ["regressed:"]),
        (many([1] * 2100, 1), many([1] * 2099 + [0], 1), ["Pass rate 99.95 % 95 % CI:"], ["100.00 %"]),
        (many([1] * 2100, 1), many([1] * 2100, 1), ["Pass rate 100.0 % 95 % CI:"], []),
        (VARIANTS, VARIANTS, ["Pass rate gpt 100.0 %", "pi 40.0 %", "-60.0 to gpt, 95 % CI: "], ["70.0 %"]),
        (
            [flaky("refund", TOOLS)],
            [flaky("refund", TOOLS), line("b", 5)],
            ["Hint refund: failing answers skip `lookup` (3 of 3), passing ones never (0 of 2)"],
            [],
        ),
        (
            [flaky("a", TOOLS)],
            [flaky("a", [[] if tools else ["delete"] for tools in TOOLS])],
            ["Hint a: failing answers call `delete` (3 of 3), passing ones never (0 of 2)"],
            [],
        ),
        (
            [flaky("a", TOOLS)],
            [flaky("a", [["lookup"]] * 5), flaky("b", None), flaky("c", [[], ["a"], [], [], []])],
            [],
            ["Hint"],
        ),
        ([flaky("a", TOOLS)], [flaky(f"c{n}", TOOLS) for n in range(12)], ["... 9 more: --agentv-verbose"], []),
    ],
)
def test_what_must_be_said_so_that_nobody_is_misled(agentv, monkeypatch, old, new, said, unsaid):
    monkeypatch.setenv("COLUMNS", "80")
    told = agentv("compare", results("a.jsonl", old), results("b.jsonl", new), "--statistics").out
    assert max(len(text) for text in told.splitlines() if not text.startswith("Verdict: ")) <= 80
    told = " ".join(told.split())
    assert [text for text in said if text not in told] == []
    assert [text for text in unsaid if text in told] == []
