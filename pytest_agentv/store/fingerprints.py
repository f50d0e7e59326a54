"""Hashes what decides an answer and its score. With equal hashes, an earlier result is still valid.

What may have changed unseen has no hash: no later run reuses its results.
"""

import ast
import hashlib
import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from pytest_agentv.cases.entries import SuiteSource
from pytest_agentv.cases.references import LoadedCase
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Json, Plain
from pytest_agentv.model.cases import AnyEvaluator, EvalCase, Target, Workspace, affects_answers
from pytest_agentv.model.messages import FilePart
from pytest_agentv.model.secrets import Secret
from pytest_agentv.runtime.workspaces import EVAL_DIR, content_of

_LENGTH: Final = 16
"""Hexadecimal digits of a hash."""
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages, which do not belong to the project."""
_TEXTS: Final = frozenset({"datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid"})
"""The modules of types whose text says all about a value."""
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements have other statements."""
_DOUBT: Final = "{reason}, so nobody can tell whether it has changed: no later run reuses its results"


class _Unknown(Exception):
    """Nobody can tell whether something has changed. The text says why."""


class Fingerprints:
    """Hashes targets, evaluators and objects of users: their settings, and the project's files that these name.

    Each file is read once. None in place of a hash: nobody can tell whether the thing has changed.
    """

    def __init__(self, roots: Iterable[Path], warn_once: Callable[[Problem, str], None]) -> None:
        """Take the roots of the project. Hashes hold paths below a root, wherever that is.

        `warn_once` gets a warning and a name for what it is about.
        """
        self._roots = tuple(dict.fromkeys(root.resolve() for root in roots))
        self._root_texts = [json.dumps(str(root))[1:-1] for root in self._roots]
        self._warn_once = warn_once
        self._digests: dict[Path, str] = {}
        self._imports: dict[Path, list[tuple[int, list[str]]]] = {}
        self._programs: dict[tuple[Path, Path], tuple[Path, ...]] = {}
        """The project's files that each Python file is made of, by the file and the folder of its imports."""
        self._folders: dict[str, frozenset[str]] = {}
        self._known: dict[str, tuple[Path, ...]] = {}
        self._words: dict[tuple[tuple[str, ...], Path], tuple[Path, ...]] = {}

    def of_target(self, target: Target) -> str | None:
        """Return the hash of a target's definition, with its secrets as hashes, and of its code."""
        path = self._roots[0] if target.path is None else Path(target.path)
        return self._hash(target.name, path, target.line, partial(self._target, target, path.parent))

    def of_object(self, value: object, makers: Iterable[Path]) -> str | None:
        """Return the hash of an object of a fixture: of the file of its class or function, and of those of fixtures."""
        return self._hash(type(value).__qualname__, self._roots[0], None, partial(self._object, value, makers))

    def of_grading(self, evaluators: Sequence[AnyEvaluator], judge: str | None) -> str | None:
        """Return the hash of a case's evaluators: settings, prompts, scripts, code, judge. Leaves out the threshold."""
        hashes: list[str | None] = []
        for each in evaluators:
            path = source_file(each.own_code) or self._roots[0]
            hashes.append(self._hash(each.kind, path, None, partial(self._evaluator, each)))
        return None if None in hashes else digest([*hashes, judge])

    def _hash(self, word: str, path: Path, line: int | None, make: Callable[[], Json]) -> str | None:
        try:
            text = _to_json(make())
        except _Unknown as error:
            reason = str(error)
        except (TypeError, ValueError, RecursionError) as error:  # users may put anything into their kinds
            reason = f"its settings are no JSON ({error})"
        else:
            for root in self._root_texts:
                text = text.replace(root, "<root>")
            return digest(text)
        if reason:
            warning = Problem(path, line, word, _DOUBT.format(reason=reason), level="warning")
            self._warn_once(warning, f"unknown-{digest([str(path), word, reason])}")
        return None

    def _target(self, target: Target, folder: Path) -> Json:
        settings, sources = target.settings, target.settings.sources
        folder = Path(sources.folder or folder)
        called = () if sources.callable is None else self._of_callable(sources.callable, folder)
        return {
            "kind": target.kind,
            "settings": {key: value for key, value in settings.to_plain().items() if affects_answers(settings, key)},
            "batching": target.provider_batching,
            "files": self._contents([*called, *self._of_words(sources.words, folder)]),
            "code": self._of_code(settings.own_code),
        }

    def _object(self, value: object, makers: Iterable[Path]) -> Json:
        code = value if isinstance(value, FunctionType | type) else type(value)
        own = source_file(code)
        made = [file for maker in makers for file in self._of_source(maker)]
        if not made:
            raise _Unknown("the file of its fixture is not known")
        own_files = () if own is None or self._ours(own) is None else self._of_source(own)
        return {"object": code.__qualname__, "files": self._contents([*made, *own_files])}

    def _evaluator(self, evaluator: AnyEvaluator) -> Json:
        members = [*evaluator.walk()]
        scripts = [script for member in members for script in member.scripts]
        files = [file for folder, words in scripts for file in self._of_words(tuple(words), Path(folder or "."))]
        codes = [self._of_code(member.own_code) for member in members]
        return {"settings": evaluator.to_plain(), "files": self._contents(files), "code": codes}

    def _of_code(self, code: Any) -> Json:
        """Return the name and the files of a class or a function of users; None: of a built-in kind."""
        if code is None:
            return None
        if not isinstance(code, FunctionType | type):
            raise _Unknown(f"it is made by an object of type {type(code).__name__}, not by a class or a function")
        is_inner = "<locals>" in code.__qualname__
        if isinstance(code, type):
            is_made, line = is_inner, 0
        else:
            is_made = bool(code.__closure__ or (is_inner and (code.__defaults__ or code.__kwdefaults__)))
            line = code.__code__.co_firstlineno
        if is_made:
            raise _Unknown(f"{code.__qualname__} is made within a function, not at the top of a file")
        path = source_file(code)
        if path is None:
            raise _Unknown(f"the file of {code.__qualname__} is not known")
        return [code.__qualname__, line, self._contents(self._of_source(path))]

    def _of_callable(self, name: str, folder: Path) -> Iterator[Path]:
        """Yield the files of `package.module:function` or `path/to/file.py:function`, including their imports."""
        source = name.rpartition(":")[0]
        if source.endswith(".py"):
            yield from self._of_words((source,), folder)
            return
        for path in self._modules(source.split("."), (folder, *self._places())):
            yield from self._program(path, folder)

    def _of_source(self, path: Path) -> Iterator[Path]:
        """Yield a file of users that was imported, and those of the project that it imports."""
        if not _INSTALLED.isdisjoint(path.parts):
            yield path
        elif self._ours(path) is None:
            raise _Unknown(f"its file {path} is not in the project")
        else:
            yield from self._program(path, path.parent)

    def _of_words(self, words: tuple[str, ...], folder: Path) -> tuple[Path, ...]:
        if (words, folder) not in self._words:
            self._words[words, folder] = tuple(self._find_words(words, folder))
        return self._words[words, folder]

    def _find_words(self, words: Iterable[str], folder: Path) -> Iterator[Path]:
        if not any(folder.resolve().is_relative_to(root) for root in self._roots):
            self._roots = (*self._roots, folder.resolve())
        split = ((word, _command_words(word)) for word in words)
        pieces = [piece for word, parts in split for piece in (parts if parts == [word] else [word, *parts])]
        following = list(zip(["", *pieces], pieces, strict=False))
        written = {piece for previous, piece in following if previous.endswith(">")}
        cwd = folder
        for previous, piece in following:
            if previous == "cd":
                cwd /= piece
            elif previous == "-m":
                for path in self._modules(piece.split("."), (cwd, *self._places())):
                    yield from self._program(path, cwd)
            elif piece not in written:
                for name in dict.fromkeys((piece, piece.rpartition("=")[2])):  # --config=agent.yaml
                    if (named := self._ours(cwd / name)) is not None:
                        yield from self._program(named, (cwd / name).parent)

    def _program(self, first: Path, folder: Path) -> tuple[Path, ...]:
        """Return a file, and those of the project that it imports, at any depth, if it is one in Python."""
        key = (first, folder)
        if key not in self._programs:
            places = (folder, *self._places())
            waiting, found = [first.resolve()], dict[Path, None]()
            while waiting:
                path = waiting.pop()
                if path not in found:
                    found[path] = None
                    waiting += self._imported(path, places) if path.suffix == ".py" else ()
            self._programs[key] = tuple(found)
        return self._programs[key]

    def _imported(self, path: Path, places: Sequence[Path]) -> Iterator[Path]:
        if path not in self._imports:
            try:
                self._imports[path] = list(_imports(ast.parse(path.read_bytes()).body))
            except (OSError, SyntaxError, ValueError, RecursionError):
                raise _Unknown from None  # the case will say so
        for level, parts in self._imports[path]:
            if level:
                package = path.parents[min(level, len(path.parents)) - 1]
                yield from self._modules([package.name, *parts], (package.parent,))
            else:
                yield from self._modules(parts, places)

    def _modules(self, parts: Sequence[str], places: Iterable[Path]) -> Iterator[Path]:
        """Yield the project's files of a module and of its packages: those of each place that has them."""
        for place in dict.fromkeys(map(str, places)):
            folder = place
            for part in parts:
                for name in (f"{part}.py", part):
                    if name in self._names(folder):
                        yield from self._module(f"{folder}/{name}")
                folder = f"{folder}/{part}"

    def _module(self, path: str) -> tuple[Path, ...]:
        if path not in self._known:
            file = Path(path if path.endswith(".py") else f"{path}/__init__.py")
            real = self._ours(file)
            self._known[path] = () if real is None else (real,)
        return self._known[path]

    def _names(self, folder: str) -> frozenset[str]:
        """Return the names in a folder; none where there is no folder."""
        if folder not in self._folders:
            try:
                self._folders[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - as a text, for speed
            except PermissionError:
                raise _Unknown(f"the folder {folder} cannot be read") from None
            except (OSError, ValueError):
                self._folders[folder] = frozenset()
        return self._folders[folder]

    def _places(self) -> Iterator[Path]:
        for root in self._roots:
            yield root
            yield root / "src"
        for place in map(Path, sys.path):
            if _INSTALLED.isdisjoint(place.parts) and any(place.is_relative_to(root) for root in self._roots):
                yield place

    def _ours(self, path: Path) -> Path | None:
        try:
            if not path.is_file():
                return None
            real = path.resolve()
            is_inside = any(real.is_relative_to(root) for root in self._roots)
            return real if is_inside and _INSTALLED.isdisjoint(real.parts) else None
        except (OSError, ValueError):  # the word is too long for a name or holds a NUL
            return None

    def _contents(self, paths: Iterable[Path]) -> Json:
        """Return a hash of each file's content, with a name that does not depend on the project's location."""
        return sorted([self._name(path), self._content(path)] for path in dict.fromkeys(paths))

    def _content(self, path: Path) -> str:
        if path not in self._digests:
            try:
                self._digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError as error:
                raise _Unknown(f"{path} cannot be read ({error.strerror})") from None
        return self._digests[path]

    def _name(self, path: Path) -> str:
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        return path.name if root is None else path.relative_to(root).as_posix()


def source_file(code: Any) -> Path | None:
    """Return the file in which a function or a class is written; None: it is not known."""
    if isinstance(code, type):
        module = sys.modules.get(code.__module__)
        if getattr(module, code.__qualname__, None) is code:
            found = getattr(module, "__file__", None)
        else:
            methods = [each for each in vars(code).values() if isinstance(each, FunctionType)]
            own = (each for each in methods if each.__qualname__ == f"{code.__qualname__}.{each.__name__}")
            found = next((each.__globals__.get("__file__") for each in own), None)
    else:
        found = getattr(inspect.unwrap(code), "__globals__", {}).get("__file__")
    return None if found is None else Path(found)


def _imports(statements: Iterable[ast.AST]) -> Iterator[tuple[int, list[str]]]:
    """Yield the modules that statements import, at any depth: the level of a relative import, and the names."""
    for each in statements:
        if isinstance(each, ast.Import):
            yield from ((0, alias.name.split(".")) for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            parts = each.module.split(".") if each.module else []
            yield from ((each.level, [*parts, alias.name]) for alias in each.names)  # a name may be a module
        else:
            for block in _BLOCKS:
                inner = getattr(each, block, None)
                yield from _imports(inner) if isinstance(inner, list) else ()


def _command_words(command: str) -> list[str]:
    """Return the words of a shell command, even of an invalid one. `;`, `&&`, `|`, `>` and brackets are words."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:
        return command.split()


def digest(value: Json) -> str:
    """Return the hash of plain data, in which the order of keys does not count."""
    return hashlib.sha256(_to_json(value).encode()).hexdigest()[:_LENGTH]


def _plain(value: Any) -> Json:
    """Return plain data for a value that JSON cannot hold, with secrets as hashes. Raises `_Unknown`."""
    if isinstance(value, Secret):
        return {"secret": hashlib.sha256(value.reveal().encode("utf-8", "surrogatepass")).hexdigest()}
    if isinstance(value, Plain):
        return value.to_plain()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(_to_json, value))
    if isinstance(value, bytes | bytearray) or type(value).__module__ in _TEXTS:
        return repr(value)
    raise _Unknown(f"it holds a value of type {type(value).__qualname__}, which is no JSON")


_to_json: Final = json.JSONEncoder(sort_keys=True, default=_plain).encode


# The hashes of cases: a kept result is valid only as long as that of its case stays the same.

_RULES: Final = frozenset(
    (
        *("threshold", "threshold_source", "repeat", "repeat_source", "min_pass_rate", "min_pass_rate_source"),
        *("required", "group", "tags", "skip", "xfail", "skip_defaults"),
        *("target", "targets", "judge"),  # the target of a result has a hash of its own, and so has its grading
    )
)
"""The fields of a case that affect how its run judges it or whom it asks, but neither its answer nor its score."""


class CaseHashes:
    """Hashes cases. The header of each eval file is serialized only once."""

    def __init__(self) -> None:
        self._headers: dict[Path, str] = {}
        self._folders: dict[str, str] = {}

    def of(self, suite: SuiteSource, loaded: LoadedCase, case: EvalCase) -> str | None:
        """Return a hash of the case: its text, its file, the files it refers to, the changes of hooks.

        None: a hook has put in a value of which nobody can tell whether it has changed.
        """
        try:
            return self._of(suite, loaded, case)
        except (_Unknown, TypeError, ValueError, RecursionError):
            return None

    def _of(self, suite: SuiteSource, loaded: LoadedCase, case: EvalCase) -> str:
        written = loaded.case
        if suite.path not in self._headers:
            self._headers[suite.path] = _to_json(_without_rules(suite.header))
        parts = (part for message in written.messages for part in message.parts if isinstance(part, FilePart))
        files = _to_json([(part.is_guideline, _content(part)) for part in parts])
        expected = _to_json(written.expected_messages)  # with texts of files
        hashed = [_to_json(_without_rules(loaded.value)), self._headers[suite.path], files, expected]
        hashed += [] if written.vars is None else [_to_json(written.vars)]  # judges see all of them
        if case.workspace is not None:
            hashed += self._of_workspace(case.workspace, case.folder)
        if case is not written and case != written:
            before, after = written.to_plain(), case.to_plain()
            changed = {key: after.get(key) for key in before | after if after.get(key) != before.get(key)}
            hashed += map(_to_json, filter(None, [_without_rules(changed)]))
        return digest(hashed)

    def _of_workspace(self, workspace: Workspace, folder: Path) -> Iterator[str]:
        """Yield the hashes of the folders of a workspace, and of the files beside the eval file that commands name."""
        folders = [*workspace.hidden, *filter(None, [workspace.overlay])]
        if workspace.ref is None:
            folders.append(workspace.source)
        elif not re.fullmatch("[0-9a-f]{40}", workspace.ref):
            raise _Unknown  # a branch may move
        for each in folders:
            if each not in self._folders:
                self._folders[each] = content_of(Path(each))
            yield self._folders[each]
        commands = [*workspace.setup, *workspace.before, workspace.check or ""]
        for name in dict.fromkeys(re.findall(rf"\$\{{?{EVAL_DIR}\}}?/([\w./-]+)", "\n".join(commands))):
            if (folder / name).is_file():
                yield hashlib.sha256((folder / name).read_bytes()).hexdigest()


def _without_rules(value: Json) -> Json:
    """Leave out the keys that do not make a kept score invalid: it is judged by the new rules without a call."""
    if not isinstance(value, dict):
        return value
    rest = {key: item for key, item in value.items() if key not in _RULES}
    execution = _without_rules(rest.pop("execution", None))
    return rest | {"execution": execution} if execution else rest


def _content(part: FilePart) -> str:
    """Return the content of a file, or a hash of its bytes: decoding makes different invalid bytes one character."""
    if part.media is not None:
        return part.media.sha256
    if "\N{REPLACEMENT CHARACTER}" not in part.text:
        return part.text
    try:
        return hashlib.sha256(Path(part.resolved_path).read_bytes()).hexdigest()
    except OSError:
        return part.text
