"""Statistics against SciPy, textbook values, exact laws, and simulated coverage."""

from __future__ import annotations

import dataclasses
import doctest
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.stats

from spaql import stats

# Student's sleep data (1908): extra hours of sleep under two drugs, ten patients.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_docstring_examples() -> None:
    assert doctest.testmod(stats).failed == 0


def test_importing_does_not_import_scipy() -> None:
    # Loaded by path, because the package around it may need SciPy for reasons of its own.
    check = (
        "import importlib.util as u, sys; "
        f"spec = u.spec_from_file_location('stats', {stats.__file__!r}); "
        "sys.modules['stats'] = module = u.module_from_spec(spec); spec.loader.exec_module(module); "
        "sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


class TestEstimate:
    def test_properties(self) -> None:
        estimate = stats.Estimate(4.213, 4.201, 4.225, 0.05, 25)
        assert estimate.interval == (4.201, 4.225)
        assert estimate.half_width == pytest.approx(0.012)
        with pytest.raises(dataclasses.FrozenInstanceError):
            estimate.mean = 0.0  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("values", "text"),
        [
            ((4.213, 4.201, 4.225), "4.213 [4.201, 4.225]"),
            ((-153.2, -178.4, -128.1), "-153 [-178, -128]"),
            ((3.75, 3.75, 3.75), "3.750 [3.750, 3.750]"),
            ((1.0, -math.inf, math.inf), "1.000 (no interval)"),
            ((-0.0001, -0.02, 0.02), "0.000 [-0.020, 0.020]"),
            ((1e-5, 0.9e-5, 1.1e-5), "0.0000100 [0.0000090, 0.0000110]"),
        ],
    )
    def test_text(self, values: tuple[float, float, float], text: str) -> None:
        assert str(stats.Estimate(*values, deviation=1.0, count=9)) == text


