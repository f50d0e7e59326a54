"""Decides which files are eval files, by names and first bytes. Runs that collect YAML files import this."""

import fnmatch
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pytest_agentv.errors import NO_REGULAR_FILE, SourceError, name_below
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Json

_SNIFFED_BYTES: Final = 65_536
_OUR_LISTS: Final = frozenset(("evalcases", "eval_cases"))
"""Keys that only eval files have."""
_LISTS: Final = frozenset((*_OUR_LISTS, "cases", "tests"))
"""Keys of case lists; files of other tools have the last two as well."""
_SIDECAR_KEYS: Final = frozenset(("defaults", "include"))
"""Keys of a sidecar that may give all cases an input."""
_CASE_KEYS: Final = frozenset(
    (
        *("id", "input", "input_messages", "criteria", "expected_outcome", "outcome"),
        *("expected", "expected_messages", "expected_output"),
    )
)
_TABLE: Final = re.compile(r".*\.(?:csv|tsv|jsonl?|ya?ml|parquet|py:\w+)|[A-Za-z_]\w*(?:\.\w+)+:[A-Za-z_]\w*")
"""The name of a table, or of a function that makes one. `ubuntu` and `npm:test` are none."""
_JSONL_KEY: Final = re.compile(r'"(id|input|input_messages)"\s*:')
_INPUT_KEYS: Final = frozenset({"input", "input_messages"})
_OUR_LINE: Final = re.compile(rb"""[\n{]["']?eval_?cases["']?[ \t]*:""")
"""A line that only eval files have (others have `case`), below whatever. `^` would take four times as long as `\\n`."""
_WORD: Final = re.compile(rb"cases|tests|defaults|include")
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


def looks_like_suite(path: Path) -> bool:
    """Whether the first 64 kB of a file show eval cases. Never raises."""
    return case_list_line(path) is not None


def case_list_line(path: Path) -> int | None:
    """Return the line on which a file's cases begin; None if it does not look like an eval file. Never raises.

    YAML needs at top level a list or a table under `evalcases`, or one under `cases` or `tests` with some key of a case
    or with the name of a table. JSONL needs a first object with an id and an input. The input may be missing if the
    sidecar has one for all (decisions 4).
    """
    head = _first_bytes(path)
    if path.suffix == ".jsonl":
        return _jsonl_line(head.removeprefix(b"\xef\xbb\xbf"), path)
    has_template, named = False, None
    for key, line, value in _top_values(head):
        has_template |= key == "case"
        if key in _OUR_LISTS and isinstance(value, list | dict) and value:
            return line
        first = value[0] if isinstance(value, list) and value else None
        holds_case = isinstance(first, dict) and not _CASE_KEYS.isdisjoint(first)
        if key in _LISTS and (holds_case or _names_table(value)):
            return line
        if key in _OUR_LISTS and value and named is None:
            named = line
    return named if has_template else None  # a template fills the rows of a table, whose name may have any ending


def _names_table(value: Json) -> bool:
    """Whether a case list is the name of a table, a list of names, or a mapping with one of these at `from`."""
    if isinstance(value, dict):
        value = value.get("from")
    name = value[0] if isinstance(value, list) and value else value
    return isinstance(name, str) and _TABLE.fullmatch(name) is not None


def _top_values(head: bytes) -> Iterator[tuple[str, int, Json]]:
    """Yield the keys at top level of YAML with their lines and values. Of a case list, only the first entry is read."""
    if _WORD.search(head) is None:  # most files of others need no parser
        return iter(())
    from pytest_agentv.files.source import top_values  # noqa: PLC0415 - the parser, for few files

    return top_values(head.decode("utf-8-sig", "replace"), _LISTS)


def _jsonl_line(head: bytes, path: Path) -> int | None:
    """Return the first line if it holds a case."""
    line, newline, _ = head.lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return None
    keys: Collection[str]
    try:
        keys = json.loads(line)
    except RecursionError:
        return None
    except ValueError:  # without its end, the line is longer than the bytes read
        keys = () if newline else _JSONL_KEY.findall(line.decode(errors="replace"))
    return 1 if _holds_case(keys) or ("id" in keys and _has_sidecar(path)) else None


def _holds_case(keys: Collection[str]) -> bool:
    return "id" in keys and not _INPUT_KEYS.isdisjoint(keys)


