"""What a workspace of 5,000 files costs each answer: its copy, the walks, the diff and the removal."""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from measure import PYTEST, Contender, create_parser, exit_code, take_turns

FILES = 5_000
FILE_BYTES = 6_500
FEW, MANY = 2, 12
MAX_CPU_SECONDS = 0.6
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where all files lie: what a disk takes to create 5,000 files is not ours."""

BOT = """\
import pathlib


def answer(prompt, request):
    path = pathlib.Path(request.workspace, "folder-7", "file-7.txt")
    path.write_text(path.read_text() + "done\\n")
    return "done"
"""


def main() -> int:
    options = create_parser(__doc__, rounds=3).parse_args()
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        few, many = (_write(folder / str(count), count) for count in (FEW, MANY))
        runs = take_turns((few, many), options.rounds)
    pairs = list(zip(runs[few.name], runs[many.name], strict=True))
    cpu = statistics.median((long.cpu_seconds - short.cpu_seconds) / (MANY - FEW) for short, long in pairs)
    seconds = statistics.median((long.seconds - short.seconds) / (MANY - FEW) for short, long in pairs)
    print(f"\nan answer in a workspace of {FILES:,} files: {cpu:.2f} CPU seconds, {seconds:.2f} s")
    exceeded = [f"{cpu:.2f} CPU seconds > {MAX_CPU_SECONDS}"] if cpu > MAX_CPU_SECONDS else []
    return exit_code(options.check, exceeded)


def _write(folder: Path, count: int) -> Contender:
    """Write a project whose cases each change one file of a copy of the shop."""
    for number in range(FILES):
        path = folder / "shop" / f"folder-{number // 100}" / f"file-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("some text\n" * (FILE_BYTES // 10))
    (folder / "shop/folder-7").mkdir(exist_ok=True)
    (folder / "shop/folder-7/file-7.txt").write_text("begun\n")
    (folder / "bot.py").write_text(BOT)
    target = {"name": "default", "provider": "python", "callable": "bot.py:answer"}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    cases = [{"id": f"case-{number}", "input": "Write done"} for number in range(count)]
    suite = {"workspace": "shop", "assert": [{"contains": "+done", "file": "diff"}], "cases": cases}
    (folder / "a.eval.yaml").write_text(json.dumps(suite))
    program = ("env", f"TMPDIR={folder}", *PYTEST)
    return Contender(f"{count} answers", folder, ("-q", "--agentv-workers=1"), rf"\b{count} passed", program)


if __name__ == "__main__":
    sys.exit(main())