class TestMeanInterval:
    def test_textbook(self) -> None:
        # R: t.test(sleep$extra[sleep$group == 2])
        estimate = stats.mean_interval(DRUG_2)
        assert estimate.mean == pytest.approx(2.33)
        assert estimate.interval == pytest.approx((0.8976775, 3.7623225), abs=1e-7)
        assert estimate.count == 10

    @pytest.mark.parametrize("count", [2, 3, 20, 25, 1000])
    @pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
    def test_against_scipy(self, count: int, confidence: float) -> None:
        values = np.random.default_rng(count).gamma(2.0, size=count) - 5.0
        estimate = stats.mean_interval(values, confidence)
        expected = scipy.stats.t.interval(confidence, count - 1, values.mean(), scipy.stats.sem(values))
        assert estimate.interval == pytest.approx(expected, rel=1e-9)
        assert estimate.deviation == pytest.approx(np.std(values, ddof=1))

    def test_one_value(self) -> None:
        estimate = stats.mean_interval([4.2])
        assert estimate.mean == 4.2
        assert estimate.interval == (-math.inf, math.inf)
        assert math.isnan(estimate.deviation)
        assert estimate.half_width == math.inf

    @pytest.mark.parametrize("value", [0.1, -1 / 3, 0.0, 1e300])
    def test_constant_values_have_zero_width(self, value: float) -> None:
        estimate = stats.mean_interval([value] * 3)
        assert (estimate.mean, estimate.interval, estimate.deviation) == (value, (value, value), 0.0)

    def test_shift_and_reflection(self) -> None:
        plain, shifted = stats.mean_interval(DRUG_1), stats.mean_interval(np.array(DRUG_1) - 100)
        mirrored = stats.mean_interval(-np.array(DRUG_1))
        assert shifted.interval == pytest.approx((plain.low - 100, plain.high - 100))
        assert mirrored.interval == pytest.approx((-plain.high, -plain.low))

    def test_coverage(self) -> None:
        samples = np.random.default_rng(0).normal(3.0, 2.0, size=(6, 4000))  # 4000 experiments of six values
        band = stats.mean_interval(samples)
        assert 0.93 < np.mean((band.low <= 3.0) & (band.high >= 3.0)) < 0.97

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([], "empty"),
            ([1.0, math.nan], "1 of 2 are NaN"),
            ([math.inf, 1.0, math.nan], "2 of 3"),
            ([[[1.0, 2.0]]], "one sample or one per column"),
            (3.0, "one sample or one per column"),
        ],
    )
    def test_bad_values(self, values: object, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            stats.mean_interval(values)  # type: ignore[arg-type]

    @pytest.mark.parametrize("confidence", [0.0, 1.0, 95, -1, math.nan])
    def test_bad_confidence(self, confidence: float) -> None:
        with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
            stats.mean_interval([1.0, 2.0], confidence)

    def test_input_is_not_changed(self) -> None:
        values = np.array([3.0, 1.0, 2.0])
        stats.mean_interval(values)
        stats.interquartile_mean(values, seed=0, resamples=10)
        assert values.tolist() == [3.0, 1.0, 2.0]


class TestMeanBand:
    def test_columns_are_mean_intervals(self) -> None:
        curves = np.random.default_rng(1).normal(size=(5, 7))
        curves[:, 3] = 0.1
        band = stats.mean_interval(curves, 0.9)
        for column in range(7):
            estimate = stats.mean_interval(curves[:, column], 0.9)
            found = band.mean[column], band.low[column], band.high[column]
            assert found == pytest.approx((estimate.mean, *estimate.interval))

    def test_one_run(self) -> None:
        band = stats.mean_interval([[1.0, 2.0]])
        assert band.mean.tolist() == [1.0, 2.0]
        assert np.isneginf(band.low).all()
        assert np.isposinf(band.high).all()

    @pytest.mark.parametrize("curves", [np.ones((2, 2, 2)), np.empty((0, 3)), [[1.0, math.nan]]])
    def test_bad_curves(self, curves: object) -> None:
        with pytest.raises(ValueError, match=r"values (must|is empty)"):
            stats.mean_interval(curves)  # type: ignore[arg-type]


class TestWelch:
    def test_textbook(self) -> None:
        # R: t.test(extra ~ group, data = sleep)
        result = stats.welch(DRUG_1, DRUG_2)
        assert result.statistic == pytest.approx(-1.8608, abs=1e-4)
        assert result.degrees_of_freedom == pytest.approx(17.776, abs=1e-3)
        assert result.p_value == pytest.approx(0.07939, abs=1e-5)
        assert result.difference == pytest.approx(-1.58)

    @pytest.mark.parametrize(("first", "second"), [(2, 2), (3, 20), (25, 25), (400, 2)])
    def test_against_scipy(self, first: int, second: int) -> None:
        random = np.random.default_rng(first)
        a, b = random.normal(-7.0, 1.0, first), random.normal(-6.0, 3.0, second)
        result, expected = stats.welch(a, b), scipy.stats.ttest_ind(a, b, equal_var=False)
        assert result.statistic == pytest.approx(expected.statistic)
        assert result.p_value == pytest.approx(expected.pvalue)
        assert result.degrees_of_freedom == pytest.approx(expected.df)

    def test_sign_survives_negative_returns(self) -> None:
        result = stats.welch([-10.0, -11.0, -10.5], [-20.0, -21.0, -20.5])
        assert result.difference > 0
        assert result.statistic > 0

    def test_swapping_changes_the_sign_only(self) -> None:
        one, other = stats.welch(DRUG_1, DRUG_2), stats.welch(DRUG_2, DRUG_1)
        assert one.statistic == pytest.approx(-other.statistic)
        assert one.p_value == pytest.approx(other.p_value)

    def test_constant_samples(self) -> None:
        same, less = stats.welch([0.1] * 3, [0.1] * 7), stats.welch([0.1] * 3, [0.2] * 7)
        assert (same.statistic, same.p_value, same.difference) == (0.0, 1.0, 0.0)
        assert (less.statistic, less.p_value) == (-math.inf, 0.0)
        assert same.degrees_of_freedom == less.degrees_of_freedom == 8

    def test_one_constant_sample(self) -> None:
        assert stats.welch([1.0, 1.0, 1.0], DRUG_1).degrees_of_freedom == pytest.approx(9)

    def test_tiny_values_do_not_underflow(self) -> None:
        plain, tiny = stats.welch(DRUG_1, DRUG_2), stats.welch(1e-100 * np.array(DRUG_1), 1e-100 * np.array(DRUG_2))
        assert tiny.p_value == pytest.approx(plain.p_value)
        assert tiny.degrees_of_freedom == pytest.approx(plain.degrees_of_freedom)

    def test_false_alarms(self) -> None:
        random = np.random.default_rng(2)
        p_values = [stats.welch(random.normal(size=8), random.normal(scale=4, size=12)).p_value for _ in range(1500)]
        assert 0.03 < np.mean(np.array(p_values) < 0.05) < 0.07

    @pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], [1.0, 2.0]), ([1.0, math.nan], [1.0, 2.0])])
    def test_bad_values(self, a: list[float], b: list[float]) -> None:
        with pytest.raises(ValueError, match=r"two values|empty|NaN"):
            stats.welch(a, b)


