"""`agentv compare --statistics`, `plan`, `agree`, `label`: what they print, and their exit codes."""

import io
import json
from pathlib import Path

import pytest
from verdict_cases import case, run_of
from views import repeated

from pytest_agentv.reports.judged_cases import unique_names
from pytest_agentv.reports.reading import baseline_of, baseline_text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(case, **more):
    repeat = {"scores": list(case.scores), "passes": case.passes, "asked": case.asked}
    names = {"eval_id": case.eval_id, "eval_file": case.eval_file, "target": case.target}
    rest = {"score": sum(case.scores) / (case.judged or 1), "threshold": 1, "repeat": repeat}
    hashes = {"case_hash": case.case_hash, "grading_hash": case.grading_hash, "target_hash": case.target_hash}
    return names | rest | hashes | more


def results(name, cases):
    Path(name).write_text("".join(json.dumps(value | repeated(value)) + "\n" for value in cases))
    return name


def run(name, passes, **more):
    return results(name, [line(case, **more) for case in run_of(passes)])


def judged_once(name, outcomes, **more):
    cases = run_of(outcomes, judged=1)
    return results(name, [line(case, **{key: value[n] for key, value in more.items()}) for n, case in enumerate(cases)])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (lambda: judged_once("a.jsonl", [1] * 47 + [0] * 3), (0.94, 0.837829083112, 0.979385029651)),
        (lambda: judged_once("a.jsonl", [1] * 490 + [0] * 10), (0.98, 0.963579816753, 0.989100816404)),
        (lambda: judged_once("a.jsonl", [0] * 10), (0, 0, 0.277532799863)),
        (lambda: run("a.jsonl", [4, 5, 5, 3, 5, 0, 2, 5, 5, 5]), (0.78, 0.481649795, 0.9311677173)),
        (lambda: run("a.jsonl", [5] * 10), (1, 0.6614913773, 1)),
        (lambda: run("a.jsonl", [4] * 10), (0.8, 0.4445294983, 0.9523653281)),
        (
            lambda: judged_once("a.jsonl", map(int, "110110001111"), group="000112223344"),
            (0.6666666667, 0.1799018373, 0.9480096744),
        ),
    ],
    ids=["47/50", "490/500", "0/10", "k=5", "all of k=5", "same of k=5", "groups"],
)
def test_the_golden_numbers_of_a_run(agentv, path, expected):
    name = path()
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
    same = n - wins - losses
    old = judged_once("a.jsonl", [0] * wins + [1] * (losses + same))
    new = judged_once("b.jsonl", [1] * wins + [0] * losses + [1] * same)
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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("compare", "base.jsonl", "new.jsonl"), "`agentv compare --statistics BASELINE RESULTS`"),
        (("compare", "new.jsonl", "base.jsonl", "--statistics"), "`agentv compare --statistics BASELINE RESULTS`"),
        (("report", "base.jsonl"), "`agentv compare --statistics BASELINE RESULTS`"),
    ],
)
def test_a_baseline_in_the_place_of_results_is_told(agentv, arguments, told):
    Path("base.jsonl").write_text('{"agentv_baseline": 1}\n{"case": "a::b", "scores": [1], "threshold": 1}\n')
    Path("new.jsonl").write_text('{"eval_id": "b", "score": 1}\n')
    run = agentv(*arguments)
    assert run.exit_code == 2
    assert f"base.jsonl: is a baseline, not a results file: {told}" in run.err
    assert "no eval_id" not in run.err


def test_cases_that_the_earlier_run_could_not_judge_are_named(agentv):
    base = results("a.jsonl", [line(run_of([5])[0], error="HTTP 503"), *map(line, run_of([5] * 9)[1:])])
    assert "Not judged 1   c0" in agentv("compare", base, run("b.jsonl", [5] * 9), "--statistics").out


def test_a_baseline_and_the_parts_of_a_run(agentv):
    cases = run_of([5] * 200)
    Path("agentv.baseline.jsonl").write_text(baseline_text(baseline_of(cases)))
    parts = [results(f"{n}.jsonl", map(line, cases[n::2])) for n in range(2)]
    done = agentv("compare", "agentv.baseline.jsonl", *parts, "--statistics", "--gate")
    assert done.exit_code == 0
    assert "Against agentv.baseline.jsonl (200 cases x 5, target azure): 200 compared" in done.out
    assert agentv("compare", "agentv.baseline.jsonl", parts[0], "--statistics", "--gate").exit_code == 3, "half is gone"


@pytest.mark.parametrize("is_later_first", [True, False])
def test_of_several_parts_the_result_that_ended_last_counts_as_in_merge(agentv, is_later_first):
    base = run("a.jsonl", [5] * 20)
    bad = run("b.jsonl", [1] * 20, timestamp="2026-11-20T10:00:02Z")
    good = run("c.jsonl", [5] * 20, timestamp="2026-11-20T10:00:01+00:00")
    parts = (bad, good) if is_later_first else (good, bad)
    assert agentv("compare", base, *parts, "--statistics", "--gate").exit_code == 1


def test_parts_of_a_run_may_have_one_test_of_several_with_an_id(agentv):
    cases = [case("a", 5, eval_file="t.py", node_id=f"t.py::test[{number}]") for number in range(3)]
    cases = [each.replace(name="t.py::a") for each in cases]
    Path("agentv.baseline.jsonl").write_text(baseline_text(baseline_of(unique_names(cases))))
    lines = [line(each, node_id=each.node_id) for each in cases]
    for first, second in ((lines[:1], lines[1:]), (lines[:1], lines)):
        parts = results("a.jsonl", first), results("b.jsonl", second)
        done = agentv("compare", "agentv.baseline.jsonl", *parts, "--statistics", "--format=json")
        said = json.loads(done.out)
        assert (said["n"], said["gone"], said["new"], said["verdict"]) == (3, [], [], "inconclusive")


