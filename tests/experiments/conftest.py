"""One quick run of all experiments, shared by the tests."""

import json
from types import SimpleNamespace

import pytest
from matplotlib import rcParams

import experiments


@pytest.fixture(scope="session")
def quick_run(tmp_path_factory):
    """Outcomes by name, results by name, the folder, the progress, and what changed of the look."""
    out = tmp_path_factory.mktemp("experiments")
    before, progress = dict(rcParams), []
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MONDRIAN_KERNEL_DATA", raising=False)
        outcomes = experiments.run(
            out=out, quick=True, progress=lambda *report: progress.append(report)
        )
    results = {
        o.name: json.loads((out / "results" / f"{o.name}.json").read_text()) for o in outcomes
    }
    return SimpleNamespace(
        out=out,
        outcomes={o.name: o for o in outcomes},
        results=results,
        progress=progress,
        style_kept=before == dict(rcParams),
    )
