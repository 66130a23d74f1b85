"""The reference lists every public name."""

import importlib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "api.rst"
ROOMS = ("plotting", "app.report", "dask")
PACKAGES = ["mondrian_kernel", *(f"mondrian_kernel.{room}" for room in ROOMS)]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package):
    parts = PAGE.read_text(encoding="utf-8").split(".. currentmodule:: ")[1:]
    listed = {word for part in parts if part.split()[0] == package for word in part.split()}
    assert set(importlib.import_module(package).__all__) <= listed