def _has_sidecar(path: Path) -> bool:
    """Whether a JSONL file has a sidecar that may give its cases an input."""
    sidecar = find_sidecar(path)
    if sidecar is None or looks_like_suite(sidecar):
        return False
    return any(key in _SIDECAR_KEYS for key, _, _ in _top_values(_first_bytes(sidecar)))


def _first_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():  # reading a FIFO would block
            return b""
        with path.open("rb") as file:
            return file.read(_SNIFFED_BYTES)
    except (OSError, ValueError):
        return b""


def find_sidecar(path: Path) -> Path | None:
    """Return the file beside a JSONL file with the same name and the suffix .yaml or .yml, even a broken symlink."""
    sidecars = (path.with_suffix(suffix) for suffix in (".yaml", ".yml"))
    return next((sidecar for sidecar in sidecars if sidecar.is_file() or sidecar.is_symlink()), None)


def read_fault(path: Path) -> tuple[str, int | None] | None:
    """Return why a file whose first 64 kB hint at cases cannot be read, and the line; None: nothing. Never raises."""
    try:
        if path.exists() and not path.is_file():  # reading a FIFO would block, but a link may be broken
            return NO_REGULAR_FILE, None
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError as error:
        return error.strerror or type(error).__name__, None
    except ValueError:
        return None
    if head.startswith(_UTF_16_MARKS):
        return "expected UTF-8, got UTF-16", None
    lines = head.decode(errors="replace").split("\n") if path.suffix == ".jsonl" else []
    if not any(map(_holds_case, map(_JSONL_KEY.findall, lines)) if lines else _OUR_LINE.findall(b"\n" + head)):
        return None
    from pytest_agentv.files import source  # noqa: PLC0415 - the parsers, for few files

    try:
        if lines:
            source.parse_json_object(path, *next((line, n) for n, line in enumerate(lines, 1) if line.strip()))
        else:
            source.read_yaml(path)
    except SourceError as error:
        return error.reason, error.line
    return None


# Which files are eval files, by their names and places too (decisions 4).

SUFFIXES = frozenset({".yaml", ".yml", ".jsonl"})
EVALS_FOLDER = "evals"
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "build", "dist", "venv"})
_NEVER = (
    *("targets.yaml", "targets.yml", ".agentv.yaml", "config.yaml", "config.yml"),
    *("*.tavern.yaml", "*.tavern.yml", "test_*.yaml", "test_*.yml"),
    *("docker-compose*.yaml", "docker-compose*.yml", "compose*.yaml", "compose*.yml"),
)


def is_eval_file(path: Path, *, root: Path, is_named: bool, globs: Sequence[str], evals: Path | None = None) -> bool:
    """Whether a file is an eval file, by its name or by its place and shape.

    Args:
        path: The file, absolute.
        root: pytest's root directory. Names of folders above it do not count.
        is_named: Whether the command line names the file.
        globs: Files that are always eval files. A pattern with a slash matches the path below the root.
        evals: The folder that counts as one named `evals`, absolute; None: decide by the path.
    """
    if path.suffix not in SUFFIXES:
        return False
    if _matches(path, root, globs):
        return not is_sidecar(path)
    if is_named:
        return looks_like_suite(path)
    if is_of_another_kind(path) or not (evals or _is_in_evals(path, root)):
        return False
    return looks_like_suite(path) and not _is_data(path, root, globs, evals)


def _matches(path: Path, root: Path, globs: Sequence[str]) -> bool:
    relative = name_below(path, root)
    return any(fnmatch.fnmatch(relative if "/" in pattern else path.name, pattern) for pattern in globs)


def _is_in_evals(path: Path, root: Path) -> bool:
    """Whether a file is below a folder named `evals` and not in a hidden folder."""
    folder = path.parent
    names = folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts
    return is_evals_folder(folder, root) and not any(name.startswith(".") for name in names)


def _is_data(path: Path, root: Path, globs: Sequence[str], evals: Path | None) -> bool:
    """Whether another eval file takes its cases from a file in a folder `evals`, which is then none of its own."""
    above = (each for each in reversed(path.parents) if each.name == EVALS_FOLDER and each.is_relative_to(root))
    return path in _data_files(evals or next(above, path.parent), root, tuple(globs))


