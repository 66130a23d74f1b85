"""Running some experiments: what is refused, kept and joined."""

import os

import pytest

import experiments
from experiments import kernel_error, width_search


def test_unknown_names_are_refused_before_anything_is_written(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=r"no experiment 'figure-1'.*kernel-error"):
        experiments.run(["partition", "figure-1"], out=out, quick=True)
    assert not out.exists()


def test_matplotlib_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"mondrian-kernel\[plot\]"):
        experiments.run(["partition"], out=tmp_path / "out", quick=True)
    assert not (tmp_path / "out").exists()


def test_interrupt_keeps_what_is_done(tmp_path, monkeypatch):
    def interrupted(**kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_error, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.run(["partition", "kernel-error"], out=tmp_path, quick=True)
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    figures = {f"{name}.{kind}" for name in ("partition", "restriction") for kind in ("png", "svg")}
    assert names == {"README.md", "partition.json", *figures}
    assert "| partition, small sizes |" in (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["width-recovery", "width-search"])
def test_interrupt_within_a_path_is_not_taken_for_its_end(tmp_path, monkeypatch, name):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.delenv("MONDRIAN_KERNEL_DATA", raising=False)
    monkeypatch.setattr(width_search._Clock, "__call__", interrupt)

    def progress(done, total, text):
        if "trees, lifetime" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiments.run([name], out=tmp_path, quick=True, progress=progress)
    assert not list((tmp_path / "results").iterdir())


def test_table_is_put_between_the_markers_and_keeps_other_rows(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n<!-- claims -->\nold\n<!-- end -->\nafter\n")
    experiments.run(["kernel-error"], out=tmp_path, quick=True)
    experiments.run(["partition"], out=tmp_path, quick=True)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("# Mine\n<!-- claims -->\n|")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert text.index("| partition,") < text.index("| kernel-error,")


def test_a_file_is_whole_or_the_old_one(tmp_path, monkeypatch):
    experiments.run(["kernel-error"], out=tmp_path, quick=True)
    path = tmp_path / "results" / "kernel-error.json"
    before = path.read_bytes()

    def full_disk(*args):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full_disk)
        with pytest.raises(OSError, match="no space left"):
            experiments.run(["kernel-error"], out=tmp_path, quick=True, seed=1)
    assert path.read_bytes() == before
    assert not list(tmp_path.rglob("*.part"))


def test_same_seed_same_result(tmp_path):
    texts = []
    for k, seed in enumerate((3, 3, 4)):
        out = tmp_path / str(k)
        experiments.run(["kernel-error"], out=out, quick=True, seed=seed)
        lines = (out / "results" / "kernel-error.json").read_text().splitlines()
        texts.append([x for x in lines if "cpu_seconds" not in x and '"seed"' not in x])
    assert texts[0] == texts[1] != texts[2]
