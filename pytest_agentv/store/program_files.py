"""Finds the project files of a program, hashes files, and tells which of them have changed."""

import functools
import hashlib
import itertools
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

_Stamp: TypeAlias = tuple[int, ...] | None
"""What changes when a file is written; None: the file is missing."""

_START: Final = r"(?:^|[;:])[ \t\f]*"
"""The start of a statement, also behind `try:` or `;`. In a text it may name a file too many, which does no harm."""
_IMPORT: Final = re.compile(_START + r"import[ \t\f]+([^\n#;]+)", re.MULTILINE)
_FROM: Final = re.compile(
    _START + r"from(?=[ \t\f.])[ \t\f]*(\.*)[ \t\f]*([\w.]*)[ \t\f]*import\b[ \t\f]*"
    r"(\((?:[^)#]++|#[^\n]*+)*\)|[^\n#;]+)",
    re.MULTILINE,
)
_COMMENT: Final = re.compile(r"#[^\n]*")

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages, which do not belong to the project."""

_WRITTEN: Final = frozenset({".log", ".out", ".tmp", ".pid", ".lock", ".db", ".sqlite", ".sqlite3"})
"""Suffixes of files that programs write. Their content changes while the program stays the same."""


class FileStates:
    """The contents of files when they were first read, each once per run."""

    def __init__(self) -> None:
        self._hashes: dict[Path, str] = {}
        self._stamps: dict[Path, _Stamp] = {}
        self._seen: dict[Path, str] = {}
        """The hash of the content at the last look, of files that were once found to be changed."""
        self._changed: dict[Path, int] = {}
        """The moment at which a file was last found to have another content than at the look before."""
        self._moments = itertools.count(1)

    def hash(self, path: Path) -> str:
        """Return the hash of a file's content when it was first read."""
        if path not in self._hashes:
            self._stamps[path] = _stamp(path)  # before the content is read: what is written meanwhile shows then
            self._hashes[path] = _hash(path)
        return self._hashes[path]

    def moment(self) -> int:
        """Return the present moment, for `is_changed`."""
        for path in self._changed:  # one that was put back before now is unchanged from now on
            self._look(path)
        return next(self._moments)

    def is_changed(self, path: Path, since: int) -> bool:
        """Whether a hashed file has another content than when it was first read, or had one when it was seen since.

        A file that was put back since the moment counts too. One that was written with the content that it had does
        not: many programs are made anew before each case, or by each case, and are the same all the time.
        """
        self._look(path)
        return self._changed.get(path, since) > since or self._seen.get(path, self._hashes[path]) != self._hashes[path]

    def _look(self, path: Path) -> None:
        """Hash a file again if it was written: it may be a model of gigabytes."""
        stamp = _stamp(path)
        if stamp == self._stamps[path]:
            return
        self._stamps[path] = stamp
        found = _hash(path)
        if found != self._seen.get(path, self._hashes[path]):
            self._seen[path] = found
            self._changed[path] = next(self._moments)


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


