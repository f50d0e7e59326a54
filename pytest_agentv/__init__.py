"""pytest-agentv: LLM and agent evaluations, written as YAML, run as ordinary pytest items.

`__init__.pyi` beside this file lists the public names, and `docs/api.md` describes them. A name is imported when it is
first used: every pytest run of a project that has the plugin installed, and every judge script that uses
`pytest_agentv.sdk`, pays for what this file loads.

PYTEST_DONT_REWRITE: `agentv eval` has imported this file when pytest starts, which would be a warning otherwise.
"""

import sys

__version__ = "0.1.0"


class _AsInstalled:
    """Loads the modules of the package as any others.

    pytest would compile those of a plugin anew to rewrite their asserts: a second in the first run after an
    installation, and in each run where Python writes no bytecode, as in many containers.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith("pytest_agentv.") or "pytest" not in sys.modules:
            return None
        from importlib.machinery import PathFinder  # noqa: PLC0415 - see above

        return PathFinder.find_spec(name, path, target)


sys.meta_path.insert(0, _AsInstalled)


def _homes():
    """Return the module of each public name."""
    import re  # noqa: PLC0415 - see above

    with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as stub:  # noqa: PTH123 - pathlib is slow to import
        return {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", stub.read(), re.MULTILINE)}


def __getattr__(name):
    """Import a public name when it is first used."""
    if name == "__all__":
        return [*_homes(), "__version__"]
    if name.startswith("_") or (module := _homes().get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__():
    """Return all names, for editors and consoles."""
    return sorted({*globals(), *_homes()})
