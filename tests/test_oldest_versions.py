"""The versions that the build tests as the oldest are the lower bounds of the package."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PINS = ROOT / ".ci" / "oldest.txt"


@pytest.mark.skipif(not PINS.exists(), reason="a source distribution has no build files")
def test_pins_are_the_lower_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *(r for e in ("cli", "plot", "dask", "test") for r in extras[e]),
    ]
    bounds = {
        r.name: Version(str(r.specifier).removeprefix(">=")) for r in map(Requirement, needed)
    }
    lines = [line for line in PINS.read_text().splitlines() if not line.startswith("#")]
    pins = {r.name: Version(str(r.specifier).removeprefix("==")) for r in map(Requirement, lines)}
    assert pins.pop("distributed") == pins["dask"]
    assert pins.keys() == bounds.keys()
    for name, bound in bounds.items():
        assert pins[name].release[: len(bound.release)] == bound.release, name
