"""Names items: turns the id of a case into a part of a node id."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_agentv.loading.files.discovery import SUFFIXES

# pytest 9.2 splits node ids at `::` and `[`. VS Code passes them on as lines and drops every other line break.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")

_COLONS = re.compile(r":{2,}")


def clean_name(eval_id: str) -> str:
    """Return a name that selects the case in pytest, xdist and IDEs; empty for an id without any safe character."""
    name = _UNSAFE.sub(" ", eval_id).replace("[", "(").replace("]", ")")
    return _COLONS.sub(":", name).strip()


def unique_names(eval_ids: Iterable[str | None]) -> Iterator[str]:
    """Yield one name per case, in order. Equal names get `-2`, `-3` and so on.

    The names depend only on the content of the file, because every xdist worker needs the same ones. An id that is a
    valid name is kept, so a new case above renames no other case.
    """
    ids = list(eval_ids)
    bases = [clean_name(eval_id or "") or "unnamed" for eval_id in ids]
    kept = {base for eval_id, base in zip(ids, bases, strict=True) if eval_id == base}
    taken: set[str] = set()
    copies: Counter[str] = Counter()
    for eval_id, base in zip(ids, bases, strict=True):
        name = base
        while name in taken or (name in kept and name != eval_id):
            copies[base] += 1
            name = f"{base}-{copies[base] + 1}"
        taken.add(name)
        yield name


def may_be_eval(node_id: str) -> bool:
    """Whether an item may be a case of an eval file, by its suffix. Other plugins have YAML items as well."""
    return Path(node_id.partition("::")[0]).suffix in SUFFIXES


def is_evaluation(item: object) -> bool:
    """Whether an item is a case, or a test that evaluates."""
    return hasattr(item, "entry") or "agentv" in getattr(item, "fixturenames", ())
