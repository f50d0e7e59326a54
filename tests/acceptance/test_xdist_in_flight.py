"""Many cases in flight in each of xdist's workers: the share of each, and what is left when one dies."""

from collections import Counter

import pytest
from scripted_agent import TARGETS, numbered, read_calls, write_agent, write_cases
from thorough import varied

pytestmark = pytest.mark.slow

DISTRIBUTIONS = ["load", "loadfile", *map(varied, ("loadscope", "loadgroup", "worksteal"))]


@pytest.fixture
def project(project):
    write_agent(project)
    return project


def write_two_files(project, prompt, count=8):
    """Write cases of two files; `loadfile` gives each of two workers one."""
    for word in ("one", "two"):
        write_cases(project, numbered(count, prompt, word), f"{word}.eval.yaml")


@pytest.mark.scenario("Workers flag specification")
@pytest.mark.scenario("Workers from target configuration")
@pytest.mark.parametrize(
    ("flags", "targets", "shares"),
    [
        (["--agentv-workers=5"], TARGETS, [2, 3]),
        ([], TARGETS.replace("workers: 1", "workers: 4"), [2, 2]),
        varied(["--agentv-workers=1"], TARGETS, [1, 1], id="one"),
    ],
    ids=["flag", "target", None],
)
def test_the_workers_of_a_run_are_shared_out_among_its_processes(project, flags, targets, shares):
    write_agent(project, targets)
    write_two_files(project, f"in_flight {sum(shares)}; say hello")
    run = project.run("-n2", "--dist=loadfile", *flags)
    assert run.outcomes == {"passed": 16}
    noted = read_calls(project.path)
    assert noted.most == sum(shares)
    assert sorted(calls.most for calls in noted.by_process) == shares


@pytest.mark.parametrize(
    ("flags", "targets"),
    [(["--agentv-workers=16"], TARGETS), varied([], TARGETS.replace("workers: 1", "workers: 16"), id="target")],
    ids=["flag", None],
)
def test_all_places_are_filled_when_xdist_hands_out_items_one_by_one(project, flags, targets):
    """xdist gives each worker five of 40 items at first, and two at a time when they take long."""
    write_agent(project, targets)
    prompts = {name: "say hello" if int(name[5:]) < 10 else "in_flight 16; say hello" for name in numbered(40, "")}
    write_cases(project, prompts)
    project.write("test_between.py", "def test_between():\n    pass\n")
    run = project.run("-n2", *flags, "a.eval.yaml", "test_between.py")
    assert run.outcomes == {"passed": 41}
    calls = read_calls(project.path)
    assert sorted(calls.started) == sorted(prompts)
    assert [each.most for each in calls.by_process] == [8, 8]


@pytest.mark.parametrize(("scope", "places"), [("function", ["1"]), ("session", ["4"])])
def test_workers_say_how_many_cases_they_may_have_in_flight(project, scope, places):
    """Cases that start at their own items only are queued as other tests are: workers are to end together."""
    project.write(
        "conftest.py",
        f"""
        import pytest

        @pytest.fixture(autouse=True, scope="{scope}")
        def server():
            pass

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_logreport(report):
            with open("places.txt", "a") as file:
                print(getattr(report, "agentv_places", ""), file=file)
            return (yield)
        """,
    )
    write_cases(project, numbered(20, "say hello"))
    run = project.run("-n2", "--agentv-workers=8")
    assert run.outcomes == {"passed": 20}
    assert (project.path / "places.txt").read_text().split()[-1:] == places


def test_all_places_are_filled_from_several_small_files(project):
    for number in range(16):
        write_cases(project, numbered(2, "in_flight 16; say hello", f"f{number}"), f"{number}.eval.yaml")
    run = project.run("-n2", "-v", "--dist=loadfile", "--agentv-workers=16")
    assert run.outcomes == {"passed": 32}
    assert "scheduling tests via LoadFileScheduling" in run.text
    calls = read_calls(project.path)
    assert len(calls.started) == len(set(calls.started)) == 32
    assert [each.most for each in calls.by_process] == [8, 8]


