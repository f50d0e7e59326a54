"""Our formulas against scipy, statsmodels, krippendorff and evalstats, 500 random inputs each.

They are not installed with the project: `pip install 'pytest-agentv[oracles]'`, then `pytest -m oracle`.
"""

import importlib
import math
import pkgutil
import random

import pytest

from pytest_agentv.stats.comparison import (
    benjamini_hochberg,
    fisher_less,
    kappa,
    krippendorff_alpha,
    tango,
)
from pytest_agentv.stats.intervals import spread, t_quantile, t_upper_tail, wilson

pytestmark = pytest.mark.oracle
ROUNDS = 500


@pytest.fixture
def rng():
    return random.Random(17)


@pytest.fixture
def stats():
    return pytest.importorskip("scipy.stats")


def test_quantiles_and_tails_of_t(rng, stats):
    for _ in range(ROUNDS):
        df = rng.choice([rng.randint(1, 30), rng.randint(30, 5000)])
        p, t = rng.uniform(0.5, 0.9995), rng.uniform(-6, 6)
        assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-12)
        assert t_upper_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-9)


def test_intervals_of_shares(rng):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for _ in range(ROUNDS):
        n = rng.randint(1, 400)
        s = rng.randint(0, n)
        ours, (low, high) = wilson(s / n, n), proportion.proportion_confint(s, n, method="wilson")
        assert ours.low == pytest.approx(low, abs=1e-9)
        assert ours.high == pytest.approx(high, abs=1e-9)


def test_fisher(rng, stats):
    for _ in range(ROUNDS):
        n, before = rng.randint(1, 30), rng.randint(1, 30)
        s, s_before = rng.randint(0, n), rng.randint(0, before)
        theirs = stats.fisher_exact([[s, n - s], [s_before, before - s_before]], alternative="less").pvalue
        assert fisher_less(s, n, s_before, before) == pytest.approx(theirs, rel=1e-9)


def test_adjusted_p_values(rng):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    for _ in range(ROUNDS):
        p_values = [rng.random() ** 3 for _ in range(rng.randint(1, 40))]
        assert benjamini_hochberg(p_values) == pytest.approx(
            list(multitest.multipletests(p_values, method="fdr_bh")[1])
        )


def test_standard_errors_of_groups(rng):
    regression = pytest.importorskip("statsmodels.api")
    for _ in range(ROUNDS):
        count = rng.randint(4, 60)
        groups = [rng.randint(0, count // 2) for _ in range(count)]
        if len(set(groups)) < 2:
            continue
        values = [rng.random() for _ in range(count)]
        model = regression.WLS(values, [1.0] * count)
        # Without statsmodels' factor (n - 1) / (n - k), which is 1 for a mean, only C / (C - 1) remains.
        fit = model.fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True})
        assert spread(values, groups).error == pytest.approx(float(fit.bse[0]), rel=1e-9)


def test_tango(rng):
    evalstats = pytest.importorskip("evalstats")
    interval = _find(evalstats, "tango_scc_paired_ci")
    for _ in range(ROUNDS):
        n = rng.randint(2, 200)
        wins = rng.randint(0, n)
        losses = rng.randint(0, n - wins)
        before = [0] * wins + [1] * losses + [1] * (n - wins - losses)
        after = [1] * wins + [0] * losses + [1] * (n - wins - losses)
        low, high = interval(after, before, 0.05, 0.0)
        ours = tango(wins, losses, n)
        assert (ours.low, ours.high) == pytest.approx((low, high), abs=1e-6)


def test_kappa(rng):
    raters = pytest.importorskip("statsmodels.stats.inter_rater")
    for _ in range(ROUNDS):
        count, categories = rng.randint(3, 60), rng.randint(2, 5)
        first = [rng.randrange(categories) for _ in range(count)]
        second = [value if rng.random() < 0.6 else rng.randrange(categories) for value in first]
        ours = kappa(first, second)
        if ours is None:
            continue
        table = [[0] * categories for _ in range(categories)]
        for a, b in zip(first, second, strict=True):
            table[a][b] += 1
        for weighting, wt in (("none", None), ("linear", "linear"), ("quadratic", "quadratic")):
            theirs = raters.cohens_kappa(_array(table), return_results=False, wt=wt)
            assert kappa(first, second, weighting) == pytest.approx(float(theirs), rel=1e-9, abs=1e-12)


def test_krippendorffs_alpha(rng):
    krippendorff = pytest.importorskip("krippendorff")
    for _ in range(ROUNDS):
        units = rng.randint(2, 20)
        table = [[rng.choice([1, 2, 3, 4, None]) for _ in range(units)] for _ in range(rng.randint(2, 4))]
        ratings = [list(unit) for unit in zip(*table, strict=True)]
        paired = {
            value for unit in ratings if sum(v is not None for v in unit) > 1 for value in unit if value is not None
        }
        if len(paired) < 2:
            continue
        data = _array([[math.nan if value is None else value for value in rater] for rater in table])
        for level, weighting in (("nominal", "none"), ("interval", "quadratic")):
            theirs = krippendorff.alpha(reliability_data=data, level_of_measurement=level)
            assert krippendorff_alpha(ratings, weighting) == pytest.approx(theirs, rel=1e-8, abs=1e-9)


def _array(rows):
    return pytest.importorskip("numpy").array(rows, dtype=float)


def _find(package, name):
    """Return a function wherever the package keeps it."""
    if hasattr(package, name):
        return getattr(package, name)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            found = getattr(importlib.import_module(module.name), name, None)
        except ImportError:
            continue
        if found is not None:
            return found
    pytest.skip(f"evalstats has no {name}")
