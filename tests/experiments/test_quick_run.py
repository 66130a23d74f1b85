"""The quick run: every file, every shape, and the claims that small sizes can bear."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from experiments import NAMES
from experiments.runner import draw

FIGURES = {
    "partition": ("partition", "restriction"),
    "kernel-error": ("kernel-error",),
    "cpu-error": ("cpu-error",),
    "width-recovery": ("width-recovery",),
    "width-search": ("width-search",),
    "kernel-and-forest": ("kernel-and-forest", "weights"),
}
SCHEMES = {"mondrian", "fourier", "binning"}


def test_all_experiments_ran(quick_run):
    assert tuple(quick_run.outcomes) == NAMES == tuple(FIGURES)
    assert all(o.skipped is None and o.claims for o in quick_run.outcomes.values())


@pytest.mark.parametrize("name", NAMES)
def test_files(quick_run, name):
    expected = {quick_run.out / "results" / f"{name}.json"}
    for figure in FIGURES[name]:
        expected |= {quick_run.out / "figures" / f"{figure}.{e}" for e in ("png", "svg")}
    assert set(quick_run.outcomes[name].files) == expected
    for path in expected:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
            assert content.endswith(b"IEND\xaeB`\x82")
        elif path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag.endswith("svg")


def test_nothing_else_is_left(quick_run):
    written = {path for o in quick_run.outcomes.values() for path in o.files}
    found = {path for path in quick_run.out.rglob("*") if path.is_file()}
    assert found == written | {quick_run.out / "README.md"}


def test_the_same_result_is_drawn_as_the_same_file(quick_run, tmp_path):
    result = quick_run.out / "results" / "kernel-error.json"
    for path in draw(result, tmp_path):
        assert path.read_bytes() == (quick_run.out / "figures" / path.name).read_bytes()


def test_the_look_of_other_figures_is_left_alone(quick_run):
    assert quick_run.style_kept


def test_progress_goes_from_nothing_to_all(quick_run):
    done, total, text = zip(*quick_run.progress, strict=True)
    assert done[0] == 0
    assert done[-1] == total[0]
    assert len(set(total)) == 1
    assert list(done) == sorted(done)
    assert all(any(t.startswith(name) for t in text) for name in NAMES)


def test_table_has_every_claim(quick_run):
    table = (quick_run.out / "README.md").read_text(encoding="utf-8")
    for outcome in quick_run.outcomes.values():
        for claim in outcome.claims:
            (line,) = [x for x in table.splitlines() if claim.text in x and outcome.name in x]
            assert line.endswith("| yes |" if claim.held else "| **no** |")
            assert all(key in line for key in claim.measured)
            assert "small sizes" in line


@pytest.mark.parametrize("name", ["cpu-error", "width-search", "kernel-and-forest"])
def test_stand_in_is_named(quick_run, name):
    assert quick_run.results[name]["data"] == "synthetic stand-in"
    assert "make_friedman1" in quick_run.results[name]["source"]


# ---- shapes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key"), [("kernel-error", "max_error"), ("cpu-error", "test_error")]
)
def test_errors_of_three_schemes(quick_run, name, key):
    result = quick_run.results[name]
    repetitions = {len(e) for e in result[key].values()}
    assert set(result[key]) == SCHEMES
    assert len(repetitions) == 1
    for scheme, errors in result[key].items():
        assert np.shape(errors) == (*repetitions, len(result["nonzeros"][scheme]))
        assert np.all(np.array(errors) > 0)


def test_partitions(quick_run):
    result = quick_run.results["partition"]
    for key in ("sample", "wide", "restricted"):
        nodes = result[key]
        cut = np.array(nodes["dim"]) >= 0
        assert cut.sum() >= 4
        assert cut.size == 2 * cut.sum() + 1
        assert [t is not None for t in nodes["time"]] == cut.tolist()
        assert np.all(np.array(nodes["upper"]) > np.array(nodes["lower"]))
    assert result["restricted"]["lower"][0] == result["inner"][0]


def test_width_recovery_arrays(quick_run):
    result = quick_run.results["width-recovery"]
    n = len(result["lifetimes"])
    assert all(len(result[f"{part}_error"]) == n for part in ("train", "validation", "test"))
    for posterior in result["posteriors"]:
        assert len(posterior["edges"]) == len(posterior["weights"]) + 1
        assert np.isclose(sum(posterior["weights"]), 1, atol=1e-4)


def test_width_search_traces(quick_run):
    learners = quick_run.results["width-search"]["learners"]
    assert set(learners) == {"SGD", "exact", "exact as written"}
    for found in learners.values():
        assert set(found["traces"]) >= {"fourier", "binning"}
        assert len(found["traces"]) >= 3
        for trace in found["traces"].values():
            seconds, error = np.array(trace["seconds"]), np.array(trace["error"])
            assert seconds.size == error.size == len(trace["lifetime"])
            assert np.all(np.diff(seconds) >= 0)
            assert np.all(error > 0)
            assert error.min() < 0.6 * quick_run.results["width-search"]["mean_error"]


def test_kernel_and_forest_arrays(quick_run):
    result = quick_run.results["kernel-and-forest"]
    for errors in result["errors"].values():
        assert len(errors["train"]) == len(errors["test"]) == len(result["lifetimes"])
    kernel, forest = (result["weights"][model] for model in ("kernel", "forest"))
    assert len(kernel) == len(forest) > result["trees"]


# ---- claims ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["partition", "kernel-error", "width-recovery", "kernel-and-forest"]
)
def test_claims_hold(quick_run, name):
    for claim in quick_run.outcomes[name].claims:
        assert claim.held, claim
