"""A report is whole, says true numbers, and holds nothing that a name could break."""

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from app.report.report_cases import MAKERS, NASTY, TREES, Case, heights, rows
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.app.measure import Measured
from mondrian_kernel.app.report import write_report
from mondrian_kernel.app.report.page import number, percent, plain, script_json

VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """A page read strictly: matching tags, ids, text outside of scripts, and the data."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.text, self.references, self.tags = [], [], "", [], []
        self.data = ""
        self.feed(text)
        assert not self.open
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.references) <= set(self.ids)
        self.data = json.loads(self.data)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.references += attrs.get(name, "").split()
        if tag not in VOID:
            self.open.append((tag, attrs.get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, name = self.open[-1] if self.open else (None, None)
        if name == "data":
            self.data += data
        elif tag not in ("script", "style"):
            self.text += data


def reported(case, folder):
    """Page of a case that is written now."""
    return Page(case.write(folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Every case with the page that was written on it."""
    folder = tmp_path_factory.mktemp("reports")
    written = {}
    for name, maker in MAKERS.items():
        case = maker()
        file = case.write(folder / f"{name}.html")
        assert file == folder / f"{name}.html"
        written[name] = case, Page(file.read_text(encoding="utf-8")), file
    assert len(list(folder.iterdir())) == len(MAKERS)
    return written


@pytest.mark.parametrize("name", MAKERS)
class TestEveryReport:
    def test_is_one_small_file_without_references(self, reports, name):
        text = reports[name][2].read_text(encoding="utf-8")
        assert len(text.encode()) < 1_000_000
        assert "$" not in re.sub(r"\$\{", "", text)
        assert not re.search(r"(src|href)=[\"'](?!data:)", text)
        links = set(re.findall(r"https?://[^\"'\s]+", text))
        assert links == {"http://www.w3.org/2000/svg"}

    def test_title_and_target_are_told(self, reports, name):
        case, page, _ = reports[name]
        assert case.options.get("title", "A title") in page.text
        assert f"of {case.options.get('target', 'height')} with the Mondrian kernel" in page.text

    def test_every_figure_has_its_place(self, reports, name):
        page = reports[name][1]
        assert set(page.data) <= set(page.ids)

    def test_columns_are_named_in_order_of_importance(self, reports, name):
        case, page, _ = reports[name]
        bars = page.data["columns"]
        assert len(bars["y"]["labels"]) == case.model.n_features_in_
        assert bars["layers"][0]["x"] == sorted(bars["layers"][0]["x"], reverse=True)

    def test_two_columns_of_numbers_have_a_plane(self, reports, name):
        case, page, _ = reports[name]
        plane = case.model.n_features_in_ == 2 and case.model.encoder_ is None
        assert ("surface" in page.data) == plane

    def test_the_number_of_test_rows_is_told(self, reports, name):
        case, page, _ = reports[name]
        assert f"measured on the same {len(case.test[1])} test rows" in page.text