class TestHolm:
    def test_textbook(self) -> None:
        # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
        assert stats.holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])

    def test_order_is_kept_and_values_are_capped(self) -> None:
        assert stats.holm([0.9, 0.001, 0.6]) == pytest.approx([1.0, 0.003, 1.0])

    def test_laws(self) -> None:
        raw = np.random.default_rng(3).uniform(size=50) ** 3
        adjusted = stats.holm(raw)
        assert np.all(adjusted >= raw)
        assert np.all(np.diff(adjusted[np.argsort(raw)]) >= 0)
        assert adjusted.min() == pytest.approx(min(50 * raw.min(), 1.0))

    def test_one_and_none(self) -> None:
        assert stats.holm([0.2]).tolist() == [0.2]
        assert stats.holm([]).size == 0

    def test_family_error_rate(self) -> None:
        families = np.random.default_rng(4).uniform(size=(3000, 12))
        assert 0.035 < np.mean([stats.holm(family).min() <= 0.05 for family in families]) < 0.065

    @pytest.mark.parametrize("p_values", [[0.1, math.nan], [1.2], [-0.1], [[0.1, 0.2]]])
    def test_bad_values(self, p_values: object) -> None:
        with pytest.raises(ValueError, match="in \\[0, 1\\]"):
            stats.holm(p_values)  # type: ignore[arg-type]


def point(values: object) -> float:
    return stats.interquartile_mean(values, seed=0, resamples=1).mean  # type: ignore[arg-type]


class TestInterquartileBands:
    def test_against_scipy(self) -> None:
        values = np.random.default_rng(5).gamma(2.0, size=60)
        found = stats.interquartile_mean(values, seed=0, resamples=20_000)
        expected = scipy.stats.bootstrap(
            (values,), point, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
        ).confidence_interval
        assert found.interval == pytest.approx((expected.low, expected.high), abs=0.03)

    def test_seed(self) -> None:
        def ends(seed: int) -> list[float]:
            return stats.interquartile_mean(np.transpose([DRUG_1]), seed=seed, resamples=500).low.tolist()

        assert ends(0) == ends(0)
        assert ends(0) != ends(1)
        with pytest.raises(TypeError):
            ends(None)  # type: ignore[arg-type]

    def test_coverage(self) -> None:
        random = np.random.default_rng(7)
        bands = [stats.interquartile_mean(random.normal(size=(40, 1)), seed=i, resamples=400) for i in range(500)]
        assert 0.89 < np.mean([band.low[0] <= 0 <= band.high[0] for band in bands]) < 0.98

    def test_bad_input(self) -> None:
        with pytest.raises(ValueError, match="at least one number"):
            stats.interquartile_mean(np.empty((0, 2)), seed=0)


class TestInterquartileMean:
    @pytest.mark.parametrize("count", [4, 8, 100])
    def test_against_trimmed_mean(self, count: int) -> None:
        values = np.random.default_rng(count).standard_cauchy(count)
        assert point(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25))

    @pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 25])
    def test_fractional_weights_equal_repeating_every_value_four_times(self, count: int) -> None:
        values = np.random.default_rng(count).normal(size=count)
        expected = scipy.stats.trim_mean(np.repeat(values, 4), 0.25)
        assert point(values) == pytest.approx(expected)

    def test_outliers_do_not_matter(self) -> None:
        assert point([-1e9, 1, 2, 3, 4, 5, 6, 1e9]) == pytest.approx(3.5)

    @pytest.mark.parametrize("values", [[], [math.nan, 1.0]])
    def test_bad_values(self, values: list[float]) -> None:
        with pytest.raises(ValueError, match=r"empty|NaN"):
            point(values)


