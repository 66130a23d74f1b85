"""Importing the package is cheap: what is heavy comes when it is first used."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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
from importlib.util import find_spec
from pathlib import Path
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


def imports_for_type_checkers():
    """Names imported under TYPE_CHECKING, with their modules."""
    (block,) = [
        node
        for node in ast.parse(Path(mondrian_kernel.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: node.module.removeprefix("mondrian_kernel.")
        for node in block.body
        for alias in node.names
    }


def test_type_checkers_see_the_names_that_are_imported_on_use():
    assert imports_for_type_checkers() == mondrian_kernel._HOME
    assert mondrian_kernel.__all__ == sorted(mondrian_kernel._HOME)


def test_no_private_module_is_public():
    assert not [
        name for name in dir(mondrian_kernel) if name.startswith("_") and name != "__version__"
    ]


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_knows_every_name_and_no_other(tmp_path):
    """A public name has its own type; an unknown name is an error, not Any."""
    names = mondrian_kernel.__all__
    code = "import mondrian_kernel\n"
    code += "".join(f"reveal_type(mondrian_kernel.{name})\n" for name in [*names, "Mondrain"])
    script = tmp_path / "use.py"
    script.write_text(code)
    (tmp_path / "mypy.ini").write_text("[mypy-narwhals.*]\nfollow_imports = skip\n")  # it is long
    source = str(Path(mondrian_kernel.__file__).parents[1])
    options = ("--follow-imports=silent", "--ignore-missing-imports", "--no-incremental")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": source},
        cwd=tmp_path,
        check=False,
    )
    revealed = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == len(names) + 1, done.stdout + done.stderr
    assert not [line for line in revealed[:-1] if '"Any"' in line]
    assert 'Module has no attribute "Mondrain"' in done.stdout


def test_the_command_line_imports_neither_pandas_nor_statistics(tmp_path):
    """Scikit-learn would import both, which takes longer than reading a table."""
    rows = "\n".join(f"{i},{i % 7}" for i in range(60))
    (tmp_path / "t.csv").write_text(f"a,b\n{rows}\n")
    code = f"""
import os, sys
os.chdir({str(tmp_path)!r})
from mondrian_kernel.app.main import main
for words in (["fit", "t.csv", "--target", "a"], ["update", "model.mondrian", "t.csv"],
              ["predict", "model.mondrian", "t.csv", "-o", "p.csv"]):
    sys.argv = ["mondrian-kernel", *words, "--quiet"]
    assert main() == 0
"""
    heavy = ("pandas", "scipy.stats._stats_py")
    assert loaded_after(code, *heavy) == "[]"
    later = f"{code}\nimport scipy.stats\nfrom scipy import stats\n"
    later += "assert scipy.stats.norm.cdf(0) == stats.norm.cdf(0) == 0.5"
    assert loaded_after(later, *heavy) == "['scipy.stats._stats_py']"