class ProjectFiles:
    """Finds the files of programs and hashes their contents. Reads each file once per run."""

    def __init__(self, *roots: Path, states: FileStates | None = None) -> None:
        """`states` has the contents of the files, if others share them."""
        self._roots = tuple(dict.fromkeys(root.resolve() for root in roots))
        self._states = FileStates() if states is None else states
        self._imports: dict[Path, tuple[Path, ...]] = {}
        self._names: dict[Path, frozenset[str] | None] = {}
        self._found: dict[tuple[Path, tuple[str, ...]], list[Path]] = {}
        self._ours_known: dict[Path, Path | None] = {}

    def hashes(self, paths: Iterable[Path]) -> dict[str, str]:
        """Return a hash of each file's content, by a name that does not depend on the project's location."""
        return {self._name(path): self._states.hash(path) for path in dict.fromkeys(paths)}

    def of_callable(self, name: str, cwd: Path) -> Iterator[Path]:
        """Yield the files of `package.module:function` or `path/to/file.py:function`, including their imports."""
        source = name.rpartition(":")[0]
        if source.endswith(".py"):
            first: Iterable[Path] = [cwd / source]
            folder = (cwd / source).parent
        else:
            first, folder = self._find(source.split("."), cwd), cwd
        yield from self._with_imports(first, folder)

    def of_source(self, path: Path) -> Iterator[Path]:
        """Yield a Python file and the project files that it imports."""
        yield from self._with_imports([path], path.parent)

    def of_words(self, words: Iterable[str], cwd: Path) -> Iterator[Path]:
        """Yield the files that the words of a command name, and the imports of Python files among them.

        `cd` changes the folder for the words that follow.
        """
        previous = ""
        for word in words:
            is_written = previous.endswith((">", ">>")) or Path(word).suffix.lower() in _WRITTEN
            if previous == "cd":
                cwd /= word
            elif previous == "-m":
                yield from self._with_imports(self._find(word.split("."), cwd), cwd)
            elif not is_written and "{" not in word and (real := self._ours(path := cwd / word)) is not None:
                yield from self.of_source(path) if path.suffix == ".py" else [real]
            previous = word

    def _with_imports(self, first: Iterable[Path], folder: Path) -> Iterator[Path]:
        waiting = [real for path in first if (real := self._ours(path)) is not None]
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                yield path
                waiting += self._imported(path, folder)

    def _imported(self, path: Path, folder: Path) -> tuple[Path, ...]:
        if path not in self._imports:
            try:
                text = path.read_text("utf-8-sig", "replace")
            except OSError:
                text = ""
            found = dict.fromkeys(
                module for parts, base in _imports(text, path) for module in self._find(parts, base or folder)
            )
            self._imports[path] = tuple(found)
        return self._imports[path]

    def _find(self, parts: Sequence[str], folder: Path) -> list[Path]:
        """Return the files of a module and of its parent packages that belong to the project."""
        for place in (folder, *_places(tuple(sys.path))):
            if place not in self._names:
                self._names[place] = _names(place)
            names = self._names[place]  # known for speed: most modules are searched in many folders
            may_have = names is None or not names.isdisjoint((parts[0], f"{parts[0]}.py"))
            if may_have and (found := self._find_in(place, tuple(parts))):
                return found
        return []

    def _find_in(self, place: Path, parts: tuple[str, ...]) -> list[Path]:
        if (place, parts) not in self._found:
            found = (self._ours_once(path) for path in _module_files(place, parts))
            self._found[place, parts] = [path for path in found if path is not None]
        return self._found[place, parts]

    def _ours_once(self, path: Path) -> Path | None:
        """Work like `_ours`, but cached, for a file of a package: each module of the package asks for it."""
        if path not in self._ours_known:
            self._ours_known[path] = self._ours(path)
        return self._ours_known[path]

    def _ours(self, path: Path) -> Path | None:
        """Return the resolved path of a file of the project; None for any other."""
        try:
            real = path.resolve()
            is_inside = any(real.is_relative_to(root) for root in self._roots)
            is_ours = is_inside and _INSTALLED.isdisjoint(real.parts) and real.is_file()
        except (OSError, ValueError):  # the word is too long for a name or holds a NUL
            return None
        return real if is_ours else None

    def _name(self, path: Path) -> str:
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        return path.name if root is None else path.relative_to(root).as_posix()


@functools.lru_cache(maxsize=4)
def _places(search_path: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(map(Path, search_path))


def _names(folder: Path) -> frozenset[str] | None:
    """Return the names in a folder; None without permission."""
    try:
        return frozenset(path.name for path in folder.iterdir())
    except PermissionError:
        return None
    except (OSError, ValueError):
        return frozenset()


def _module_files(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    for part in parts:
        if not part.isidentifier():
            return
        if (file := folder / f"{part}.py").is_file():
            yield file
            return
        folder /= part
        if (package := folder / "__init__.py").is_file():
            yield package


def _imports(text: str, path: Path) -> Iterator[tuple[list[str], Path | None]]:
    """Yield the modules that a text imports, with the base folder of relative imports."""
    text = text.replace("\\\n", " ")
    for match in _IMPORT.finditer(text):
        for name in match[1].split(","):
            yield _name(name).split("."), None
    for match in _FROM.finditer(text):
        level, module = len(match[1]), match[2]
        base = path.parents[min(level, len(path.parents)) - 1] if level else None
        parts = module.split(".") if module else []
        if parts:
            yield parts, base
        names = _COMMENT.sub("", match[3]).strip("()").split(",")
        for name in filter(None, map(_name, names)):
            yield [*parts, name], base  # the name may be a module of the package


def _name(written: str) -> str:
    """Return the name in `name as other`; empty if there is none."""
    return next(iter(written.split()), "")


def command_words(command: str) -> list[str]:
    """Return the words of a shell command, even of an invalid one. `;`, `&&`, `|`, `>` and brackets are words."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:
        return command.split()
