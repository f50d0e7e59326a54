"""What is checked with every version and every neighbour; the docstrings are what the table calls the checks."""

from collections.abc import Callable, Mapping
from typing import Final

from compatibility_bench import NOT_PASSED, OUTCOMES, Bench, CheckError, Finished

Check = Callable[[Bench], None]
"""Raises `CheckError`, or passes."""


def expect(found: object, expected: object, what: str) -> None:
    """Raises `CheckError` where two values differ; of mappings it tells the entries that do."""
    if found == expected:
        return
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        differing = {key for key in {*found, *expected} if found.get(key) != expected.get(key)}
        expected, found = ({key: side[key] for key in differing if key in side} for side in (expected, found))
    raise CheckError(f"{what}: expected {expected!r}, found {found!r}")


def expect_usual(run: Finished, what: str = "outcomes") -> None:
    """Every case of the project ended as it should, and once."""
    expect(run.outcomes, dict(OUTCOMES), what)
    expect(run.exit_code, 1, "exit code")


def expect_one_call_each(run: Finished) -> None:
    """The agent was asked once for each case but the one that names a missing file, and each has one record."""
    words = [name.split(maxsplit=1)[0] for name in OUTCOMES]
    expect(sum(run.calls.values()), len(words) - 1, "calls of the agent")
    expect(sorted(record["node_id"] for record in run.results), sorted(map(node_id, OUTCOMES)), "records")


def node_id(name: str) -> str:
    return f"evals/qa.eval.yaml::{name}"


def check_collection(bench: Bench) -> None:
    """Collect."""
    exit_code, text = bench.run_plain("--collect-only", "-q", "evals")
    expect(exit_code, 0, "exit code")
    listed = sorted(line for line in text.splitlines() if "::" in line)
    expect(listed, sorted(map(node_id, OUTCOMES)), "node ids that --collect-only lists")


def check_outcomes(bench: Bench) -> None:
    """Outcomes, `--junitxml`."""
    run = bench.run()
    expect_usual(run)
    expect_one_call_each(run)
    expect(run.items["test_one", "passed"], 1, "the Python test beside the cases")
    for name, outcome in OUTCOMES.items():
        shown = {"error": "ERROR", "failed": "FAILED"}.get(outcome)
        if shown and f"{shown} {node_id(name)} - " not in run.text:
            raise CheckError(f"the short summary has no line {shown} {node_id(name)}")


def check_last_failed(bench: Bench) -> None:
    """`--lf`."""
    bench.run()
    again = bench.run("--lf")
    expect(set(again.outcomes), set(NOT_PASSED), "cases that --lf ran")
    expect(len(again.results), len(NOT_PASSED), "records of --lf")


def check_workers(bench: Bench) -> None:
    """`-n 2`."""
    run = bench.run("-n", "2", "--agentv-workers=4")
    expect_usual(run)
    expect_one_call_each(run)
    expect(set(bench.run("-n", "2", "--lf").outcomes), set(NOT_PASSED), "cases that -n 2 --lf ran")


def check_selection(bench: Bench) -> None:
    """Node ids, `--deselect`, `-k`."""
    names = ["m(gpt)", "two words", "日本 ü", "a:b", "a b"]
    run = bench.run(*map(node_id, names))
    expect(run.outcomes, {name: OUTCOMES[name] for name in names}, "cases chosen by node id")
    rest = bench.run("evals", *(f"--deselect={node_id(name)}" for name in names))
    expect(set(rest.outcomes), set(OUTCOMES) - set(names), "cases left by --deselect")
    expect(set(bench.run("-k", "gpt or raises").outcomes), {"m(gpt)", "raises"}, "cases chosen by -k")


def check_switched_off(bench: Bench) -> None:
    """`-p no:agentv`."""
    exit_code, text = bench.run_plain("-p", "no:agentv", "-v")
    expect(exit_code, 0, "exit code")
    if "test_python.py::test_one PASSED" not in text or "eval.yaml" in text or "EVALUATION" in text:
        raise CheckError("-p no:agentv: more, or less, than the Python tests ran")
    _expect_nothing_written(bench)


def check_python_only(bench: Bench) -> None:
    """A run without evals."""
    exit_code, text = bench.run_plain("test_python.py")
    expect(exit_code, 0, "exit code")
    if "EVALUATION" in text or "Agentv" in text:
        raise CheckError("evaluations are spoken of in a run without any")
    _expect_nothing_written(bench)


def check_lists(bench: Bench) -> None:
    """`--help`, `--fixtures`, `--markers`."""
    for flag in ("--help", "--fixtures", "--markers"):
        exit_code, text = bench.run_plain(flag)
        expect(exit_code, 0, f"exit code of {flag}")
        if flag == "--help" and "--agentv-target=NAME" not in text:
            raise CheckError("--help does not name --agentv-target")


COMMON_CHECKS: Final[tuple[Check, ...]] = (
    check_collection,
    check_outcomes,
    check_last_failed,
    check_workers,
    check_selection,
    check_switched_off,
    check_python_only,
    check_lists,
)


def title(check: Check) -> str:
    text = (check.__doc__ or check.__name__).removesuffix(".")
    return text[0].lower() + text[1:]


def _expect_nothing_written(bench: Bench) -> None:
    written = [path.name for path in bench.folder.rglob(".agentv")]
    expect(written, [], "folders that were written")
