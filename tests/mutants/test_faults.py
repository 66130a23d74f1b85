"""The faults can still be planted; ``python tests/mutants`` plants them."""

import re
from pathlib import Path

import pytest

import mondrian_kernel
from mutants.faults import FAULTS

PACKAGE = Path(mondrian_kernel.__file__).parent


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_place_and_its_tests_exist(name):
    fault = FAULTS[name]
    assert (PACKAGE / fault.module).read_text().count(fault.old) == 1
    assert fault.old != fault.new
    for word in fault.tests.split():
        if word.startswith("tests/"):
            file, _, test = word.partition("::")
            text = (Path(__file__).parents[2] / file).read_text()
            assert re.search(rf"(def|class) {test}\b", text) or not test