class TestCombination:
    def test_the_difference_of_two_means_is_welchs(self):
        random = np.random.default_rng(0)
        a, b = random.normal(1.0, 1.0, 9), random.normal(0.5, 3.0, 14)
        found, test = stats.combination([a, b], [1, -1]), stats.welch(a, b)
        reference = scipy.stats.ttest_ind(a, b, equal_var=False).confidence_interval()
        assert found.mean == pytest.approx(test.difference)
        assert found.interval == pytest.approx((reference.low, reference.high))

    def test_one_sample_is_its_mean(self):
        values = [4.1, 4.3, 4.2, 4.4]
        found, plain = stats.combination([values], [2.0]), stats.mean_interval(values)
        assert (found.mean, *found.interval) == pytest.approx((2 * plain.mean, 2 * plain.low, 2 * plain.high))

    def test_it_covers_as_often_as_it_says(self):
        random = np.random.default_rng(1)
        spreads, sizes, weights = (0.1, 1.0, 3.0), (5, 10, 20), (0.5, -1.0, 0.25)
        truth = sum(w * m for w, m in zip(weights, (1.0, 2.0, 3.0), strict=True))
        hits = 0
        for _ in range(2000):
            samples = [random.normal(m, s, n) for m, s, n in zip((1.0, 2.0, 3.0), spreads, sizes, strict=True)]
            low, high = stats.combination(samples, weights).interval
            hits += low <= truth <= high
        assert 0.93 < hits / 2000 < 0.97

    def test_edges(self):
        assert stats.combination([[1.0, 1.0], [2.0, 2.0]], [1, 1]).interval == (3.0, 3.0)
        assert stats.combination([[1.0], [2.0, 3.0]], [1, 1]).interval == (-math.inf, math.inf)
        with pytest.raises(ValueError, match="2 samples need as many weights, not 1"):
            stats.combination([[1.0, 2.0], [1.0, 2.0]], [1.0])


# Many samples at once, and the probability of improvement


def test_the_probability_of_improvement_is_that_of_all_pairs() -> None:
    random = np.random.default_rng(5)
    a, b = random.integers(0, 6, 9).astype(float), random.integers(1, 7, 7).astype(float)
    found = stats.probability_of_improvement(a, b, seed=3, resamples=50)

    def slow(ours: list[float], theirs: list[float]) -> float:
        return sum((x > y) + 0.5 * (x == y) for x in ours for y in theirs) / (len(ours) * len(theirs))

    assert found.mean == pytest.approx(slow(a.tolist(), b.tolist()))
    drawn = [np.random.default_rng((3, n, side)).integers(n, size=(50, n)) for side, n in enumerate((9, 7))]
    replicates = [
        slow(np.sort(a)[ours].tolist(), np.sort(b)[theirs].tolist()) for ours, theirs in zip(*drawn, strict=True)
    ]
    assert found.interval == pytest.approx(np.quantile(replicates, [0.025, 0.975]).tolist())
    assert stats.probability_of_improvement(b, a, seed=3).mean == pytest.approx(1 - found.mean)


def test_one_value_says_nothing_of_the_probability_of_improvement() -> None:
    assert stats.probability_of_improvement([1.0], [0.0, 2.0], seed=0).interval == (0.0, 1.0)
    with pytest.raises(ValueError, match="finite"):
        stats.probability_of_improvement([np.nan], [0.0], seed=0)


def test_the_interval_of_the_probability_covers_it() -> None:
    random = np.random.default_rng(0)
    samples, baseline = random.normal(0.5, 1.0, (40, 300)), random.normal(0.0, 1.0, (300, 40))
    true = 0.6382  # of the difference of two normal variables being above 0
    bands = [stats.probability_of_improvement(samples[:, [at]], baseline[at], seed=0) for at in range(300)]
    covered = np.mean([band.low[0] <= true <= band.high[0] for band in bands])
    assert 0.89 < covered < 0.98


def test_interquartile_bands_are_a_percentile_bootstrap() -> None:
    random = np.random.default_rng(1)
    samples = random.normal(size=(11, 4))
    found = stats.interquartile_mean(samples, seed=7, resamples=60)
    drawn = np.random.default_rng((7, 11)).integers(11, size=(60, 11))
    for at, column in enumerate(samples.T):
        replicates = [point(np.sort(column)[again]) for again in drawn]
        assert found.mean[at] == pytest.approx(point(column))
        assert (found.low[at], found.high[at]) == pytest.approx(np.quantile(replicates, [0.025, 0.975]).tolist())


