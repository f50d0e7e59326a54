"""`docs/llms.txt`, the index that language models read first (llmstxt.org), from the start page.

`--write` writes it. Without, the script ends with 1 if the file is not current. Links are relative, because the site
lies where people put it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[1] / "docs"
FILE: Final = DOCS / "llms.txt"

ABOUT: Final = """\
Things to know before you read on:

- A case has an `id`, an `input`, and under `assert` checks (`contains: 120 euros`) and sentences that a model checks.
- A case is a pytest item. Its node id is the eval file and the id of the case: `evals/greeting.yaml::says-hello`.
- FAILED is an answer that was judged and is not good enough. ERROR is one that could not be judged.
- `agentv validate --strict` checks files without a run. `pytest --agentv-dry-run` runs them with mocks.
- Eval files, targets and judge scripts of AgentV run unchanged.
"""


def llms_txt() -> str:
    """Return the whole text: title, summary, what to know, and the pages with what each answers."""
    start = (DOCS / "README.md").read_text("utf-8")
    title, summary = _title_and_summary(start)
    pages = "\n".join(_entries(start))
    examples = "\n".join(_examples())
    return f"# {title}\n\n> {summary}\n\n{ABOUT}\n## Documentation\n\n{pages}\n\n## Examples\n\n{examples}\n"


def _title_and_summary(page: str) -> tuple[str, str]:
    title, paragraph = page.split("\n\n")[:2]
    return title.removeprefix("# "), " ".join(paragraph.split())


def _entries(page: str) -> Iterator[str]:
    """Yield an entry for each row of the table of pages."""
    _, _, table = page.partition("## All pages")
    for label, target, answers in re.findall(r"^\| \[(.+?)\]\((.+?)\) \| (.+?) \|$", table, re.MULTILINE):
        yield f"- [{label}]({target}): {answers}"


def _examples() -> Iterator[str]:
    """Yield an entry for each project that has a page."""
    for path in sorted((DOCS.parent / "examples").glob("*/README.md")):
        title, summary = _title_and_summary(path.read_text("utf-8"))
        target = path.relative_to(DOCS.parent).as_posix()
        yield f"- [{title}](../{target}): {summary}"


def main() -> int:
    text = llms_txt()
    if "--write" in sys.argv:
        FILE.write_text(text, "utf-8")
        return 0
    current = FILE.exists() and FILE.read_text("utf-8") == text
    if not current:
        print(f"{FILE} is not current: python scripts/llms_txt.py --write")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
