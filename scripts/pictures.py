"""The pictures of the README and the start page: what a terminal shows of real runs, as SVG.

`--write` puts them into docs/pictures/.

The picture of the report, a PNG, is made by Chromium. Without `--write` the script ends with 1 if a picture of a
terminal shows other text than the runs print. Times are made equal. It needs `rich`, of the extra `docs`.
"""

import html
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = ROOT / "docs/pictures"
WIDTH: Final = 80

FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As `rich` draws a terminal, without the font that it would load from another server."""


def failure(folder: Path) -> str:
    """Return what the project of the README prints: the failure, and the last line."""
    for name, text in _files(ROOT / "README.md"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    printed = _run(folder, "pytest", "evals", "-p", "no:cacheprovider")
    block = _lines_between(printed, "= FAILURES =", "= EVALUATION SUMMARY =")
    last = _lines_between(printed, "= short test summary info =", None)
    return "\n".join(["$ pytest evals", *block, *last])


def comparison(folder: Path) -> str:
    """Return what the comparison of the two variants of the examples prints."""
    _run_variants(folder)
    command = ("agentv", "compare", "careful.jsonl", "quick.jsonl", "--statistics")
    return "\n".join([f"$ {' '.join(command)}", *_lines_between(_run(folder, *command), "Against ", None)])


def report(folder: Path, picture: Path) -> None:
    """Photograph the top of the report on the two variants, where there is a Chromium to do it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("report.png is left as it is: there is no chromium")
        return
    _run_variants(folder)
    _run(folder, "agentv", "report", "quick.jsonl", "careful.jsonl", "-o", "report.html")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000")
    command = [
        chromium,
        *options,
        "--window-size=1100,780",
        f"--screenshot={picture}",
        (folder / "report.html").as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True)


SHOWN: Final = {"failure": failure, "comparison": comparison}


def draw(name: str, printed: str) -> str:
    """Return a picture of a terminal that shows a text with ANSI colours."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(printed), soft_wrap=False)
    title = printed.partition("\n")[0].removeprefix("$ ")
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=FORMAT, unique_id=name)
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def text_of(svg: str) -> str:
    """Return the words that a picture shows: what has to be current, whatever release of `rich` drew it."""
    return " ".join(" ".join(html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)).split())


def _run_variants(folder: Path) -> None:
    """Run both variants of an agent, an example, and keep their results."""
    shutil.copytree(ROOT / "examples/two_variants", folder / "variants")
    for variant in ("careful", "quick"):
        arguments = (f"--agentv-target={variant}", f"--agentv-out={variant}.jsonl", "--agentv-stop=never")
        _run(folder, "pytest", "variants", "-p", "no:cacheprovider", *arguments)


def _files(page: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of the blocks that name their file in the first line."""
    for text in re.findall(r"^```(?:yaml|python)\n(# .*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        yield text.partition("\n")[0].removeprefix("# "), text


def _run(folder: Path, program: str, *arguments: str) -> str:
    scripts = sysconfig.get_path("scripts")
    kept = {name: value for name, value in os.environ.items() if not re.match(r"AGENTV|PYTEST|GITHUB|CI$", name)}
    finished = subprocess.run(
        [str(Path(scripts, program)), *arguments],
        cwd=folder,
        env=kept
        | {"COLUMNS": str(WIDTH), "PY_COLORS": "1", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if finished.returncode > 1:
        raise SystemExit(
            f"{program} {' '.join(arguments)}: exit code {finished.returncode}\n{finished.stdout}{finished.stderr}"
        )
    return finished.stdout


def _lines_between(printed: str, first: str, end: str | None) -> Sequence[str]:
    """Return the lines from the one that holds a text on, up to another one; times are made equal."""
    lines = re.sub(r"\b\d+(\.\d+)? (ms|s)\b", r"2 \2", re.sub(r"\b(\d+\.\d+)s\b", "0.31s", printed)).splitlines()
    start = next(number for number, line in enumerate(lines) if first in line)
    stop = next((number for number, line in enumerate(lines) if end and end in line), len(lines))
    return lines[start:stop]


def main() -> int:
    stale = []
    for name, show in SHOWN.items():
        with tempfile.TemporaryDirectory() as folder:
            svg = draw(name, show(Path(folder)))
        path = PICTURES / f"{name}.svg"
        if "--write" in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(svg, "utf-8")
        elif not path.exists() or text_of(path.read_text("utf-8")) != text_of(svg):
            stale.append(path.name)
    if "--write" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            report(Path(folder), PICTURES / "report.png")
    if stale:
        print(f"not current: {', '.join(stale)}; python scripts/pictures.py --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
