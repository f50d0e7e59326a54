"""`--agentv-shard`: what it accepts, and which shard a name falls to."""

from collections import Counter

import pytest

from pytest_agentv.model.options import Shard, parse_shard
from pytest_agentv.session.selecting import shard_of


@pytest.mark.parametrize(("text", "shard"), [("2/8", Shard(2, 8)), (" 1 / 1 ", Shard(1, 1)), ("12/12", Shard(12, 12))])
def test_a_shard_is_read(text, shard):
    assert parse_shard(text) == shard


def test_a_name_falls_to_the_same_shard_everywhere():
    names = ["evals/a.eval.yaml::tent", "evals/a.eval.yaml::Zelt-ä", "evals/a.eval.yaml::\ud800"]
    assert [shard_of(name, 8) for name in names] == [3, 8, 5]


def test_shards_are_about_equal():
    counts = Counter(shard_of(f"evals/a.eval.yaml::case-{number}", 8) for number in range(8000))
    assert sorted(counts) == list(range(1, 9))
    assert all(900 < count < 1100 for count in counts.values())
