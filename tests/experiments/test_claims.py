"""A claim is a function of the result: another result, another verdict."""

import copy
import json
from dataclasses import asdict

import numpy as np
import pytest

from experiments import (
    cpu_error,
    kernel_and_forest,
    kernel_error,
    partition,
    width_recovery,
    width_search,
)


@pytest.fixture
def result(quick_run):
    return lambda name: copy.deepcopy(quick_run.results[name])


def test_claims_are_plain_numbers_and_words(quick_run):
    for outcome in quick_run.outcomes.values():
        for claim in outcome.claims:
            assert json.loads(json.dumps(asdict(claim))) == asdict(claim)


def test_laws_of_the_process(result):
    found = result("partition")
    found["laws"]["whole"]["mean_cells"] += 10 * found["laws"]["whole"]["standard_error"]
    found["laws"]["inner"]["first_cut_p_value"] = 1e-6
    assert [claim.held for claim in partition.claims(found)] == [False, False]


@pytest.mark.parametrize(
    ("module", "name", "key"),
    [(kernel_error, "kernel-error", "max_error"), (cpu_error, "cpu-error", "test_error")],
)
def test_a_scheme_behind_fourier(result, module, name, key):
    found = result(name)
    assert module.claims(found)[-1].held
    errors = found[key]
    errors["mondrian"] = (np.array(errors["mondrian"]) * 10).tolist()
    assert not module.claims(found)[-1].held


@pytest.mark.parametrize(("error", "held"), [(3.12, True), (3.2, False), (2.9, False)])
def test_exact_kernel(result, error, held):
    found = {**result("cpu-error"), "quick": False, "exact_error": error}
    assert cpu_error.claims(found)[0].held == held


def test_width_an_order_of_magnitude_off(result):
    found = result("width-recovery")
    found["validation_error"][-1] = 0.0
    found["lifetimes"][-1] = 101.0
    assert [claim.held for claim in width_recovery.claims(found)] == [False, False]


def traces(ours, fourier, binning):
    trace = {"seconds": [0.5, 1.0], "lifetime": [1.0, 2.0]}
    return {
        "mondrian": {**trace, "error": [20.0, 5.0]},
        "fourier": {"seconds": [1.0, fourier], "lifetime": [1.0, 2.0], "error": [20.0, 4.0]},
        "binning": {"seconds": [1.0, binning], "lifetime": [1.0, 2.0], "error": [20.0, ours]},
    }


@pytest.mark.parametrize(("fourier", "held"), [(11.0, True), (9.0, False)])
def test_an_order_of_magnitude_in_time(fourier, held):
    found = {
        "nonzeros": 3,
        "learners": {"SGD": {"alpha": 1.0, "traces": traces(6.0, fourier, 50.0)}},
    }
    (claim,) = width_search.claims(found)
    assert claim.held == held
    assert claim.measured["times as long, Fourier"] == fourier
    assert claim.measured["binning"] == 50.0
    # 6 is the least error that all three reach.
    assert np.isclose(claim.measured["validation error in % that is good"], 6.6)


def test_a_forest_ahead(result):
    found = result("kernel-and-forest")
    found["errors"]["forest"]["test"][0] = 0.1
    found["weights"]["kernel"] = [1000.0, -1000.0]
    assert [claim.held for claim in kernel_and_forest.claims(found)] == [False, False]
