"""The code blocks of the documentation, and the conventions by which tests know what to do with them.

Each page is a project of its own, in page order:

- A block that names its file is written there. The name stands in a comment on its first line (`# evals/a.eval.yaml`,
  `// judges/a.mjs`), or, where a format has no comments, at the end of the line above: "The dataset, `a.eval.jsonl`:".
- An `sh` block is run, line by line; `<!-- exit: 1 -->` above it says how its last line ends. Lines that install
  something are not run.
- A `text` block shows what the commands above it print: the same lines, one after another, `…` for anything left out.
- A `json` block without a name is a part of a record that the page's runs write, `…` in its texts for anything.
- Other blocks without a name are fragments that must be valid: targets, cases, evaluators, Python, settings.
- `<!-- not run: reason -->` above a block keeps it from being run; its options and commands must exist all the same.
"""

import re
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = tuple(sorted((ROOT / "docs").glob("*.md"))) + tuple(
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
)

GALLERY: Final = tuple(sorted((ROOT / "examples").glob("*/README.md")))
"""Pages about examples. Their commands run in the root of the checkout."""

PROGRAMS: Final = ("pytest", "agentv", "python", "python3", "cat")
"""What `sh` blocks may run."""

INSTALLERS: Final = ("pip", "npm", "git", "uv")

_FENCE: Final = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NAME_ABOVE: Final = re.compile(r"`([\w./-]+\.\w+)`[^`\n]*:$")
_NAME_WITHIN: Final = re.compile(r"^(?:#|//) ([\w./-]*\.[\w.-]+|Jenkinsfile)$")
_NAMELESS: Final = ("sh", "text")
_EXIT: Final = re.compile(r"<!-- exit: (\d) -->")
_NOT_RUN: Final = "<!-- not run: "


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Of the fence."""
    language: str
    text: str
    heading: str
    above: tuple[str, ...] = ()
    """The last line of text above, and the comments between."""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def name(self) -> str | None:
        """Path of the file that the block is."""
        if self.language in _NAMELESS:
            return None
        within = _NAME_WITHIN.match(self.text.partition("\n")[0])
        if within:
            return within[1]
        above = [line for line in self.above if not line.startswith("<!--")]
        named = (
            _NAME_ABOVE.search(above[-1])
            if above and self.language in ("bash", "csv", "json", "jsonl", "markdown")
            else None
        )
        return named[1] if named else None

    @property
    def exit_code(self) -> int:
        found = [_EXIT.fullmatch(line) for line in self.above]
        return next((int(match[1]) for match in found if match), 0)

    @property
    def is_run(self) -> bool:
        return not any(line.startswith(_NOT_RUN) for line in self.above)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of an `sh` block, comments left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        commands = (re.split(r"(?:^|\s+)#\s", line)[0].strip() for line in lines)
        return tuple(command for command in commands if command)


@dataclass
class Page:
    """A page and its blocks, in order."""

    path: Path
    text: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def has_something_to_do(self) -> bool:
        """Whether there are files to write, or commands to run."""
        return any(
            block.name or (block.is_run and not all(map(is_set_up, block.commands)))
            for block in self.blocks
            if block.name or block.language == "sh"
        )


def read_page(path: Path) -> Page:
    page = Page(path, path.read_text("utf-8"))
    for match in _FENCE.finditer(page.text):
        before = page.text[: match.start()]
        indent = len(match[1])
        page.blocks.append(
            Block(
                path,
                before.count("\n") + 1,
                match[2].strip(),
                "".join(line[indent:] if line.strip() else line for line in match[3].splitlines(keepends=True)),
                (re.findall(r"^#+ (.*)$", _without_blocks(before), re.MULTILINE) or [""])[-1],
                _lines_above(before),
            )
        )
    return page


def added_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of providers and evaluators that the hooks in a page's Python add."""
    hooks = re.findall(r"def pytest_agentv_(?:providers|evaluators)\(\).*?return \{(.*?)\}", text, re.DOTALL)
    return tuple(re.findall(r'"([\w-]+)":', " ".join(hooks)))


def own_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds that a page's Python adds in whatever form."""
    return (*added_kinds(text), *re.findall(r'^    kind = "([\w-]+)"', text, re.MULTILINE))


def program(command: str) -> str:
    """Return the program of a command: `pytest` of `A=1 .venv/bin/pytest evals`."""
    words = [word for word in command.split() if not re.match(r"[A-Z_]+=", word)]
    return words[0].rpartition("/")[2] if words else ""


def is_set_up(command: str) -> bool:
    """Tell whether a command only installs something; such commands are not run."""
    return program(command) in INSTALLERS or command.startswith("python3 -m venv ")


def _without_blocks(text: str) -> str:
    return _FENCE.sub("", text)


def _lines_above(before: str) -> tuple[str, ...]:
    """Return the comments right above a block, and the line of text above these; blank lines do not count."""
    lines = [line.strip() for line in reversed(before.splitlines()) if line.strip()]
    comments = list(takewhile(lambda line: line.startswith("<!--"), lines))
    return tuple(reversed(lines[: len(comments) + 1]))