@lru_cache(maxsize=8)
def _data_files(folder: Path, root: Path, globs: tuple[str, ...]) -> frozenset[Path]:
    """Return the files of which others take their cases: YAML files below a folder, eval files beside those above."""
    from pytest_agentv.cases.suites import tables_of  # noqa: PLC0415 - the parsers, for few files

    above = (path for each in folder.parents if each.is_relative_to(root) for path in each.iterdir())
    paths = chain(walk(folder), (path for path in above if _matches(path, root, globs)))
    found: set[Path] = set()
    for path in paths:
        values = _top_values(_first_bytes(path)) if path.suffix in (".yaml", ".yml") else ()
        if any(key in _LISTS and _names_table(value) for key, _, value in values):
            found.update(tables_of(path))
    return frozenset(found)


def left_out(path: Path, *, root: Path, globs: Sequence[str], evals: Path | None = None) -> Problem | None:
    """Return a warning if a file in a folder `evals` has eval cases but is not collected because of its name.

    It also warns of a file that cannot be read and may have cases. Another eval file may take its cases from either.
    The parameters are as for `is_eval_file`; the command line does not name the file.
    """
    if path.suffix not in SUFFIXES or _matches(path, root, globs) or not (evals or _is_in_evals(path, root)):
        return None
    pattern = _name_of_another_kind(path)
    if pattern is None:
        fault = read_fault(path)
        if fault is None or looks_like_suite(path) or _is_data(path, root, globs, evals):
            return None
        message = f"cannot be read: {fault[0]}; if it has cases, they are not collected"
        return Problem(path, fault[1], "", message, level="warning")
    line = case_list_line(path)
    if line is None or _is_data(path, root, globs, evals):
        return None
    message = f"has a list of cases but is not collected: names like {pattern} belong to other files"
    stem = path.stem.removesuffix(".tavern").removeprefix("test_").lstrip(".") or "cases"
    hint = f"rename it to {stem}.eval{path.suffix}, or add its name to the ini key agentv_files"
    return Problem(path, line, "", message, hint, "warning")


def _name_of_another_kind(path: Path) -> str | None:
    return next((pattern for pattern in _NEVER if fnmatch.fnmatch(path.name, pattern)), None)


def walk(folder: Path, hidden: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield the files below a folder in order. Skips folders of dependencies, and hidden folders not in `hidden`."""
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        folders[:] = sorted(name for name in folders if real not in seen and _is_entered(Path(root, name), hidden))
        if real not in seen:
            yield from (Path(root, name) for name in sorted(names))
        seen.add(real)


def _is_entered(folder: Path, hidden: frozenset[str]) -> bool:
    if folder.name.startswith("."):
        return folder.name in hidden
    return folder.name not in _SKIPPED_FOLDERS and not (folder / "pyvenv.cfg").is_file()


def is_of_another_kind(path: Path) -> bool:
    """Whether a file's name is for another kind: a targets file, a dataset's sidecar, or a file of another tool."""
    return _name_of_another_kind(path) is not None or is_sidecar(path)


def is_sidecar(path: Path) -> bool:
    """Whether a file is beside a JSONL dataset of the same name and holds no cases itself."""
    return path.suffix != ".jsonl" and path.with_suffix(".jsonl").is_file() and not looks_like_suite(path)


def is_evals_folder(folder: Path, root: Path) -> bool:
    """Whether a folder is named `evals` or lies in one. Of those above, only pytest's root directory counts."""
    names = (root.name, *folder.relative_to(root).parts) if folder.is_relative_to(root) else folder.parts
    return EVALS_FOLDER in names


# Glob patterns: `**`, `*`, `?`, `[…]`, `{a,b}` and `@(a|b)`.


def _wcmatch() -> Any:
    from wcmatch import glob  # noqa: PLC0415 - most runs have no globs

    return glob


def matches_glob(path: str, pattern: str) -> bool:
    """Whether a path with `/` matches a pattern. Case counts, and only a literal dot matches the dot of a name."""
    glob = _wcmatch()
    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.FORCEUNIX | glob.CASE
    return bool(glob.globmatch(path, pattern, flags=flags, limit=0))


def find_files(pattern: str, folder: Path | None = None, *, hidden: bool = False) -> list[Path]:
    """Return the files that match a pattern, in order; none if it is no glob.

    Names are relative to `folder`, otherwise to the working directory. `hidden` finds names that start with a dot too.
    """
    glob = _wcmatch()
    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.NODIR | (glob.DOTGLOB if hidden else 0)
    try:
        names = glob.glob(pattern, root_dir=folder, flags=flags, limit=0)
    except (ValueError, OSError):  # an invalid glob, or a name that is too long for a file
        return []
    return sorted((folder or Path()) / name for name in names)
