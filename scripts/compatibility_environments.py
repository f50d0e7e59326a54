"""Virtual environments: one per Python with the project and what it needs, and over it one for each row."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from compatibility_rows import PROJECT, Row

_LONGEST_INSTALL_SECONDS: Final = 900
_BIN: Final = "Scripts" if os.name == "nt" else "bin"


class InstallError(Exception):
    """No environment can be made; the message says what is missing."""


class Environments:
    """Makes environments in a folder. Those of one Python share what the project needs: it is installed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bases: dict[str, Path] = {}
        self._lock = threading.Lock()

    def create(self, row: Row) -> Path:
        """Return the interpreter of a row's environment. Raises `InstallError`."""
        interpreter = find_python(row.python)
        with self._lock:
            base = self._base(interpreter)
        folder = self._folder / row.name.replace(" ", "-")
        python = _create(interpreter, folder, "--without-pip")
        packages = _ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
        # Packages of the base are found behind those of the row, which may be other versions of the same.
        shared = _ask(base, "import sysconfig; print(sysconfig.get_path('purelib'))")
        (Path(packages) / "base.pth").write_text(f"{shared}\n", "utf-8")
        if row.requirements:
            _install(base, row.requirements, into=python)
        return python

    def _base(self, interpreter: Path) -> Path:
        key = str(interpreter)
        if key not in self._bases:
            python = _create(interpreter, self._folder / f"base-{len(self._bases)}")
            _install(python, [str(PROJECT)])
            self._bases[key] = python
        return self._bases[key]


def find_python(version: str | None) -> Path:
    """Return an interpreter of a minor version, wherever it is. Raises `InstallError` where there is none."""
    if version is None:
        return Path(sys.executable)
    for candidate in _candidates(version):
        # A shim of pyenv is there for versions that it does not run.
        if _ask(candidate, "import sys; print('%d.%d' % sys.version_info[:2])", is_wanted=False) == version:
            return candidate
    raise InstallError(f"no Python {version} on the PATH or in pyenv")


def versions(python: Path, packages: Sequence[str]) -> list[str]:
    """Return what is really installed: `pytest 9.2.0`, …, and the Python itself."""
    script = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"
    found = _ask(python, script, *packages).split()
    running = _ask(python, "import platform; print(platform.python_version())")
    return [f"{name} {version}" for name, version in zip(packages, found, strict=True)] + [f"Python {running}"]


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    for name in (f"python{version}", "python3", "python"):
        found = shutil.which(name)
        if found:
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/python"), reverse=True)


def _create(interpreter: Path, folder: Path, *flags: str) -> Path:
    _call([str(interpreter), "-m", "venv", *flags, str(folder)], f"python -m venv with {interpreter}")
    return folder / _BIN / "python"


def _install(pip: Path, requirements: Sequence[str], into: Path | None = None) -> None:
    target = ["--python", str(into)] if into else []
    command = [str(pip), "-m", "pip", "--disable-pip-version-check", *target, "install", "-q", *requirements]
    _call(command, f"pip install {' '.join(requirements)}")


def _call(command: Sequence[str], what: str) -> None:
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=_LONGEST_INSTALL_SECONDS, check=False, cwd=PROJECT
    )
    if ended.returncode:
        errors = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or ended.stderr.splitlines()
        raise InstallError(f"{what} failed: {errors[-1] if errors else 'no message'}")


def _ask(python: Path, script: str, *arguments: str, is_wanted: bool = True) -> str:
    command = [str(python), "-c", script, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode and is_wanted:
        raise InstallError(f"{python} does not run: {ended.stderr.strip()}")
    return ended.stdout.strip()