def test_a_scheduling_of_the_project_stays(project):
    project.write(
        "conftest.py",
        """
        from xdist.scheduler import LoadScheduling

        class Own(LoadScheduling):
            pass

        def pytest_xdist_make_scheduler(config, log):
            return Own(config, log)
        """,
    )
    write_cases(project, numbered(8, "say hello"))
    run = project.run("-n2", "-v", "--agentv-workers=4")
    assert run.outcomes == {"passed": 8}
    assert "scheduling tests via Own" in run.text


@pytest.mark.parametrize("flags", [varied([], id="load"), ["--maxschedchunk=1"]])
def test_the_name_of_the_scheduling_is_that_of_xdist(project, flags):
    write_cases(project, numbered(8, "say hello"))
    run = project.run("-n2", "-v", "--agentv-workers=4", *flags)
    assert run.outcomes == {"passed": 8}
    assert "scheduling tests via LoadScheduling" in run.text


@pytest.mark.kills
@pytest.mark.parametrize("dist", DISTRIBUTIONS)
def test_when_a_worker_dies_nothing_is_lost_and_nothing_that_was_finished_is_called_again(project, dist):
    prompts = {**numbered(7, word="one"), "one-5": "lines 13 out-1.jsonl; die_once mark; say hello"}
    write_cases(project, prompts, "one.eval.yaml")
    write_cases(project, numbered(7, word="two"), "two.eval.yaml")
    run = project.run("-n2", f"--dist={dist}", "--agentv-workers=6")
    # An item is blamed if the worker had begun it; else all cases are run again or known, and none is red.
    has_crashed = "crashed while running" in run.text
    assert run.exit_code == (pytest.ExitCode.TESTS_FAILED if has_crashed else pytest.ExitCode.OK)
    assert sorted(run.by_id) == [f"{word}-{number}" for word in ("one", "two") for number in range(7)]
    counts = Counter(read_calls(project.path).started)
    assert max(counts[eval_id] for eval_id in run.by_id if eval_id != "one-5") == 1
    # `load` and `worksteal` leave the item at that, the others give it to the next worker.
    crashed = run.by_id["one-5"]
    assert counts["one-5"] == (1 if crashed["status"] == "error" else 2)
    if crashed["status"] == "error":
        assert crashed["error"].endswith("crashed while running 'one.eval.yaml::one-5'")
        assert crashed["error_detail"] == {"stage": "setup", "kind": "crash"}
    assert f"Total eval cases: 14 ({13 + counts['one-5'] - 1} passed, 0 failed, {2 - counts['one-5']} error" in run.text
    assert not list(project.path.glob(".*.crashed"))


@pytest.mark.kills
@pytest.mark.parametrize("dist", DISTRIBUTIONS)
def test_a_worker_that_is_dead_when_xdist_gives_it_more_ends_no_run(project, dist):
    """The controller may read reports of a worker after its death, and answer them with more items."""
    project.write(
        "conftest.py",
        """
        import os, signal, time
        from pathlib import Path

        messages, killed = {}, Path("killed.txt")

        def pytest_sessionstart(session):
            worker = getattr(session.config, "workerinput", {}).get("workerid", "controller")
            Path(f"{worker}.pid").write_text(str(os.getpid()))

        def pytest_testnodeready(node):
            send = node.sendcommand

            def sendcommand(name, **kwargs):
                messages[node] = messages.get(node, 0) + (name != "shutdown")
                if messages[node] == 2 and not killed.exists():
                    killed.touch()
                    os.kill(int(Path(f"{node.gateway.id}.pid").read_text()), signal.SIGKILL)
                    while not node._down:
                        time.sleep(0.01)
                send(name, **kwargs)

            node.sendcommand = sendcommand
        """,
    )
    # `worksteal` sends a second message, the theft, when one worker has much left and the other nothing.
    prompts = {name: "sleep 0.1; say hello" if int(name[5:]) < 12 else "say hello" for name in numbered(24, "")}
    for start in range(0, 24, 4):
        write_cases(project, dict(list(prompts.items())[start : start + 4]), f"{start}.eval.yaml")
    run = project.run("-n2", f"--dist={dist}", "--agentv-workers=4")
    assert (project.path / "killed.txt").exists()
    assert run.exit_code == (
        pytest.ExitCode.TESTS_FAILED if "crashed while running" in run.text else pytest.ExitCode.OK
    )
    assert "INTERNALERROR" not in run.text
    assert sorted(run.by_id) == sorted(prompts)
    errors = [result["error"] for result in run.by_id.values() if result["status"] == "error"]
    assert len(errors) <= 1
    assert all("crashed while running" in error for error in errors)


