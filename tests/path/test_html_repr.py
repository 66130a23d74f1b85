"""What notebooks show of paths and posteriors is sound HTML and says what the objects hold."""

import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

from mondrian_kernel import every_cut_path, lifetime_path, sgd_path
from mondrian_kernel._path.html_repr import density_steps
from mondrian_kernel._path.loss_path import loss_path
from mondrian_kernel._path.result import best_alphas, curves
from mondrian_kernel._path.ridge_path import forest_path

rng = np.random.default_rng(0)
X = rng.uniform(size=(80, 2))
y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=80)
LABELS = (y > 0).astype(int)


def make_paths():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The best lifetime")
        return {
            "loo": lifetime_path(X, y, n_estimators=20, random_state=0),
            "holdout": lifetime_path(
                X[:60], y[:60], n_estimators=20, criterion="holdout",
                validation=(X[60:], y[60:]), random_state=0,
            ),
            "every cut": every_cut_path(X, y, n_estimators=5, max_lifetime=5.0, random_state=0),
            "one lifetime": lifetime_path(X, y, n_estimators=5, lifetimes=[2.0], random_state=0),
            "loss": loss_path(X, LABELS, 2, "log_loss", n_estimators=20),
            "forest": forest_path(X, y[:, None], n_estimators=20),
            "sgd": sgd_path(X, y, alpha=0.1, max_lifetime=5.0, n_estimators=10, random_state=0),
        }  # fmt: skip


PATHS = make_paths()


class Balanced(HTMLParser):
    """Collects the text and fails where tags do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], "", []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def read(html):
    parser = Balanced()
    parser.feed(html)
    assert not parser.open
    return parser


@pytest.mark.parametrize("name", PATHS)
def test_path_is_shown_with_its_best(name):
    path = PATHS[name]
    page = read(path._repr_html_())
    assert type(path).__name__ in page.text
    assert f"{path.best_lifetime:.4g}" in page.text
    assert ("svg" in page.tags) == (path.lifetimes.size > 1)
    assert "best alpha" in page.text
    assert f"{path.best_lifetime:.4g}" in repr(path)


def test_interrupted_path_says_so():
    assert "interrupted" not in PATHS["loo"]._repr_html_()

    def stop(done, total, info):
        raise KeyboardInterrupt

    path = lifetime_path(X, y, n_estimators=20, max_lifetime=5.0, random_state=0, callback=stop)
    assert "interrupted" in path._repr_html_()


def test_posterior_is_shown_with_its_interval():
    posterior = PATHS["loo"].posterior(stats.loguniform(0.01, 100))
    page = read(posterior._repr_html_())
    low, high = posterior.interval(0.9)
    assert f"{low:.4g} to {high:.4g}" in page.text
    assert "svg" in page.tags


@pytest.mark.parametrize("name", ["loo", "every cut"])
def test_density_of_log_lifetime_has_the_posterior_weights(name):
    path = PATHS[name]
    positive = path.lifetimes[path.lifetimes > 0]
    posterior = path.posterior(stats.loguniform(positive[0], positive[-1]))
    edges, density = density_steps(posterior)
    assert (edges > 0).all()
    mass = density * np.diff(np.log(edges))
    np.testing.assert_allclose(mass.sum(), 1.0)
    low, high = posterior.interval(0.9)
    inside = (edges[:-1] < high) & (edges[1:] > low)
    assert mass[inside].sum() >= 0.9


class TestCurves:
    @pytest.mark.parametrize(
        ("name", "criterion", "attribute"),
        [("loo", "loo", "loo_error"), ("holdout", "holdout", "validation_error"),
         ("loss", "holdout", "validation_loss"), ("forest", "loo", "loo_error"),
         ("sgd", "train", "train_loss")],
    )  # fmt: skip
    def test_own_criterion_is_what_decided(self, name, criterion, attribute):
        path = PATHS[name]
        assert path.criterion == criterion
        curve = curves(path)[criterion]
        held = getattr(path, attribute)
        np.testing.assert_array_equal(curve.values, held.reshape(path.lifetimes.size, -1))
        k, a = np.unravel_index(np.nanargmin(curve.values), curve.values.shape)
        assert path.lifetimes[k] == path.best_lifetime
        assert best_alphas(path)[k] == a

    def test_only_what_a_path_holds(self):
        assert set(curves(PATHS["loo"])) == {"loo", "train", "evidence", "evidence-paper"}
        assert set(curves(PATHS["forest"])) == {"loo"}
        assert set(curves(PATHS["loss"])) == {"holdout", "train"}
