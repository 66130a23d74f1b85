"""Figures are drawn without a screen and closed after each test."""

import pytest

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
