"""The numpy predictor reads a model file alone and predicts as the library does."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mondrian_kernel.portable
from mondrian_kernel import (
    MondrianForestClassifier,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    save,
)
from mondrian_kernel._settings import LARGEST_NUMBER
from mondrian_kernel.persistence.container import FORMAT
from mondrian_kernel.portable import load_portable

SOURCE = Path(mondrian_kernel.portable.__file__)
rng = np.random.default_rng(0)
N = 120
FRAME = pd.DataFrame(
    {
        "area": rng.uniform(size=N),
        "age": np.where(rng.uniform(size=N) < 0.1, np.nan, rng.lognormal(size=N)),
        "kind": rng.choice(["brick", "wood", "stone"], size=N),
        "new": rng.uniform(size=N) < 0.5,
        "street": [f"street {k}" for k in rng.integers(55, size=N)],
    }
)
FRAME.loc[::11, "kind"] = None
y = 3 * FRAME.area.to_numpy() + (FRAME.kind == "brick").to_numpy() + 0.1 * rng.normal(size=N)
Y = np.stack([y, -2 * y**2], axis=1)
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [1.0, 2.5])]
# Rows far away, with unknown categories and gaps that the fit did not have.
NEW = FRAME.iloc[:40].copy()
NEW.loc[:9, "area"] = [50.0, -3.0, np.nan, *rng.uniform(0.0, 2.0, size=7)]
NEW.loc[:4, "kind"] = ["straw", None, "brick", "wood", "clay"]
NEW.loc[5:6, "street"] = "elsewhere"
NUMBERS = rng.normal(size=(N, 3)) * [1.0, 10.0, 0.1]
WAVE = np.sin(NUMBERS @ [2.0, -0.2, 10.0])

MODELS = {
    "numbers": lambda: MondrianKernelRegressor(n_estimators=20, random_state=0).fit(NUMBERS, y),
    "directions": lambda: MondrianKernelRegressor(n_estimators=20, random_state=0).fit(
        NUMBERS, WAVE
    ),
    "table": lambda: MondrianKernelRegressor(n_estimators=20, random_state=0).fit(FRAME, y),
    "outputs": lambda: MondrianKernelRegressor(n_estimators=20, random_state=0).fit(FRAME, Y),
    "one width": lambda: MondrianKernelRegressor(2.0, 0.1, 20, random_state=0).fit(FRAME, y),
    "two classes": lambda: MondrianKernelClassifier(n_estimators=20, random_state=0).fit(
        FRAME, y > 1.5
    ),
    "classes": lambda: MondrianKernelClassifier(n_estimators=20, random_state=0).fit(FRAME, LABELS),
    "log loss": lambda: MondrianKernelClassifier(2.0, 0.1, 20, random_state=0).fit(FRAME, LABELS),
    "forest": lambda: MondrianForestRegressor(2.0, 0.1, 20, random_state=0).fit(FRAME, y),
    "forest classes": lambda: MondrianForestClassifier(2.0, 0.1, 20, random_state=0).fit(
        FRAME, LABELS.astype(object)
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_library(name, tmp_path):
    model = MODELS[name]()
    save(model, tmp_path / "model")
    portable = load_portable(tmp_path / "model")
    rows = [[0.1, 1.0, 0.0], [100.0, -3.0, 9.0]] if model.encoder_ is None else NEW
    # The library computes kernels of the trend in single precision, with errors up to 2**-21 for
    # each of the landmarks, and distances from boxes, whose rounding errors are relative.
    trend = model.model_.trend
    if name == "directions":
        assert trend.factor.ndim == 2
    size = 0.0 if trend is None else np.abs(trend.coef).sum(axis=0).max()
    close = {"rtol": 1e-5, "atol": 1e-9 + 2.0**-21 * size}
    if hasattr(model, "classes_"):
        assert_array_equal(portable.predict(rows), model.predict(rows))
        assert_allclose(portable.predict_proba(rows), model.predict_proba(rows), **close)
        return
    assert_allclose(portable.predict(rows), model.predict(rows), **close)


def test_it_is_one_short_file_that_needs_numpy_only(tmp_path):
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) < 205
    model = MODELS["table"]()
    save(model, tmp_path / "model")
    (tmp_path / "portable.py").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    code = (
        "import sys; from portable import load_portable\n"
        "print(load_portable('model').predict([[0.5, None, 'wood', True, 'street 3']])[0])\n"
        "heavy = {'mondrian_kernel', 'numba', 'scipy', 'sklearn', 'pandas', 'narwhals'}\n"
        "assert not heavy & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    row = pd.DataFrame([[0.5, np.nan, "wood", True, "street 3"]], columns=FRAME.columns)
    assert_allclose(float(done.stdout), model.predict(row)[0], rtol=1e-4)


def test_constants_are_those_of_the_library():
    assert mondrian_kernel.portable._FORMAT == FORMAT
    assert mondrian_kernel.portable._LARGEST == LARGEST_NUMBER


def test_rows_that_the_library_refuses_are_refused(tmp_path):
    model = MODELS["table"]()
    save(model, tmp_path / "model")
    portable = load_portable(tmp_path / "model")
    huge, infinite = (NEW.assign(area=value) for value in (1e200, np.inf))
    for rows in (huge, infinite, NEW[NEW.columns[::-1]], NEW[:0]):
        for predict in (model.predict, portable.predict):
            with pytest.raises(ValueError, match=r"Column|names|columns|0 sample|shape"):
                predict(rows)


def test_what_it_cannot_read_is_refused(tmp_path):
    file = tmp_path / "model"
    model = MondrianKernelRegressor(2.0, 0.1, 5, random_state=0).fit(NUMBERS, y)
    save(model, file)
    portable = load_portable(file)
    with pytest.raises(ValueError, match=r"another shape than \(n, 3\)"):
        portable.predict([[1.0, 2.0]])
    with pytest.raises(ValueError, match="has no classes"):
        portable.predict_proba(NUMBERS)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        load_portable(file)
    file.write_bytes(b"no model")
    with pytest.raises(ValueError, match="no model file"):
        load_portable(file)
    save(model.partial_fit(NUMBERS[:2], y[:2]), file)
    with pytest.raises(ValueError, match="partial_fit"):
        load_portable(file)
