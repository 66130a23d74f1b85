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
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix

from app.report.report_cases import MAKERS, NASTY, TREES, heights, rows
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel._linear.losses import encode, value
from mondrian_kernel.app.report import lifetimes, write_report
from mondrian_kernel.app.report.classification import mean_loss
from mondrian_kernel.app.report.figures import number, percent, plain
from mondrian_kernel.app.report.write import script_json

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifetimes, "SLIDER_TREES", 5)  # so that the slider's models are not the model
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

    def test_slider_stands_at_the_model(self, reports, name):
        case, page, _ = reports[name]
        lifetimes = page.data["lifetimes"]
        assert_allclose(lifetimes[page.data["chosen"]], case.model.lifetime_, rtol=1e-3)
        assert np.all(np.diff(lifetimes) > 0)
        assert len(page.data["readouts"]) == len(lifetimes) <= 25
        assert "the model itself" in page.data["readouts"][page.data["chosen"]]
        assert ("input" in page.tags) == (len(lifetimes) > 1)

    def test_figures_have_a_frame_for_every_place(self, reports, name):
        page = reports[name][1]
        assert set(page.data["figures"]) <= set(page.ids)
        for spec in page.data["figures"].values():
            for part in [spec, *spec.get("layers", [])]:
                for frames in ("xs", "ys", "sizes", "frames"):
                    assert len(part.get(frames, page.data["lifetimes"])) == len(
                        page.data["lifetimes"]
                    )

    def test_columns_are_named_in_order_of_importance(self, reports, name):
        case, page, _ = reports[name]
        bars = page.data["figures"]["columns"]
        assert len(bars["labels"]) == case.model.n_features_in_
        assert bars["values"] == sorted(bars["values"], reverse=True)

    def test_two_columns_have_a_plane(self, reports, name):
        case, page, _ = reports[name]
        assert ("surface" in page.data["figures"]) == (case.model.n_features_in_ == 2)


class TestRegression:
    def test_numbers_are_those_of_the_model(self, reports):
        case, page, _ = reports["named"]
        X, y = case.test
        error = np.sqrt(np.mean((case.model.predict(X) - y) ** 2))
        guess = np.sqrt(np.mean((case.train[1].mean() - y) ** 2))
        ends = case.model.predict_interval(X, 0.9)
        covered = np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))
        for said in (number(error), number(guess), percent(covered)):
            assert re.search(rf"\b{re.escape(said)}(?!\d)", page.text)
        assert f"learnt from 3 columns of {len(case.train[1])} rows" in page.text
        assert page.data["figures"]["columns"]["labels"][-1] == "north"

    def test_coverage_is_that_of_each_level(self, reports):
        case, page, _ = reports["named"]
        X, y = case.test
        layer = page.data["figures"]["coverage"]["layers"][1]
        for level, reached in zip(layer["x"], layer["y"], strict=True):
            ends = case.model.predict_interval(X, level)
            assert_allclose(reached, np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])), rtol=1e-3)

    def test_chosen_frame_is_the_model_and_others_are_not(self, reports):
        case, page, _ = reports["named"]
        points = page.data["figures"]["predicted"]["layers"][1]
        predicted = np.sort(case.model.predict(case.test[0]))
        frames = np.sort(np.array(points["xs"]), axis=1)
        chosen = page.data["chosen"]
        assert_allclose(frames[chosen], predicted, rtol=1e-3, atol=1e-3)
        for k, frame in enumerate(frames):
            assert k == chosen or np.abs(frame - predicted).max() > 0.01
        residuals = page.data["figures"]["residuals"]["layers"][1]["ys"]
        assert_allclose(residuals, np.array(points["y"]) - np.array(points["xs"]), atol=2e-3)

    def test_path_and_posterior(self, reports):
        case, page, _ = reports["named"]
        path = case.model.path_
        line = page.data["figures"]["error"]["layers"][2]
        assert_allclose(line["x"], path.lifetimes, rtol=1e-3)
        assert_allclose(line["y"], np.sqrt(path.score.min(axis=1)), rtol=1e-3)
        assert_allclose(page.data["figures"]["cells"]["layers"][1]["y"], path.n_cells, rtol=1e-3)
        steps = page.data["figures"]["evidence"]["layers"][0]
        mass = np.array(steps["heights"]) @ np.diff(np.log(steps["edges"]))
        assert_allclose(mass, 1.0, rtol=1e-2)

    def test_lifetimes_and_weights_are_told(self, reports):
        case, page, _ = reports["learnt"]
        for lifetime, weight in zip(
            case.model.lifetimes_, case.model.lifetime_weights_, strict=True
        ):
            assert f"{number(lifetime)} ({percent(round(weight, 3))})" in page.text
        assert "models of one lifetime (5 trees on 100 rows)" in page.text

    def test_averaging_is_told(self, reports):
        told = {
            name for name in reports if "averaged over all of the path" in reports[name][1].text
        }
        assert told == {"averaged"}

    def test_path_without_evidence(self, tmp_path):
        case = MAKERS["named"]()
        path = case.model.path_
        unknown = np.full_like(path.log_marginal_likelihood, np.nan)
        curves = {**path.curves, "log_marginal_likelihood": unknown}
        case.model.path_ = replace(path, curves=curves)
        page = reported(case, tmp_path)
        assert "marginal likelihood was not computed" in page.text
        assert "evidence" not in page.data["figures"]
        assert "cells" in page.data["figures"]

    def test_cell_bound_and_end_of_the_path_are_told(self, tmp_path):
        case = MAKERS["named"]()
        path = case.model.path_
        texts = [reported(case, tmp_path).text]
        falling = np.arange(path.loo_error.size)[::-1].reshape(path.loo_error.shape)
        case.model.path_ = replace(path, curves={**path.curves, "loo_error": falling * 1.0})
        texts.append(reported(case, tmp_path).text)
        assert ["at an end of the path" in text for text in texts] == [False, True]
        assert ["max_cells stopped" in text for text in texts] == [False, True]

    def test_without_a_path_the_slider_runs_around_the_lifetime(self, reports):
        for name in ("fixed", "fixed_lifetime"):
            page = reports[name][1]
            assert min(page.data["lifetimes"]) < 1 < 5 < 10 < max(page.data["lifetimes"])
            assert "evidence" not in page.data["figures"]
            how = {"fixed": "were given", "fixed_lifetime": "a path too short to show"}
            assert how[name] in page.text

    def test_cells_are_those_of_one_tree(self, reports):
        page = reports["plane"][1]
        cells = page.data["figures"]["partition"]["layers"][0]
        birth, time = np.array(cells["birth"]), np.array(cells["time"])
        area = np.prod(np.subtract(cells["upper"], cells["lower"]), axis=1)
        counts = []
        for lifetime in page.data["lifetimes"]:
            alive = (birth <= lifetime) & (time > lifetime)
            assert_allclose(area[alive].sum(), area[0], rtol=1e-2)
            counts.append(alive.sum())
        assert counts == sorted(counts)
        assert counts[-1] > counts[0]


