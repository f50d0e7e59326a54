"""What `pip install pytest-agentv` brings into the environment of the application under test."""

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

MAX_MEGABYTES = 70
"""Of the files that pip unpacks. Python adds its compiled modules, about two fifths more."""

MAX_DISTRIBUTIONS = 45
HEAVY = {"litellm", "openai", "anthropic", "numpy", "pandas", "requests", "scipy", "tokenizers", "huggingface-hub"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required_by(root: str) -> dict[str, Distribution]:
    """Return the distributions that a plain installation has, found from what each requires without extras."""
    found: dict[str, Distribution] = {}
    waiting = [(root, frozenset[str]())]
    while waiting:
        name, extras = waiting.pop()
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform
        is_known = normal(name) in found
        found[normal(name)] = dist
        for text in dist.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if is_known and not extras:
                continue
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def megabytes(dist: Distribution) -> float:
    paths = [path.locate() for path in dist.files or () if path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6  # type: ignore[attr-defined]


def test_an_installation_is_light() -> None:
    found = required_by("pytest-agentv")
    weights = sorted(((megabytes(dist), name) for name, dist in found.items()), reverse=True)
    assert "aiohttp" in found
    assert sum(weight for weight, _ in weights) < MAX_MEGABYTES, weights[:8]
    assert len(found) <= MAX_DISTRIBUTIONS, sorted(found)
    assert HEAVY.isdisjoint(found)
