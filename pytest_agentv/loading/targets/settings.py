"""The `settings:` of a target, in which older files have its keys."""

from pytest_agentv.loading.places import Place
from pytest_agentv.models.base import Json


def merged_settings(entry: dict[str, Json], place: Place) -> dict[str, Json]:
    """Return the target with the keys of its `settings:` mapping merged in. Keys beside it win."""
    flat = {key: value for key, value in entry.items() if key != "settings"}
    settings = entry["settings"]
    if not isinstance(settings, dict):
        place.at("settings").expected("a mapping", settings)
        return flat
    place.at("settings").warn("is an older form", "write its keys directly in the target")
    for key, value in settings.items():
        if key in flat and value not in (None, flat[key]):
            place.at("settings", key).warn(f"is not read, because {key!r} is there as well")
    return {**settings, **flat}
