"""A small fault to plant in the package, and the tests that must see it."""

from typing import NamedTuple


class Fault(NamedTuple):
    """In a module ``old`` becomes ``new``; ``tests`` are arguments of pytest, between blanks."""

    module: str
    old: str
    new: str
    tests: str