@pytest.mark.kills
def test_cases_that_xdist_lost_with_a_worker_are_named(project):
    prompts = {"one-0": "say hello", "one-1": "end_of one-0; die_once mark", **numbered(8, word="two")}
    write_cases(project, prompts)
    run = project.run("-n1", "--max-worker-restart=0")
    assert run.statuses == {"one-0": "pass", "one-1": "error"}
    assert run.by_id["one-1"]["error"] == "worker 'gw0' crashed while running 'a.eval.yaml::one-1'"
    start = run.lines.index("8 cases were not run, because a worker crashed:")
    assert run.lines[start + 1 : start + 10] == [
        *(f"  a.eval.yaml::two-{number}" for number in range(8)),
        "Run them with --agentv-resume.",
    ]
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.kills
@pytest.mark.parametrize("dist", ["load", "loadfile", varied("worksteal")])
def test_a_run_without_workers_left_is_not_green(project, dist):
    """xdist ends it with 0 when a worker has told what it collected, and another one died meanwhile."""
    project.write(
        "conftest.py",
        """
        import os, signal, time
        from pathlib import Path

        def pytest_collection_modifyitems(config):
            if config.workerinput["workerid"] == "gw0":
                while not Path("collected").exists():
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)

        def pytest_xdist_node_collection_finished(node):
            Path("collected").touch()
        """,
    )
    write_cases(project, numbered(2))
    run = project.run("-n2", f"--dist={dist}", "--agentv-workers=2", "--max-worker-restart=0")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    start = run.lines.index("2 cases were not run, because a worker crashed:")
    assert run.lines[start + 1 : start + 3] == ["  a.eval.yaml::case-0", "  a.eval.yaml::case-1"]
    assert "--agentv-resume" not in run.text


@pytest.mark.parametrize("is_python", [False, True])
def test_a_worker_that_breaks_on_its_last_report_is_not_green(project, is_python):
    """xdist shows the error, and ends such a run with 0."""
    project.write(
        "conftest.py",
        """
        import os, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(report):
            if "PYTEST_XDIST_WORKER" in os.environ and report.nodeid.endswith("-2]") and report.when == "call":
                raise RuntimeError("a plugin that breaks")
        """.replace("-2]", "test_last" if is_python else "case-2"),
    )
    write_cases(project, numbered(3))
    if is_python:
        project.path.joinpath("a.eval.yaml").unlink()
        project.write(
            "test_a.py", "def test_last(agentv):\n    agentv.run('say hello', evaluators=[{'contains': 'x'}])\n"
        )
    run = project.run("-n1")
    assert any("INTERNALERROR" in line and "a plugin that breaks" in line for line in run.lines)
    assert run.exit_code == pytest.ExitCode.INTERNAL_ERROR


@pytest.mark.parametrize("dist", ["load", varied("loadfile")])
def test_a_failure_stops_all_workers_and_what_they_began_ahead(project, dist):
    prompts = numbered(80, "sleep 0.05; say hello")
    prompts["case-3"] = "sleep 0.1; say nothing"
    for start in range(0, 80, 4):
        write_cases(project, dict(list(prompts.items())[start : start + 4]), f"{start:02}.eval.yaml")
    run = project.run("-n2", "-x", f"--dist={dist}", "--agentv-workers=8")
    assert run.outcomes["failed"] == 1
    started = read_calls(project.path).started
    assert len(started) == len(set(started)) <= sum(run.outcomes.values()) + 8 + 2


def test_workers_may_have_any_ids(project):
    write_two_files(project, "in_flight 5; say hello")
    run = project.run("--tx=popen//id=alpha", "--tx=popen//id=beta", "--dist=loadfile", "--agentv-workers=5")
    assert run.outcomes == {"passed": 16}
    assert sorted(calls.most for calls in read_calls(project.path).by_process) == [2, 3]
