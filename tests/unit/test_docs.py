"""Each code block of the documentation is one that a test can hold to the code, and each link leads somewhere.

The conventions stand in `docs_pages`; the commands are run by `tests/acceptance/test_docs.py`.
"""

import ast
import configparser
import importlib
import json
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from docs_pages import GALLERY, INSTALLERS, PAGES, PROGRAMS, ROOT, Block, is_set_up, own_kinds, program, read_page

from pytest_agentv import __version__
from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.keys import Case, Suite, Table
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.tables import read_delimited
from pytest_agentv.cli.main import COMMANDS
from pytest_agentv.cli.validate import missing_kind
from pytest_agentv.evaluators.script import Proxy
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.source import read_yaml
from pytest_agentv.model.kind import spellings
from pytest_agentv.model.options import RUN_OPTIONS
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.table import KINDS
from pytest_agentv.targets.definitions import REFERENCE, Environment, load_targets_file
from pytest_agentv.targets.fields import CommonKeys, resolve_target

FLAGS: Final = {f"--agentv-{name}" for option in RUN_OPTIONS for name in (option.name, *option.aliases)}
INI_KEYS: Final = {f"agentv_{option.dest}" for option in RUN_OPTIONS if option.ini} | {
    "agentv_files",
    "agentv_gates",
    "agentv_exploration_tools",
    "agentv_ship_ignore",
}

CHECKED: Final = (*PAGES, *GALLERY, ROOT / "examples/README.md")
BLOCKS: Final = [block for page in CHECKED for block in read_page(page).blocks]
PAGE_IDS: Final = [str(page.relative_to(ROOT)) for page in CHECKED]
KUBERNETES: Final = "1.30"
"""The version of Kubernetes that manifests are checked for."""


@pytest.mark.parametrize("page", CHECKED, ids=PAGE_IDS)
def test_each_block_is_of_a_kind_that_is_checked(page: Path, tmp_path: Path) -> None:
    left_out = None
    for block in read_page(page).blocks:
        folder = tmp_path / str(block.line)
        folder.mkdir()
        try:
            CHECKS[block.language](block, folder)
        except pytest.skip.Exception as missing_package:
            left_out = missing_package
        except Exception as error:
            error.add_note(f"in the block {block.where}")
            raise
    if left_out is not None:
        raise left_out


def test_options_settings_and_commands_exist() -> None:
    text = "\n".join(page.read_text("utf-8") for page in CHECKED)
    flags = {flag for flag in re.findall(r"--agentv-[a-z-]*[a-z]", text) if flag not in FLAGS}
    keys = {key for key in re.findall(r"^(agentv_\w+) *=", text, re.MULTILINE) if key not in INI_KEYS}
    commands = set(re.findall(r"(?:^|`)agentv ([a-z]+)", text, re.MULTILINE)) - set(COMMANDS)
    assert (flags, keys, commands) == (set(), set(), set())


def test_links_lead_to_files_and_headings() -> None:
    for page in CHECKED:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)]+)\)", text):
            if target.startswith("https://"):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            assert path.exists(), f"{page}: {target}: there is no such file"
            if anchor:
                assert anchor in _anchors(path), f"{page}: {target}: there is no such heading"


@pytest.mark.parametrize("script", ["kind_tables.py", "checks_page.py"])
def test_the_tables_of_options_and_keys_are_those_of_the_code(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    assert runpy.run_path(str(ROOT / "scripts" / script))["main"]([]) is None


def test_each_spelling_of_a_key_and_each_provider_is_on_some_page() -> None:
    """The pages say once that each key may be written in camelCase."""
    pages = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    parts = [*map(EVALUATORS.__getitem__, EVALUATORS), Proxy, Suite, Case, Table]
    parts += [CommonKeys, *(KINDS.table[word] for word in KINDS.table)]
    keys = {
        key
        for part in parts
        for first, *others in spellings(part).values()
        for key in (first, *others)
        if key != re.sub(r"_(\w)", lambda found: found[1].upper(), first) or key == first
    }
    assert keys | {*KINDS.table, *KINDS.unsupported, *EVALUATORS} <= set(re.findall(r"[\w$-]+", pages))
    for text in ("`type: code`", "`type: rubric`", "`agentv --version`", "`--path FOLDER`", "camelCase"):
        assert text in pages


def test_other_spellings_are_shown_on_one_page_only() -> None:
    """The docs speak one dialect."""
    foreign = re.compile(
        r"^ *(?:- )?(?:evalcases|input_messages|expected_messages|execution|evaluators):", re.MULTILINE
    )
    shown = [block.where for block in BLOCKS if block.language == "yaml" and foreign.search(block.text)]
    assert [where for where in shown if not where.startswith(("docs/coming-from.md", "examples/"))] == []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("LLM as a judge", "evaluators"),
        ("hallucination", "rag"),
        ("Faithfulness", "rag"),
        ("groundedness", "rag"),
        ("multi-turn", "cases"),
        ("Quickstart", "start"),
    ],
)
def test_what_people_search_is_on_its_page(words: str, page: str) -> None:
    assert words in (ROOT / "docs" / f"{page}.md").read_text("utf-8")


