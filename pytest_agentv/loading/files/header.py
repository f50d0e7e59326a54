"""Reads the keys of an eval file that apply to all its cases."""

from typing import NamedTuple

from pytest_agentv.loading.files.entries import Shared
from pytest_agentv.loading.files.layers import Layer
from pytest_agentv.loading.keys import (
    FILE_EXECUTION_KEYS,
    HEADER_KEYS,
    is_refused,
    min_pass_rate_at,
    repeat_at,
    threshold_at,
    warn_of_evaluator_word,
    warn_of_unread_lists,
    warn_of_unread_twins,
)
from pytest_agentv.loading.places import Place, mapping_at, text_at, warn_of_unknown_keys
from pytest_agentv.models.base import JsonObject


class Header(NamedTuple):
    """The checked keys of the file that collection reads."""

    dataset: str | None
    target: str | None
    threshold: float | None
    repeat: int | None
    min_pass_rate: float | None
    shared: Shared


def read_header(header: JsonObject, place: Place) -> Header:
    """Return the keys at file level. Notes faults. Those of class `UnreadKey` are faults of its cases.

    For the target, `execution` wins; for the threshold, the key beside it. Source: agentv-formats 1.2.
    """
    execution, execution_place = mapping_at(header, "execution", place), place.at("execution")
    targets = (text_at(execution, "target", execution_place), text_at(header, "target", place))
    thresholds = (threshold_at(header, place), threshold_at(execution, execution_place))
    known = Header(
        dataset=text_at(header, "dataset", place),
        target=next(filter(None, targets), None),
        threshold=next((threshold for threshold in thresholds if threshold is not None), None),
        repeat=repeat_at(header, place),
        min_pass_rate=min_pass_rate_at(header, place),
        shared=Shared(mapping_at(header, "vars", place), _defaults(header, place), _template(header, place)),
    )
    warn_of_unknown_keys(header, HEADER_KEYS, place, is_refused)
    warn_of_unknown_keys(execution, FILE_EXECUTION_KEYS, execution_place, is_refused)
    warn_of_evaluator_word(header, place)
    warn_of_unread_lists(header, place)
    warn_of_unread_twins(header, place)
    return known


def _defaults(header: JsonObject, place: Place) -> Layer | None:
    defaults = mapping_at(header, "defaults", place)
    if "id" in defaults:
        place.at("defaults", "id").error("each case needs an id of its own")
    return Layer(defaults, place.source, ("defaults",)) if defaults else None


def _template(header: JsonObject, place: Place) -> Layer | None:
    if header.get("case") is None:
        return None
    template = mapping_at(header, "case", place)
    if template.get("id") is None and isinstance(header["case"], dict):
        place.at("case", "id").error("is missing: expected a text that names each row, such as q-{{ number }}")
    return Layer(template, place.source, ("case",))