class TestRegression:
    def test_numbers_are_those_of_the_model(self, reports):
        case, page, _ = reports["named"]
        X, y = case.test
        error = np.sqrt(np.mean((case.model.predict(X) - y) ** 2))
        guess = np.sqrt(np.mean((case.train[1].mean() - y) ** 2))
        other = HistGradientBoostingRegressor().fit(*case.train).predict(X)
        boosting = np.sqrt(np.mean((other - y) ** 2))
        ends = case.model.predict_interval(X, 0.9)
        covered = np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))
        assert f"The error (root mean squared) is {number(error)}." in page.text
        assert f"fitted to the same rows, has {number(boosting)}." in page.text
        assert f"Guessing the mean gives {number(guess)}." in page.text
        assert f"{percent(covered)} of the test rows lie inside" in page.text
        assert f"learnt from 3 columns of {len(case.train[1])} rows" in page.text
        assert page.data["columns"]["y"]["labels"][-1] == "north"

    def test_coverage_by_fifths(self, reports):
        case, page, _ = reports["named"]
        X, y = case.test
        predicted, ends = case.model.predict(X), case.model.predict_interval(X, 0.9)
        inside = ((ends[:, 0] <= y) & (y <= ends[:, 1])).to_numpy()[np.argsort(predicted)]
        reached = page.data["fifths"]["layers"][1]["x"]
        assert_allclose(reached, inside.reshape(5, 20).mean(axis=1), rtol=1e-3)

    def test_fifths_that_are_off_are_named(self, tmp_path):
        X = rows(1)
        # Only the highest fifth has noise, and far more than the fitted rows.
        y = X[:, 0] + np.where(X[:, 0] > 0.8, 50.0, 0.0) * np.random.default_rng(2).normal(size=200)
        case = Case(
            MondrianKernelRegressor(5.0, 0.1, **TREES), X, np.where(X[:, 0] > 2, 0, X[:, 0])
        )
        case.test = X[100:], y[100:]
        text = reported(case, tmp_path).text
        assert re.search(r"the coverage is too .*low in the highest fifth \(", text)
        assert "too low in the lowest fifth" not in text

    def test_partial_dependence_is_the_mean_prediction(self, reports):
        case, page, _ = reports["named"]
        first = page.data["columns"]["y"]["labels"][0]
        drawn = page.data[f"dependence-{case.X.columns.get_loc(first)}"]
        assert drawn["x"]["label"] == first
        line = drawn["layers"][0]
        for value, mean in zip(line["x"], line["y"], strict=True):
            rows = case.test[0].assign(**{first: value})
            assert_allclose(mean, case.model.predict(rows).mean(), rtol=0.02, atol=2e-3)

    def test_the_worst_rows(self, reports):
        case, _, file = reports["named"]
        X, y = case.test
        order = np.argsort(-np.abs(case.model.predict(X) - y.to_numpy()), kind="stable")[:10]
        table = re.search(r'<figure id="worst".*?</table>', file.read_text(encoding="utf-8"))[0]
        assert re.findall(r'<th scope="row">(\d+)</th>', table) == [str(i) for i in order]
        assert f"<td>{number(X['east'].iloc[order[0]])}</td>" in table

    def test_original_columns_with_categories(self, reports):
        case, page, file = reports["table"]
        assert set(page.data["columns"]["y"]["labels"]) == {"area", "kind"}
        kinds = page.data["dependence-1"]
        assert kinds["y"]["labels"] == ["brick", "missing", "wood"]
        for kind, mean in zip(["brick", None, "wood"], kinds["layers"][0]["x"], strict=True):
            rows = case.test[0].assign(kind=kind)
            assert_allclose(mean, case.model.predict(rows).mean(), rtol=1e-3)
        assert "<td>missing</td>" in file.read_text(encoding="utf-8")

    def test_coverage_is_that_of_each_level(self, reports):
        case, page, _ = reports["named"]
        X, y = case.test
        layer = page.data["coverage"]["layers"][1]
        for level, reached in zip(layer["x"], layer["y"], strict=True):
            ends = case.model.predict_interval(X, level)
            assert_allclose(reached, np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])), rtol=1e-3)

    def test_points_are_predictions(self, reports):
        case, page, _ = reports["named"]
        points = page.data["predicted"]["layers"][1]
        assert_allclose(np.sort(points["x"]), np.sort(case.model.predict(case.test[0])), rtol=1e-3)
        residuals = page.data["residuals"]["layers"][1]
        assert_allclose(residuals["y"], np.subtract(points["y"], points["x"]), atol=2e-3)

    def test_path(self, reports):
        case, page, _ = reports["named"]
        path = case.model.path_
        line = page.data["error"]["layers"][0]
        assert_allclose(line["x"], path.lifetimes, rtol=1e-3)
        assert_allclose(line["y"], np.sqrt(path.score.min(axis=1)), rtol=1e-3)

    def test_lifetimes_and_weights_are_told(self, reports):
        case, page, _ = reports["learnt"]
        for lifetime, weight in zip(
            case.model.lifetimes_, case.model.lifetime_weights_, strict=True
        ):
            assert f"{number(lifetime)} ({percent(round(weight, 3))})" in page.text

    def test_averaging_is_told(self, reports):
        told = {
            name for name in reports if "averaged over all of the path" in reports[name][1].text
        }
        assert told == {"averaged"}

    def test_cell_bound_and_end_of_the_path_are_told(self, tmp_path):
        case = MAKERS["named"]()
        path = case.model.path_
        texts = [reported(case, tmp_path).text]
        falling = np.arange(path.loo_error.size)[::-1].reshape(path.loo_error.shape)
        case.model.path_ = replace(path, curves={**path.curves, "loo_error": falling * 1.0})
        texts.append(reported(case, tmp_path).text)
        assert ["at an end of the path" in text for text in texts] == [False, True]
        assert ["max_cells stopped" in text for text in texts] == [False, True]

    def test_without_a_path(self, reports):
        for name, how in {"fixed": "were given", "fixed_lifetime": "too short to show"}.items():
            page = reports[name][1]
            assert "error" not in page.data
            assert how in page.text

    def test_cells_are_those_of_one_tree(self, reports):
        case, page, _ = reports["plane"]
        cells = page.data["partition"]["layers"][0]
        assert len(cells["lower"]) == case.model.features_.n_cells_per_tree_[0]
        area = np.prod(np.subtract(cells["upper"], cells["lower"]), axis=1).sum()
        box = np.ptp([*cells["lower"], *cells["upper"]], axis=0)
        assert_allclose(area, box.prod(), rtol=1e-2)


