"""Importing the package is cheap: what is heavy comes when it is first used."""

import subprocess
import sys

import pytest

import mondrian_kernel


def loaded_after(code, *modules):
    """Run code in a fresh interpreter and return which of the modules it has imported."""
    report = f"import sys; print([m for m in {modules!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def test_package_imports_nothing_heavy():
    heavy = ("numba", "llvmlite", "sklearn", "scipy", "joblib", "pandas", "matplotlib", "dask")
    assert loaded_after("import mondrian_kernel", *heavy) == "[]"


def test_names_do_not_import_numba():
    names = ", ".join(mondrian_kernel.__all__)
    assert loaded_after(f"from mondrian_kernel import {names}", "numba", "llvmlite") == "[]"


def test_numba_is_imported_by_the_first_fit():
    code = """
import sys
from mondrian_kernel import MondrianFeatures
features = MondrianFeatures()
assert "numba" not in sys.modules
features.fit([[0.0], [1.0]])
"""
    assert loaded_after(code, "numba") == "['numba']"


@pytest.mark.parametrize("name", mondrian_kernel.__all__)
def test_every_public_name_is_there(name):
    assert getattr(mondrian_kernel, name).__name__ == name
    assert name in dir(mondrian_kernel)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'Mondrain'"):
        _ = mondrian_kernel.Mondrain


def test_version():
    assert mondrian_kernel.__version__.count(".") == 2
