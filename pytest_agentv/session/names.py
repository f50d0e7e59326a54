"""Names of items: what a case's id becomes in a node id."""

import re
from collections.abc import Iterable, Iterator

# pytest 9.2 takes node ids apart at `::` and `[`; VS Code hands them on a line each and loses every other line break.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def clean_name(eval_id: str) -> str:
    """Return a name that pytest, xdist and IDEs can select the case by; empty for an id of unsafe signs only."""
    name = _UNSAFE.sub(" ", eval_id).replace("[", "(").replace("]", ")")
    return re.sub(r":{2,}", ":", name).strip()


def unique_names(eval_ids: Iterable[str | None]) -> Iterator[str]:
    """Yield one name per case, in order; a name that was there before gets `-2`, `-3` and so on.

    The names depend on the file's content only: xdist needs the same ones in every worker.
    """
    seen: set[str] = set()
    for number, eval_id in enumerate(eval_ids, start=1):
        base = clean_name(eval_id or "") or f"unnamed-{number}"
        name, copy = base, 1
        while name in seen:
            copy += 1
            name = f"{base}-{copy}"
        seen.add(name)
        yield name
