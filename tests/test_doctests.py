"""Every example in a docstring runs and says what it prints."""

import doctest
import importlib
import pkgutil

import pytest

import mondrian_kernel

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(mondrian_kernel.__path__, "mondrian_kernel.")
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_every_public_class_and_function_has_an_example():
    for name in mondrian_kernel.__all__:
        item = getattr(mondrian_kernel, name)
        # A path is shown where it is made.
        assert ">>>" in item.__doc__ or name == "LifetimePath", name