class TestClassification:
    def test_numbers_are_those_of_the_model(self, reports):
        case, page, _ = reports["two_classes"]
        X, y = case.test
        right = percent(np.mean(case.model.predict(X) == y))
        assert f"The model is right on {right} of {len(y)} rows" in page.text
        matrix = page.data["figures"]["confusion"]
        assert matrix["labels"] == ["high", "low"]
        expected = confusion_matrix(y, case.model.predict(X))
        assert matrix["frames"][page.data["chosen"]] == expected.tolist()
        assert all(np.sum(frame) == len(y) for frame in matrix["frames"])

    @pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared"])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_mean_loss_is_that_of_the_learner(self, loss, n_classes):
        X = rows(2)
        y = np.digitize(X[:, 0], [0.3, 0.6][: n_classes - 1])
        model = MondrianKernelClassifier(2.0, 0.1, loss=loss, **TREES).fit(X, y)
        scores = model.decision_function(X).reshape(len(y), -1)
        expected = value(loss, encode(y, n_classes, loss), scores).mean()
        assert_allclose(mean_loss(model, X, y), expected, rtol=1e-12)

    def test_reliability_is_that_of_the_probabilities(self, reports):
        case, page, _ = reports["two_classes"]
        X, y = case.test
        P = case.model.predict_proba(X)[:, 1]
        points = page.data["figures"]["reliability"]["layers"][1]
        k = page.data["chosen"]
        for b, (given, seen) in enumerate(zip(points["xs"][k], points["ys"][k], strict=True)):
            inside = np.minimum(np.floor(10 * P), 9) == b
            if not inside.any():
                assert given is None
                assert seen is None
            else:
                assert_allclose(given, P[inside].mean(), rtol=1e-3)
                assert_allclose(seen, np.mean(y[inside] == "low"), rtol=1e-3)

    def test_many_classes_are_joined(self, reports):
        page = reports["many_classes"][1]
        matrix = page.data["figures"]["confusion"]
        assert len(matrix["labels"]) == 12
        assert matrix["labels"][-1] == "all others"
        assert np.array(matrix["frames"]).sum(axis=(1, 2)).tolist() == [200] * len(
            page.data["lifetimes"]
        )

    def test_scores_that_are_no_probabilities_are_not_calibrated(self, reports):
        page = reports["hinge"][1]
        assert "reliability" not in page.data["figures"]
        assert "no probabilities" in page.text
        assert page.data["figures"]["surface"]["layers"][0]["classes"] == ["0", "1", "2"]

    def test_unknown_classes_are_left_out_and_counted(self, tmp_path):
        case = MAKERS["two_classes"]()
        case.test[1][:3] = "none"
        page = reported(case, tmp_path)
        assert "3 test rows of classes unknown to the model" in page.text
        assert np.sum(page.data["figures"]["confusion"]["frames"][0]) == len(case.test[1]) - 3
        case.test[1][:] = "none"
        with pytest.raises(ValueError, match="No row of y_test has a class"):
            case.write(tmp_path / "report.html")


class TestNames:
    def test_no_name_is_markup(self, reports):
        _, page, file = reports["plane"]
        assert page.tags.count("script") == 2
        assert "b" not in page.tags
        assert page.text.count(NASTY) > 3
        assert NASTY in page.data["figures"]["columns"]["labels"]
        assert NASTY not in file.read_text(encoding="utf-8")

    def test_json_cannot_close_its_script(self):
        text = script_json({"</script>": "<!--&\u2028"})
        assert not set("<>&\u2028") & set(text)
        assert json.loads(text) == {"</script>": "<!--&\u2028"}

    def test_names_are_given_or_of_the_fit_or_numbers(self, reports, tmp_path):
        assert set(reports["named"][1].data["figures"]["columns"]["labels"]) == {
            "east", "north", "age",
        }  # fmt: skip
        assert reports["fixed"][1].data["figures"]["columns"]["labels"] == ["x0"]
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
        with pytest.raises(ValueError, match="y_train must have one target a row"):
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