class TestClassification:
    def test_numbers_are_those_of_the_model(self, reports):
        case, page, _ = reports["two_classes"]
        X, y = case.test
        right = percent(np.mean(case.model.predict(X) == y))
        other = HistGradientBoostingClassifier().fit(*case.train).score(X, y)
        assert f"The model is right on {right} of them." in page.text
        assert f"fitted to the same rows, is right on {percent(other)}." in page.text
        matrix = page.data["confusion"]
        assert matrix["labels"] == ["high", "low"]
        assert matrix["counts"] == confusion_matrix(y, case.model.predict(X)).tolist()

    def test_curves_and_their_counts(self, reports):
        case, page, file = reports["two_classes"]
        X, y = case.test
        P, low = case.model.predict_proba(X)[:, 1], y == "low"
        area, mean = roc_auc_score(low, P), average_precision_score(low, P)
        curve = page.data["roc"]["layers"][1]
        assert curve["name"] == f"low: area {area:.3f}"
        assert_allclose(np.trapezoid(curve["y"], curve["x"]), area, atol=2e-3)
        assert page.data["precision"]["layers"][0]["name"] == f"low: mean {mean:.3f}"
        counts = [np.sum(low & (P >= 0.3)), np.sum(low & (P < 0.3)), np.sum(~low & (P >= 0.3))]
        cells = "".join(f"<td>{count}</td>" for count in counts)
        assert f"<td>30 %</td>{cells}" in file.read_text(encoding="utf-8")

    def test_reliability_is_that_of_the_probabilities(self, reports):
        case, page, _ = reports["two_classes"]
        X, y = case.test
        P = case.model.predict_proba(X)[:, 1]
        points = page.data["reliability"]["layers"][1]
        bins = np.minimum(np.floor(10 * P), 9)
        found = [bins == b for b in np.unique(bins)]
        assert_allclose(points["x"], [P[inside].mean() for inside in found], rtol=1e-3)
        assert_allclose(points["y"], [np.mean(y[inside] == "low") for inside in found], rtol=1e-3)

    def test_many_classes_are_joined(self, reports):
        page = reports["many_classes"][1]
        matrix = page.data["confusion"]
        assert len(matrix["labels"]) == 12
        assert matrix["labels"][-1] == "all others"
        assert np.sum(matrix["counts"]) == 200

    def test_scores_that_are_no_probabilities_are_not_calibrated(self, reports):
        page = reports["hinge"][1]
        assert not {"reliability", "roc", "precision"} & set(page.data)
        assert "no probabilities" in page.text
        assert page.data["surface"]["layers"][0]["classes"] == ["0", "1", "2"]

    def test_unknown_classes_are_left_out_and_counted(self, tmp_path):
        case = MAKERS["two_classes"]()
        case.test[1][:3] = "none"
        page = reported(case, tmp_path)
        assert "3 test rows of classes unknown to the model" in page.text
        assert np.sum(page.data["confusion"]["counts"]) == len(case.test[1]) - 3
        case.test[1][:] = "none"
        with pytest.raises(ValueError, match="No row of y_test has a class"):
            case.write(tmp_path / "report.html")


class TestNames:
    def test_no_name_is_markup(self, reports):
        _, page, file = reports["plane"]
        assert page.tags.count("script") == 2
        assert "b" not in page.tags
        assert page.text.count(NASTY) > 3
        assert NASTY in page.data["columns"]["y"]["labels"]
        assert NASTY not in file.read_text(encoding="utf-8")

    def test_json_cannot_close_its_script(self):
        text = script_json({"</script>": "<!--&\u2028"})
        assert not set("<>&\u2028") & set(text)
        assert json.loads(text) == {"</script>": "<!--&\u2028"}

    def test_names_are_given_or_of_the_fit_or_numbers(self, reports, tmp_path):
        assert set(reports["named"][1].data["columns"]["y"]["labels"]) == {
            "east", "north", "age",
        }  # fmt: skip
        assert reports["fixed"][1].data["columns"]["y"]["labels"] == ["x0"]
        with pytest.raises(ValueError, match="2 feature_names were given for 1 columns"):
            MAKERS["fixed"]().write(tmp_path / "report.html", feature_names=["a", "b"])


