from enum import Enum
from pathlib import Path


class Topic(str, Enum):
    HOURS = "hours"


def make():
    endless = {"id": 2}
    endless["all"] = [endless]
    yield {"n": 1, "words": ("a", Path("b"))}
    yield "nonsense"
    yield {"n": {1, 2}}
    yield {"id": Topic.HOURS, "words": [Topic.HOURS]}
    yield endless
    yield {"price": float("nan"), "all": [1.5, float("nan")]}


def one_mapping():
    row = {}
    for row["id"] in ("a", "b"):
        yield row