@pytest.mark.parametrize("judged", [1, 5])
def test_a_plan_does_not_take_a_run_that_was_all_green_for_one_without_chance(agentv, judged):
    path = results("a.jsonl", [line(case) for case in run_of([judged] * 8, judged)])
    done = agentv("plan", path, "--see", "5")
    rows = [row.split() for row in done.out.splitlines()[4:8]]
    assert [int(row[1].replace(",", "")) for row in rows] == [134, 106, 106, 106]
    assert "as many cases as there are" not in done.out
    assert "All answers of a case went the same way, so chance is not known" in " ".join(done.out.split())
    assert "5 points are assumed" not in done.out


def test_a_plan_from_one_answer_per_case_says_that_it_is_an_upper_bound(agentv):
    results("a.jsonl", [{"eval_id": f"c{n}", "score": n % 2, "threshold": 1} for n in range(8)])
    results("b.jsonl", [{"eval_id": f"c{n}", "score": n % 3 > 0, "threshold": 1} for n in range(8)])
    results("b.jsonl", [{"eval_id": f"c{n}", "score": int(n % 3 > 0), "threshold": 1} for n in range(8)])
    assert "an upper bound, as if all cases were alike" in agentv("plan", "a.jsonl").out
    done = agentv("plan", "a.jsonl", "--against=b.jsonl")
    assert "an upper bound, half of that of the differences" in done.out


@pytest.mark.parametrize(
    ("points", "least"), [("0", "0"), ("101", "0"), ("many", "0"), ("nan", "0"), ("1e-300", "1e-07"), ("1e-7", "1e-07")]
)
def test_a_plan_needs_points(agentv, points, least):
    done = agentv("plan", run("a.jsonl", [5]), f"--see={points}")
    assert done.exit_code == 2
    assert f"expected points, a number above {least} up to 100" in done.err


LABELS = [("c0", "pass"), ("c1", "fail"), ("c2", "pass"), ("c3", "fail"), ("c9", "pass")]


def labels(name="labels.jsonl", pairs=LABELS, **more):
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
    assert (done.exit_code, "its low end is below --min-kappa=0.5" in done.err) == (1, True)


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


def test_answers_are_shown_in_random_order(person):
    answers = {f"c{n}": f"It costs {n} euros" for n in range(40)}
    done, _ = person(answered("a.jsonl", answers), *["s"] * 40)
    shown = sorted(range(40), key=lambda n: done.out.index(f"It costs {n} euros\n"))
    assert shown != list(range(40))  # by chance once in 40! calls


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


def test_cases_on_which_people_are_split_have_no_label(agentv):
    labels = "eval_id,label,rater\n" + "".join(
        f"{case},{label},{rater}\n"
        for case, said in {"c0": "pf", "c1": "pp", "c2": "ff"}.items()
        for rater, label in zip("ab", said.replace("p", "pass ").replace("f", "fail ").split(), strict=True)
    )
    Path("labels.csv").write_text(labels)
    run("r.jsonl", [5, 5, 0])
    done = agentv("agree", "labels.csv", "r.jsonl", "--min-kappa=0", "--format=table")
    assert done.out.startswith("2 cases with a label and a verdict\n")
    assert "1 case on which people are split left out" in done.out
    assert "Krippendorff's alpha of 2 people: 0.4" in done.out, "it tells of these too"
    assert done.exit_code == 1, "two cases tell next to nothing"
    Path("labels.csv").write_text("eval_id,label\nc0,pass\nc0,fail\n")
    done = agentv("agree", "labels.csv", "r.jsonl")
    assert (done.exit_code, done.err) == (2, "agentv agree: people are split on all cases that were judged\n")


def test_enough_labels_correct_the_pass_rate(agentv):
    results("a.jsonl", [{"eval_id": f"c{n}", "score": int(n % 5 > 0), "threshold": 1} for n in range(300)])
    pairs = [(f"c{n}", "pass" if n % 4 else "fail") for n in range(120)]
    done = agentv("agree", labels(pairs=pairs), "a.jsonl", "--format=table")
    assert "Pass rate corrected by the labels: 7" in done.out
    assert "(approximate)" in done.out


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"label": "pass"}', "l.jsonl:1: eval_id: expected a text, got null"),
        ('{"eval_id": "a", "label": "great"}', "l.jsonl:1: label: expected pass, fail or a number from 0 to 1, got"),
        ('{"eval_id": "a", "label": 3}', "l.jsonl:1: label: expected pass, fail or a number from 0 to 1, got"),
        ("", "l.jsonl: holds no labels: expected lines with eval_id and label"),
        ("{broken", "l.jsonl:1: the last line is incomplete"),
    ],
)
def test_labels_that_cannot_be_read(agentv, text, fault):
    Path("l.jsonl").write_text(text)
    done = agentv("agree", "l.jsonl", run("a.jsonl", [5]))
    assert (done.exit_code, done.out) == (2, "")
    assert fault in done.err


def test_labels_as_spreadsheets_write_them(agentv):
    Path("l.csv").write_text(f"\ufeffeval_id;label;answer\nc0;pass;{'x' * 200_000}\n", encoding="utf-8")
    assert "1 case with a label and a verdict" in agentv("agree", "l.csv", run("a.jsonl", [5]), "-ftable").out
    Path("l.csv").write_text('eval_id,label\nc0,"pass\n')
    done = agentv("agree", "l.csv", "a.jsonl")
    assert (done.exit_code, 'l.csv:2: is no valid CSV: a quote (") is opened and never closed' in done.err) == (2, True)