def test_numbers_in_words_and_in_data():
    assert [number(v) for v in (0.12345, 12345.6, -2.0, 1e-7, 2e6, float("nan"))] == [
        "0.123", "12346", "-2", "1e-07", "2e+06", "–",
    ]  # fmt: skip
    assert [percent(v) for v in (0.9, 0.876, 1.0)] == ["90 %", "87.6 %", "100 %"]
    assert plain([[1.23456, np.nan], [np.inf, 2]]) == [[1.235, None], [None, 2.0]]


class TestRefusals:
    def test_other_estimators(self, tmp_path):
        with pytest.raises(TypeError, match="got Ridge"):
            write_report(tmp_path / "r.html", Ridge(), [[0]], [0], [[0]], [0], title="", target="")

    def test_not_fitted(self, tmp_path):
        model = MondrianKernelRegressor()
        with pytest.raises(NotFittedError):
            write_report(tmp_path / "r.html", model, [[0]], [0], [[0]], [0], title="", target="")

    def test_several_targets(self, tmp_path):
        X = rows(2)
        Y = np.stack([heights(X)] * 2, axis=1)
        model = MondrianKernelRegressor(1.0, 0.1, **TREES).fit(X, Y)
        with pytest.raises(ValueError, match="should be a 1d array, got an array of shape"):
            write_report(tmp_path / "r.html", model, X, Y, X, Y, title="", target="")

    @pytest.mark.parametrize(
        ("change", "message"),
        [(lambda X, y: (X[:, :1], y), "X has 1 features"), (lambda X, y: (X, y[:-1]), "samples"),
         (lambda X, y: (X, np.full_like(y, np.nan)), "y_test contains NaN")],
    )  # fmt: skip
    def test_bad_test_rows_leave_the_old_file(self, tmp_path, change, message):
        case = MAKERS["fixed_lifetime"]()
        case.test = change(*case.test)
        file = tmp_path / "report.html"
        file.write_text("old")
        with pytest.raises(ValueError, match=message):
            case.write(file)
        assert file.read_text() == "old"
        assert list(tmp_path.iterdir()) == [file]

    def test_failure_to_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        def fail(descriptor):
            raise OSError("no space left")

        file = tmp_path / "report.html"
        file.write_text("old")
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space left"):
            MAKERS["fixed"]().write(file)
        assert file.read_text() == "old"
        assert list(tmp_path.iterdir()) == [file]

    def test_columns_in_another_order(self, tmp_path):
        case = MAKERS["named"]()
        case.test = case.test[0][["north", "east", "age"]], case.test[1]
        with pytest.raises(ValueError, match="same order"):
            case.write(tmp_path / "report.html")


def test_model_is_not_changed(tmp_path):
    case = MAKERS["named"]()
    before = set(vars(case.model))
    case.write(tmp_path / "report.html")
    assert set(vars(case.model)) == before
    assert isinstance(case.test[0], pd.DataFrame)
    case.model.predict(case.test[0])


def test_same_model_same_report(tmp_path):
    case = MAKERS["two_classes"]()
    one, two = (case.write(tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert one == two


def test_seed_that_is_no_number(tmp_path):
    X = rows(2)
    y = (X[:, 0] > 0.5).astype(int)
    model = MondrianKernelClassifier(1.0, 0.1, 5, random_state=np.random.RandomState(0)).fit(X, y)
    write_report(tmp_path / "r.html", model, X, y, X, y, title="", target="")


def test_boosting_does_not_see_the_target_of_a_row_in_its_category():
    """Else its training error says that a column of random categories decides y."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    X = pd.DataFrame({"kind": rng.integers(100, size=400).astype(str), "x": rng.normal(size=400)})
    model = MondrianKernelRegressor(**TREES).fit(X[:300], y[:300])
    measured = Measured(model, X[:300], y[:300], X[300:], y[300:])
    assert abs(np.corrcoef(measured.X_train[:, 0], measured.y_train)[0, 1]) < 0.2
    assert measured.boosting < 1.2 * np.std(y[300:])
