"""What user code prints while several cases are in flight: each print in the report of its case, masked."""

import re
from collections import Counter

import pytest
from thorough import tries, varied

SECRET = "sk-live-Zq9xVb7Tk4Lm2Rw8Pq5"  # no real one

TELL = """
import os, sys, time

def tell(place, case):
    time.sleep(0.001 * (case % 5))
    key = os.environ["SHOP_API_KEY"]
    for stream in (sys.stdout, sys.stderr):
        print(place, "calls the shop with", key, file=stream)
        for part in (key[:9], key[9:], ":", ":error::by the model\\n"):
            stream.write(part)
        print("\\n::error file=x::by the model", file=stream)
        print(f"MARK-{place}-{case}-END", file=stream)
"""
FILES = {
    "tell.py": TELL,
    "agent.py": """
        import asyncio, json
        from tell import tell

        def number(prompt):
            return int(prompt.split()[-1])

        def answer(prompt):
            tell("target", number(prompt))
            return "no"

        async def app(scope, receive, send):
            if scope["type"] == "http":
                case = number(json.loads((await receive())["body"])["prompt"])
                await asyncio.to_thread(tell, "target", case)
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"no"})
    """,
    "checks.py": """
        from tell import tell

        def check(case):
            tell("check", int(case.eval_id.partition("-")[2]))
            return False
    """,
    "conftest.py": """
        import sys
        from pathlib import Path
        sys.path.insert(0, str(Path(__file__).parent))
        from tell import tell

        def number(case):
            return int(case.eval_id.partition("-")[2])

        def pytest_agentv_case(case):
            tell("before", number(case))

        def pytest_agentv_response(case):
            tell("response", number(case))

        def pytest_agentv_result(case):
            tell("result", number(case))
    """,
    "targets.yaml": """
        targets:
          - {name: default, provider: python, callable: "agent.py:answer"}
          - {name: app, provider: asgi, app: "agent.py:app", path: /}
    """,
    "test_asks.py": """
        from concurrent.futures import ThreadPoolExecutor
        import pytest

        @pytest.mark.parametrize("number", range(COUNT, COUNT + COUNT // 5))
        def test_asks(agentv, number):
            def ask(name):
                return agentv.run(f"n {number}", id=f"{name}-{number}", evaluators=[{"python": "checks.py:check"}])

            with ThreadPoolExecutor(2) as threads:
                results = [*threads.map(ask, ["p", "q"])]
            assert all(result.passed for result in results)
    """,
}
PLACES = ("before", "target", "response", "check", "result")
MODES = {
    "one": ("--agentv-workers=1",),
    "two": ("--agentv-workers=2",),
    "eight": ("--agentv-workers=8",),
    "xdist": ("-n", "2", "--agentv-workers=8"),
    "sys": ("--agentv-workers=8", "--capture=sys"),
    "tee": ("--agentv-workers=8", "--capture=tee-sys"),
    "live": ("--agentv-workers=8", "-s"),
}
HEAD = re.compile(r"_+ (?:ERROR: [\w ]+: )?(?:c-|test_asks\[)(\d+)\]? _+")


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "live")) if name in ("eight", "live") else varied(name)
        for name in MODES
    ],
)
@pytest.mark.parametrize("count", [tries(30, 150)])
def test_prints_of_cases_in_flight_are_masked_and_in_their_own_reports(project, monkeypatch, mode, count):
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name, text in FILES.items():
        project.write(name, text.replace("COUNT", str(count)))
    cases = [
        f"  - {{id: c-{n}, input: n {n}, execution: {{target: {('default', 'app')[n % 2]}}}}}" for n in range(count)
    ]
    project.write("a.eval.yaml", "\n".join(['evaluators: [{python: "checks.py:check"}]', "evalcases:", *cases]))
    planned = {str(n): 2 if n < count else 4 for n in range(count + count // 5)}
    """How often each place prints a mark, by case: on both streams, and a test asks two of its own."""
    for _ in range(tries(1, 20)):
        run = project.run(*MODES[mode], subprocess=True)
        assert (run.outcomes, run.internals) == ({"failed": len(planned)}, [])
        assert [line for line in run.lines if SECRET in line or SECRET[9:] in line] == []
        assert [line for line in run.lines if re.search(r"(?<!\S)::\w+.*by the model", line)] == []
        section, own, foreign = None, Counter(), []
        for line in run.lines:
            if (head := HEAD.fullmatch(line)) or line.startswith("="):
                section = head and head[1]
            for place, number in re.findall(r"MARK-(\w+)-(\d+)-END", line):
                if section == number or mode == "live":
                    own[place, number] += 1
                elif mode != "tee" or section is not None:  # printed at the case's turn as well
                    foreign.append(line)
        assert foreign == []
        assert own == {(place, number): times for place in PLACES for number, times in planned.items()}


def test_what_a_test_captures_itself_comes_as_without_the_plugin(project, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    project.write("agent.py", "def answer(prompt):\n    print('from the target')\n    return 'yes'\n")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write(
        "test_asks.py",
        f"""
        import pytest

        @pytest.mark.parametrize("name", ["capsys", "capfd"])
        def test_asks(agentv, request, name):
            own = request.getfixturevalue(name)
            print("before", {SECRET!r})
            agentv.run("q", evaluators=[{{"contains": "yes"}}])
            assert own.readouterr().out == "before {SECRET}\\nfrom the target\\n"
        """,
    )
    assert project.run().outcomes == {"passed": 2}
    assert project.run("-s").outcomes == {"passed": 2}