def test_the_docs_stay_short() -> None:
    lines = {page: len(page.read_text("utf-8").splitlines()) for page in PAGES}
    assert sum(count for page, count in lines.items() if page.parent.name == "docs") <= 5000
    assert lines[ROOT / "README.md"] <= 150


def test_llms_txt_is_that_of_the_start_page() -> None:
    script = ROOT / "scripts/llms_txt.py"
    subprocess.run([sys.executable, script], check=True)


@pytest.mark.parametrize("index", ["docs/README.md", "mkdocs.yml"])
def test_each_page_can_be_found(index: str) -> None:
    text = (ROOT / index).read_text("utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in pages if not re.search(rf"[( ]{re.escape(name)}\b", text)] == []


def test_the_keys_of_results_are_all_explained() -> None:
    _, _, section = (ROOT / "docs/reference.md").read_text("utf-8").partition("## Fields of a result")
    explained = re.findall(r"`(\w+)`", section.partition("\n## ")[0])
    assert [key.name for key in fields(EvalResult) if key.name not in explained] == []


def test_the_changelog_has_the_version_of_the_package() -> None:
    versions = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert versions[0] == project["version"] == __version__


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_modules_that_are_named_exist(name: str) -> None:
    """By their path within the package, or from the root of the checkout."""
    text = (ROOT / name).read_text("utf-8")
    named = re.findall(r"`([a-z_]+(?:/[\w.]+)+|[a-z_]+/|[a-z_]+\.py)`", text)
    assert named
    assert [path for path in named if not ((ROOT / path).exists() or (ROOT / "pytest_agentv" / path).exists())] == []


@cache
def _anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_sh(block: Block, _folder: Path) -> None:
    assert block.commands
    for command in block.commands:
        known = not block.is_run or is_set_up(command) or program(command) in PROGRAMS
        assert known, f"{command}: expected one of {', '.join((*PROGRAMS, *INSTALLERS))}"


def check_text(block: Block, _folder: Path) -> None:
    if not block.is_run:
        return
    before = [other for other in BLOCKS if other.page == block.page and other.line < block.line]
    assert before, "shows the output of nothing"
    shell = next((other for other in reversed(before) if other.language != "text"), None)
    assert shell is not None
    assert shell.language == "sh", "no command above it could print this"


def check_json(block: Block, _folder: Path) -> None:
    assert isinstance(json.loads(block.text), dict | list)


def check_jsonl(block: Block, _folder: Path) -> None:
    assert block.name is not None, "a dataset names its file"
    for line in block.text.splitlines():
        keys = set(json.loads(line))
        assert "id" in keys or {"eval_id", "label"} <= keys, "a case, or a label"


def check_toml(block: Block, _folder: Path) -> None:
    settings = tomllib.loads(block.text)
    assert block.name == "pyproject.toml"
    assert settings["tool"]["pytest"]


def check_ini(block: Block, _folder: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    if block.name == ".env":
        assert all(re.match(r"#|[A-Z][A-Z0-9_]*=", line) for line in block.text.splitlines())
    else:
        parser.read_string(block.text)
        assert parser.sections()


def check_python(block: Block, _folder: Path) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_agentv"):
            module = importlib.import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def check_brackets(block: Block, _folder: Path) -> None:
    """Of languages that nothing here can read; JavaScript is run as a judge."""
    assert block.name is not None
    for opening, closing in ("{}", "[]", "()"):
        assert block.text.count(opening) == block.text.count(closing)


def check_markdown(block: Block, _folder: Path) -> None:
    assert block.name is not None


def check_yaml(block: Block, folder: Path) -> None:
    path = folder / "block.yaml"
    path.write_text(block.text, "utf-8")
    data = read_yaml(path).value
    name = block.name or ""
    if name.startswith(".github/") or name == ".gitlab-ci.yml":
        check_workflow(data)
        check_schema(path, "gitlab-ci" if name.endswith("-ci.yml") else "github-workflows")
    elif name.startswith("dask/"):
        assert set(data) == {"distributed"}  # tests/clusters/test_encrypted.py runs a cluster with it
    elif name in ("promptfooconfig.yaml", "agentv5.yaml"):  # of other tools
        assert {"prompts", "providers", "tests"} <= set(data)
    elif "targets" in data:
        check_targets(block, folder)
    elif "guideline_patterns" in data:
        assert set(data) <= {"$schema", "guideline_patterns"}
    elif block.name is None:
        check_cases(block, data, folder)
    else:
        assert re.search(r"\.eval\.ya?ml$|^evals/.*\.ya?ml$", name), f"{name} is no eval file, targets or config file"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples/machines/kubernetes").glob("*.yaml")), ids=lambda path: path.stem
)
def test_manifests_are_those_of_kubernetes(path: Path) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate")
    kubernetes.validate(dict(read_yaml(path).value), KUBERNETES, strict=True)


def test_scripts_of_machines_are_valid(tmp_path: Path) -> None:
    for path in (ROOT / "examples/machines").glob("*.s*"):
        check_bash(Block(path, 1, "bash", path.read_text("utf-8"), ""), tmp_path)


def check_schema(path: Path, schema: str) -> None:
    """Check a file against a JSON Schema that check-jsonschema brings along, with click."""
    checker, testing = pytest.importorskip("check_jsonschema"), pytest.importorskip("click.testing")
    finished = testing.CliRunner().invoke(checker.main, ["--builtin-schema", f"vendor.{schema}", str(path)])
    assert finished.exit_code == 0, finished.output


def check_bash(block: Block, folder: Path) -> None:
    path = folder / "block.sh"
    path.write_text(block.text, "utf-8")
    subprocess.run(["bash", "-n", path], check=True)
    shellcheck = shutil.which("shellcheck", path=sysconfig.get_path("scripts"))
    if shellcheck is not None:
        finished = subprocess.run([shellcheck, path], capture_output=True, encoding="utf-8", check=False)
        assert finished.returncode == 0, finished.stdout


def check_workflow(data: Mapping[Any, Any]) -> None:
    """Each command is one that exists."""
    jobs = data["jobs"] if "on" in data else {key: job for key, job in data.items() if isinstance(job, dict)}
    for job in jobs.values():
        steps = [step["run"] for step in job.get("steps", ()) if "run" in step]
        lines = [line for text in (*steps, *job.get("script", ())) for line in text.splitlines()]
        assert lines or "steps" in job or "script" not in job
        for line in lines:
            assert is_set_up(line) or program(line) in PROGRAMS, line


def kinds_of(block: Block, hook: str) -> dict[str, Any]:
    """Return what takes the place of the kinds that the page defines."""
    return {word: missing_kind(hook, word) for word in own_kinds(block.page.read_text("utf-8"))}


def check_targets(block: Block, folder: Path) -> None:
    """Load the targets without a warning, and fill in every variable that they name."""
    path = folder / "targets.yaml"
    path.write_text(block.text, "utf-8")
    file = load_targets_file(path, KINDS.with_own(kinds_of(block, "pytest_agentv_providers")))
    assert file.warnings == ()
    variables = {name: f"https://{name.lower()}.invalid" for name in REFERENCE.findall(block.text)}
    for definition in file.definitions:
        resolve_target(file, definition, Environment(variables), folder, Masker())


def check_cases(block: Block, data: Mapping[str, Any], folder: Path) -> None:
    """Load a fragment: cases, evaluators, or keys of one case. Prompts of judges and attachments stand in."""
    path, text = folder / "fragment.eval.yaml", block.text
    if "cases" not in data:
        case = "id: a\ncriteria: b\ninput: c\n"
        text = "cases:\n  -\n" + _indent(
            text + "".join(f"{line}\n" for line in case.splitlines() if line.partition(":")[0] not in data)
        )
    path.write_text(text, "utf-8")
    for name in re.findall(r"[\w/-]+\.(?:md|csv|txt)", text):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("Is {{ candidate_answer }} good?", "utf-8")
    for name in re.findall(r"[\w/-]+\.(?:png|pdf)", text):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"%PDF-1.7\n" if name.endswith(".pdf") else b"\x89PNG\r\n\x1a\n")
    suite = read_suite(path)
    assert suite.problems == ()
    evaluators = EVALUATORS.with_own(kinds_of(block, "pytest_agentv_evaluators"))
    for entry in suite.entries:
        assert load_case(suite, entry, LoadContext(folder, folder, evaluators=evaluators)).warnings == ()


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def check_csv(block: Block, folder: Path) -> None:
    path = folder / "table.csv"
    path.write_text(block.text)
    assert [row.fault for row in read_delimited(path) if row.fault] == []


CHECKS: Final[Mapping[str, Callable[[Block, Path], None]]] = {
    "bash": check_bash,
    "csv": check_csv,
    "groovy": check_brackets,
    "ini": check_ini,
    "javascript": check_brackets,
    "json": check_json,
    "jsonl": check_jsonl,
    "markdown": check_markdown,
    "python": check_python,
    "sh": check_sh,
    "text": check_text,
    "toml": check_toml,
    "yaml": check_yaml,
}