def test_intervals_do_not_depend_on_the_size_of_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.random.default_rng(3).normal(size=(30, 300)).round(1)
    baseline = np.random.default_rng(4).normal(size=50).round(1)

    def found() -> list[list[float]]:
        bands = [
            stats.interquartile_mean(samples, seed=1, resamples=200),
            stats.probability_of_improvement(samples, baseline, seed=1, resamples=200),
        ]
        return [ends.tolist() for band in bands for ends in (band.mean, band.low, band.high)]

    first = found()
    monkeypatch.setattr(stats, "_BLOCK", 350)  # 7 resamples at once, and 4 at the end
    assert found() == first


def test_the_interval_of_the_probability_is_that_of_a_textbook_bootstrap() -> None:
    random = np.random.default_rng(11)
    a, b = random.normal(0.4, 1.0, 40).round(1), random.normal(0.0, 1.5, 30).round(1)
    above = 0.5 * ((a[:, np.newaxis] > b) * 1.0 + (a[:, np.newaxis] >= b))
    replicates = [above[np.ix_(random.integers(40, size=40), random.integers(30, size=30))].mean() for _ in range(5000)]
    found = stats.probability_of_improvement(a, b, seed=0, resamples=5000)
    assert found.mean == pytest.approx(above.mean())
    # An end of 5,000 resamples is known to about 0.04 deviations; the two are independent.
    assert found.interval == pytest.approx(np.quantile(replicates, [0.025, 0.975]), abs=0.2 * np.std(replicates))


def test_large_samples_have_the_intervals_that_the_bootstrap_tends_to(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(12)
    samples = np.stack([random.normal(size=2400), random.exponential(size=2400), np.ones(2400)], axis=1).round(2)
    baseline = random.normal(0.5, 2.0, 1700).round(2)

    def found() -> list[stats.Estimate]:
        return [
            stats.interquartile_mean(samples, seed=1, resamples=2000),
            stats.probability_of_improvement(samples, baseline, seed=1, resamples=2000),
        ]

    monkeypatch.setattr(stats, "_draw", None)  # nothing is drawn
    limits = found()
    monkeypatch.undo()
    monkeypatch.setattr(stats, "LARGE", 10_000)
    for limit, drawn in zip(limits, found(), strict=True):
        widths = drawn.high - drawn.low
        np.testing.assert_array_equal(limit.mean, drawn.mean)
        assert (np.abs(limit.low - drawn.low) <= 0.06 * widths).all()
        assert (np.abs(limit.high - drawn.high) <= 0.06 * widths).all()
        assert (limit.high - limit.low)[:2] == pytest.approx(widths[:2], rel=0.08)
    constant = limits[0]
    assert constant.low[2] == constant.high[2] == 1.0


def test_memory_stays_bounded_for_many_values() -> None:
    random = np.random.default_rng(13)
    for values, columns in ((20_000, 2), (2_000, 3)):
        samples = random.normal(size=(values, columns))
        tracemalloc.start()
        try:
            stats.interquartile_mean(samples, seed=0)
            stats.probability_of_improvement(samples[:, 1:], samples[:, 0], seed=0)
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 100e6
        assert kept < 10e6


def test_constant_columns_have_intervals_of_no_width() -> None:
    band = stats.interquartile_mean(np.full((7, 2), 0.1), seed=0)
    assert (band.mean == 0.1).all()
    assert (band.low == 0.1).all()
    assert (band.high == 0.1).all()
    assert np.isinf(stats.interquartile_mean(np.ones((1, 2)), seed=0).high).all()
    with pytest.raises(ValueError, match="values must be one sample or one per column"):
        stats.interquartile_mean(np.ones((3, 3, 3)), seed=0)


def test_welch_of_columns_is_that_of_each() -> None:
    random = np.random.default_rng(2)
    samples, baseline = random.normal(size=(5, 3)), random.normal(size=8)
    samples[:, 2] = 1.0
    found = stats.welch(samples, baseline)
    for at, column in enumerate(samples.T):
        one = stats.welch(column, baseline)
        assert (found.p_value[at], found.statistic[at], found.difference[at]) == (
            one.p_value, one.statistic, one.difference
        )  # fmt: skip
    still = stats.welch(samples[:, 2:], np.ones(4))
    assert (still.p_value[0], still.statistic[0], still.degrees_of_freedom[0]) == (1.0, 0.0, 7.0)
