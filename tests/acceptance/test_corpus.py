"""Each folder of `tests/corpus` is a small project, the commands that a user types there, and what comes out.

`run.txt` holds the command lines, each with the exit code after `->`; `cd` alone goes to a folder of the project. Lines
that begin with `#` say what the folder shows; the line `# slow` before them leaves it to runs with `-m slow`. What
comes out is compared with `expected.txt` (what a person sees), `expected.jsonl` (the records of the results files) and
each file of `expected/` (another output of the same path).
`pytest tests/acceptance/test_corpus.py --update-corpus -k NAME` writes all of these anew: read the diff.

`env.txt` sets variables of the environment (`NAME=VALUE`). `server.yaml` scripts the replies of a model server
(`NAME: [Reply fields]`, see `fake_llm.records`), whose address is in `FAKE_LLM`; what it was asked is in
`requests.jsonl` afterwards, with the headers in `headers.jsonl`.
"""

import base64
import difflib
import gzip
import html
import json
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
import warm
import yaml
from fake_llm import FakeLlm, Reply, Request, ToolCall

from .conftest import OTHER_PLUGINS

CORPUS = Path(__file__).parent.parent / "corpus"
UNMENTIONED = re.compile(
    r"^(platform |cachedir: |rootdir: |configfile: |plugins: |hypothesis profile |-- Docs: "
    r"|created: |\d+ workers? |gw\d+ |INTERNALERROR>(?! \w+Error:)|\d+ cases one after another, )"
)
"""Lines that differ from machine to machine: pytest's own, and the hint of a run that took long."""
VOLATILE = {"timestamp", "run_id", "duration_ms", "waited_ms", "schema_version", "eval_file", "line_hash", "pid"}
CHANGES = tuple(
    (re.compile(pattern, re.MULTILINE), new, word)
    for word, pattern, new in (
        ("T", r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "TIME"),
        ("T", r"\b\d{8}T\d{6}-[0-9a-f]{8}\b", "RUN"),
        ("/agentv-", r"/[^\s'\"]*/agentv-([\w-]+)-[a-z0-9_]{8}(?![a-z0-9_])", r"$TEMP/agentv-\1"),
        ("_attempt-", r"(_attempt-\d+_)[0-9a-f]{8}\b", r"\1HASH"),
        ("127.0.0.1:", r"\b127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (" s", r"\b(attempts?, |call \d+, |exit code \d+ after |p50 |p95 )\d+(?:\.\d+)? s\b", r"\1N ms"),
        (" ms", r"\b\d+(?:\.\d+)? ms\b", "N ms"),
        # the fingerprint of a judge, which holds the port of the server
        ('"judge"', r'("judge": ?"[^"@\n]*)@[^"\n]*"', r'\1@…"'),
        ("quoted-", r"\bquoted-[0-9a-f]{16}\b", "quoted-…"),
        ("file:///", r"file:///\S*/pytest_agentv/", "file://$PACKAGE/"),
        # a class, wherever its module is
        ("pytest_agentv.", r"\bpytest_agentv(?:\.[a-z_]+)+\.(?=[A-Z])", "pytest_agentv."),
        ("Time:", r"^(Time: +).*", r"\1N"),
        ("  ", r" {2,}(?:N ms|\d+(?:\.\d+)? s)\*?(?=  |$)", "  N ms"),  # a column of a table
        # those of plugins and of pytest's version
        ("available fixtures", r"available fixtures: [\w, ]+", "available fixtures: …"),
        ("...", r" /\S+\.\.\.$", " /…"),  # a path that pytest cuts, in a folder of any name
        # the place of a warning that no file of the project causes, and of a line of a log
        ("/pytest_agentv/", r"\S*/pytest_agentv/\S+\.py:\d+", "PLUGIN"),
        ("pytest_agentv", r"\bpytest_agentv[\w.]+:\w+\.py:\d+", "PLUGIN"),
        ("in ", r"\bin \d+\.\d+s(?: \([\d:]+\))?", "in N s"),
        ("", r"^([=_-])\1{2,} (.*?) \1+$", r"\1\1\1 \2 \1\1\1"),
        ('="', r'(time|timestamp|hostname|agentv_(?:duration|latency)_ms" value)="[^"\n]*"', r'\1="…"'),
        ('"', r'"[0-9a-f]{12,64}"', '"HASH"'),
        ("Made ", r"\bMade \d{4}-\d\d-\d\d \d\d:\d\d\b", "Made TIME"),  # the foot of an HTML report
        ("waiting", r"\b\d+\.\d s of waiting\b", "N s of waiting"),
        (" MB)", r"\(\d+\.\d\d MB\)", "(N MB)"),
        ("| ", r"^(\| .* \|) [\d.]+ m?s \|$", r"\1 N |"),
    )
)
"""What differs from run to run, what stands for it, and a text that is in all of it."""


def folders() -> list[Any]:
    """Return the names of all folders, those of slow ones with the marker."""
    found = sorted(CORPUS.glob("*/run.txt"))
    return [
        pytest.param(
            path.parent.name, marks=[pytest.mark.slow] if path.read_text("utf-8").startswith("# slow\n") else []
        )
        for path in found
    ]


@pytest.mark.parametrize("name", folders())
def test_a_folder_of_the_corpus_gives_what_is_expected(
    name: str, unrecorded: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    source, project = CORPUS / name, unrecorded.path
    shutil.copytree(
        source, project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("run.txt", "expected*", "__pycache__")
    )
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delitem(sys.modules, "litellm", raising=False)  # another test's: prices would come from it
    for variable, value in read_variables(source / "env.txt"):
        monkeypatch.setenv(variable, value.replace("$PROJECT", str(project)))
    seen: list[str] = []
    place, asked = project, list[tuple[Path, str]]()
    commands = [line for line in (source / "run.txt").read_text("utf-8").splitlines() if line and line[0] != "#"]
    remembers = any(re.search(r" (--lf|--ff|--sw|ls -A)\b", f" {line}") for line in commands)
    with model_server(source / "server.yaml", project, monkeypatch):
        for line in commands:
            command, _, expected_code = line.partition(" -> ")
            words, _, most = command.partition(" | head -n ")
            if words.startswith("cd "):
                place = project / words[3:]
                monkeypatch.chdir(place)
                seen += [f"$ {command}", ""]
                continue
            asked.append((place, command))
            code, text = run(shlex.split(words), project, place, unrecorded, remembers=remembers)
            seen += [f"$ {command} -> {code}", *shown(text, project, words)[: int(most or 0) or None], ""]
            assert str(code) == expected_code.strip(), text
    made = {"expected.txt": "\n".join(seen)}
    if (records := "".join(f"{line}\n" for line in read_records(asked, project))) or (
        source / "expected.jsonl"
    ).exists():
        made["expected.jsonl"] = records
    for path in (source / "expected").rglob("*") if (source / "expected").is_dir() else ():
        if path.is_file():
            output = project / path.relative_to(source / "expected")
            assert output.is_file(), f"{output} was not written"
            made[str(path.relative_to(source))] = "\n".join(replaced(read_output(output), project))
    if request.config.getoption("--update-corpus"):
        for path_name, text in made.items():
            (source / path_name).write_text(text, encoding="utf-8")
    for path_name, text in made.items():
        expected = source / path_name
        before = expected.read_text("utf-8") if expected.exists() else ""
        changes = list(difflib.unified_diff(before.split("\n"), text.split("\n"), "expected", path_name, lineterm=""))
        assert not changes, "\n".join(changes)


def run(words: list[str], project: Path, place: Path, pytester: pytest.Pytester, *, remembers: bool) -> tuple[int, str]:
    """Run a command of a user in a folder of the project. pytest runs in this process, unless it starts workers."""
    others = [*OTHER_PLUGINS, *without(("rerunfailures", "timeout", "teamcity", "freeze_support", "terminalprogress"))]
    others += [] if any(word.startswith("--setup") for word in words) else without(("setuponly", "setupplan"))
    others += [] if remembers else without(("cacheprovider", "stepwise"))
    words = [word.replace("$PROJECT", str(project)) for word in words]
    if words[0] == "pytest" and "-n" not in words:
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # this checkout's own run makes them errors; a user's does not
            finished = pytester.runpytest_inprocess(*others, *words[1:])
        return int(finished.ret), "\n".join([*finished.outlines, *finished.errlines])
    environment = {**warm.environment_of_a_user(), "PYTEST_ADDOPTS": shlex.join(others)}
    installed = Path(sys.executable).parent / words[0]  # else it is a command of the system, such as `cat`
    program = [sys.executable, "-m", "pytest"] if words[0] == "pytest" else [str(installed)]
    program = program if installed.exists() else words[:1]
    forked = warm.run(
        [*program, *words[1:]], cwd=place, env=environment, stdin=DEVNULL, capture_output=True, encoding="utf-8"
    )
    return forked.returncode, forked.stdout + forked.stderr


def without(plugins: tuple[str, ...]) -> list[str]:
    """Return the flags that leave out plugins: a short run takes a tenth longer with those that no command asks for."""
    return [word for name in plugins for word in ("-p", f"no:{name}")]


def shown(text: str, project: Path, command: str) -> list[str]:
    """Return the lines that a person sees, without what differs from run to run.

    The statistics of a summary stand only where somebody asks for them: with `-v` and in `agentv eval`.
    """
    if "--help" in command:  # versions of Python lay it out differently
        text = re.sub(r"^  (-\w) \S+, --", r"  \1, --", re.sub(r"\n {5,}", " ", text), flags=re.MULTILINE)
        text = re.sub(r" {2,}", " ", text)
    lines = [line for line in replaced(text.splitlines(), project) if not UNMENTIONED.match(line)]
    if " -n " in command:  # the order in which workers end
        lines = lines[-1:]
    elif command.startswith("pytest") and "-v" not in command.split():
        lines = list(without_statistics(lines))
    while lines and not lines[-1]:
        del lines[-1]
    return lines


def without_statistics(lines: Iterable[str]) -> Iterator[str]:
    leaving_out = False
    for line in lines:
        leaving_out = line.startswith("Mean score:") or (
            leaving_out and bool(re.match(r"[A-Z].*:\s|[A-Z].*:$|  ", line))
        )
        leaving_out = leaving_out and not line.startswith(("Results written", "Warning"))
        if not leaving_out:
            yield line


def read_output(path: Path) -> list[str]:
    """Return the lines of an output: of XML a tag each, of an HTML report its words and what it says of each case."""
    text = path.read_text("utf-8")
    if path.suffix == ".html" and "<body" in text:
        packed = re.findall(r'<script type="text/plain" id="d\d+">([^<]*)</script>', text)
        cases = [case for block in packed for case in json.loads(gzip.decompress(base64.b64decode(block)))]
        body = re.sub(r"<(script|style|template|svg)\b.*?</\1>", "", text[text.index("<body") :], flags=re.DOTALL)
        words = re.sub(r"(<[^>]*>\s*)+", "\n", body).strip().split("\n")
        return [*map(html.unescape, words), *(json.dumps(told(case), ensure_ascii=False) for case in cases), ""]
    return (text.replace("><", ">\n<") if path.suffix == ".xml" else text).split("\n")


def replaced(lines: Iterable[str], project: Path) -> list[str]:
    text = "\n".join(line.rstrip() for line in lines)
    for old, new in ((str(project), "$PROJECT"), (project.name, "PROJECT"), (sys.executable, "python")):
        text = text.replace(old, new)
    for pattern, new, word in CHANGES:
        if word in text:
            text = pattern.sub(new, text)
    return text.split("\n")


def read_records(asked: list[tuple[Path, str]], project: Path) -> Iterator[str]:
    """Return the lines of all results files: those of the usual folder, and those that a flag names."""
    flags = [
        (place, word)
        for place, command in asked
        for word in shlex.split(command)
        if re.match(r"--(agentv-)?out=.*\.jsonl", word)
    ]
    named = [place / flag.partition("=")[2].replace("$PROJECT", str(project)) for place, flag in flags]
    places = dict.fromkeys(place for place, _ in asked)
    usual = [path for place in places for path in sorted((place / ".agentv/results").glob("*.jsonl"))]
    for path in [*usual, *dict.fromkeys(named)]:
        if path.is_file():
            lines = path.read_text("utf-8").splitlines()
            records = [json.loads(line) for line in replaced(lines, project) if re.match(r"\{.*\}$", line)]
            for record in sorted(records, key=lambda record: str(record.get("node_id"))):
                yield json.dumps(told(record), ensure_ascii=False)


def told(value: Any) -> Any:
    """Return plain data without what is empty or differs from run to run."""
    if isinstance(value, dict):
        kept = {key: told(item) for key, item in value.items() if key not in VOLATILE and not key.endswith("_hash")}
        empty = (None, [], {}, *([0] if "cost_known" in value else []))  # what calls took: most report nothing
        return {key: item for key, item in kept.items() if item not in empty}
    return [told(item) for item in value] if isinstance(value, list) else value


def read_variables(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [(name, value) for name, _, value in (line.partition("=") for line in lines if line and line[0] != "#")]


@contextmanager
def model_server(path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not path.exists():
        yield
        return
    with FakeLlm() as server:
        for name, replies in yaml.safe_load(path.read_text("utf-8")).items():
            server.script(name, *map(as_reply, replies))
        monkeypatch.setenv("FAKE_LLM", server.url)
        yield
        asked = [{"script": each.script, "path": each.path, "body": each.body} for each in server.requests]
        heads = [
            {"script": each.script, "query": each.query, "headers": told_headers(each)} for each in server.requests
        ]
    for name, values in (("requests.jsonl", asked), ("headers.jsonl", heads)):
        lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in values)
        (project / name).write_text(lines, encoding="utf-8")


def told_headers(request: Request) -> dict[str, str]:
    usual = ("host", "user-agent", "accept-encoding", "connection", "content-length")
    return {name: value for name, value in sorted(request.headers.items()) if name not in usual}


def as_reply(fields: dict[str, Any]) -> Reply:
    calls = tuple(ToolCall(**call) for call in fields.get("calls", ()))
    return Reply(**{**fields, "calls": calls})
