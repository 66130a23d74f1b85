"""The false-alarm level of the statistical tests, stated once, and the tests that use it.

Every law is tested by a statistic whose distribution is known if the code is right. A statistic
fails the test when it is so extreme that right code would give it with probability at most
`FALSE_ALARM`. The level follows from two numbers:

- `SUITE_FALSE_ALARM`: the chance we accept that right code fails anywhere in the whole suite;
- `N_STATISTICS`: how many statistics the suite has room for, counting every parameter of every
  test. By the union bound, whatever their dependence, FALSE_ALARM = SUITE_FALSE_ALARM /
  N_STATISTICS.

Every seed is fixed, so this chance is taken only when a random stream changes: with the code that
draws, or with numpy. A failure on an unchanged stream is never bad luck.

Two approximations enter. The Kolmogorov-Smirnov tests are conservative when values repeat (a cell
count, a censored time). The z-test and the chi-square test rest on the central limit theorem, which
at this level, for the skewed cell counts of a few thousand partitions, is right within a factor of
about two; `N_STATISTICS` is chosen well above what the suite holds, to cover it.
"""

import numpy as np
from scipy import stats

SUITE_FALSE_ALARM = 1e-3
N_STATISTICS = 1000
FALSE_ALARM = SUITE_FALSE_ALARM / N_STATISTICS


def assert_law(samples, cdf):
    """One-sample Kolmogorov-Smirnov test: ``samples`` have the continuous law ``cdf``."""
    _assert_plausible(stats.kstest(samples, cdf).pvalue, "the samples do not have this law")


def assert_same_law(a, b):
    """Two-sample Kolmogorov-Smirnov test: ``a`` and ``b`` are samples of one law on the line."""
    p_value = stats.ks_2samp(a, b, method="asymp").pvalue
    _assert_plausible(p_value, "the two samples have different laws")


def assert_mean(samples, expected):
    """Two-sided z-test with the sample's own standard error: the mean is ``expected``."""
    samples = np.asarray(samples, dtype=float)
    standard_error = samples.std(ddof=1) / np.sqrt(samples.size)
    p_value = 2 * stats.norm.sf(abs(samples.mean() - expected) / standard_error)
    _assert_plausible(p_value, f"the mean is {samples.mean():.6g}, expected {expected:.6g}")


def assert_close(value, expected, standard_error, *, bias=0.0):
    """Two-sided z-test with a known standard error: ``value`` estimates ``expected``.

    ``bias`` bounds what the estimate may be off by for other reasons than chance.
    """
    p_value = 2 * stats.norm.sf(max(abs(value - expected) - bias, 0.0) / standard_error)
    _assert_plausible(p_value, f"{value:.6g}, expected {expected:.6g} ± {standard_error:.2g}")


def assert_frequencies(counts, probabilities):
    """Chi-square test: ``counts`` are multinomial with these ``probabilities``."""
    counts = np.asarray(counts)
    expected = counts.sum() * np.asarray(probabilities, dtype=float)
    assert expected.min() >= 20, "too few expected in a class for the chi-square law"
    p_value = stats.chisquare(counts, expected).pvalue
    _assert_plausible(p_value, f"counts {counts}, expected {expected.round(1)}")


def assert_same_frequencies(a, b):
    """Chi-square test of homogeneity: ``a`` and ``b`` are counts with the same probabilities."""
    table = np.array([a, b])
    table = table[:, table.sum(axis=0) > 0]
    result = stats.chi2_contingency(table)
    assert result.expected_freq.min() >= 20, "too few expected in a class for the chi-square law"
    _assert_plausible(result.pvalue, f"counts {table[0]} against {table[1]}")


def assert_at_most(n_hits, n_samples, probability):
    """One-sided exact binomial test: the hits have at most this ``probability``."""
    p_value = stats.binom.sf(n_hits - 1, n_samples, min(probability, 1.0))
    _assert_plausible(p_value, f"{n_hits} of {n_samples}, expected at most {probability:.6g}")


def _assert_plausible(p_value, message):
    # Written so that a p-value of NaN, from a constant or empty sample, fails as well.
    assert p_value > FALSE_ALARM, f"{message} (p-value {p_value:.3g}, level {FALSE_ALARM:.3g})"
