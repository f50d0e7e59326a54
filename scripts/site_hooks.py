"""What mkdocs needs for `mkdocs.yml`: the pages that lie outside of docs/, and links that lead to them.

A page keeps the links that its readers in the checkout need. Here they become links within the site, and those to code,
which the site does not have, become plain text. Beside each page lies its Markdown, for language models, which llms.txt
names.
"""

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"

OUTSIDE: Final = {
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    **{
        path: path.relative_to(ROOT).as_posix()
        for path in (ROOT / "benchmarks/README.md", *sorted((ROOT / "examples").rglob("README.md")))
    },
}
"""Pages outside of docs/, and their names within the site."""

_LINK: Final = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_CODE: Final = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)

_markdown: Final[dict[str, str]] = {}
"""The Markdown of each page, by its name."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/."""
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Make the links of a page lead to pages of the site. Code is left as it is."""
    parts = _CODE.split(markdown)
    text = "".join(part if number % 2 else _relinked(part, page) for number, part in enumerate(parts))
    _markdown[page.file.src_uri] = text
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Write the Markdown of each page beside it, and let llms.txt name these files."""
    site = Path(config.site_dir)
    for name, text in _markdown.items():
        (site / name).write_text(text, "utf-8")
    index = (DOCS / "llms.txt").read_text("utf-8")
    (site / "llms.txt").write_text(index.replace("](../", "]("), "utf-8")


def _relinked(text: str, page: Page) -> str:
    source = Path(page.file.abs_src_path or "").resolve()
    here = posixpath.dirname(page.file.src_uri)

    def replace(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target:
            return match[0]
        name = _name_in_site((source.parent / target).resolve())
        if name is None:
            return match[0]
        return f"[{label}]({posixpath.relpath(name, here or '.')}{anchor})" if name else label

    return _LINK.sub(replace, text)


def _name_in_site(path: Path) -> str | None:
    """Return the name of a file in the site: "" if only the checkout has it, None if nobody has."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path == ROOT / "README.md":
        return "README.md"
    if not path.exists():
        return None
    return path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else ""
