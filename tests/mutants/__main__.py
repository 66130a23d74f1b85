"""Plant faults in a copy of the package, one at a time, and report which the tests do not see.

python tests/mutants            all of them
python tests/mutants extension  those whose name holds a word
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "tests"))

from mutants.fault import Fault  # noqa: E402
from mutants.faults import FAULTS  # noqa: E402


def plant(fault: Fault, source: Path) -> None:
    """Change a module of a copy, and forget the compiled kernels that call it."""
    package = source / "mondrian_kernel"
    module = package / fault.module
    text = module.read_text()
    assert text.count(fault.old) == 1, f"{fault.module} does not hold {fault.old!r} once"
    module.write_text(text.replace(fault.old, fault.new))
    changed, kernels = {module.stem}, package / "_kernels"
    while (
        more := {
            file.stem
            for file in kernels.glob("*.py")
            if set(re.findall(r"_kernels\.(\w+) import", file.read_text())) & changed
        }
        - changed
    ):
        changed |= more
    for name in changed if module.parent == kernels else ():
        for compiled in kernels.glob(f"__pycache__/{name}.*.nb?"):
            compiled.unlink()


def outcome(fault: Fault) -> str:
    """Run the tests of a fault: "caught", "survived", or why they did not run."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "src", folder, dirs_exist_ok=True)
        plant(fault, Path(folder))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("NUMBA_CACHE_DIR", None)
        options = ["-n0", "-qx", "-p", "no:cacheprovider"]
        words = [sys.executable, "-m", "pytest", *options, *fault.tests.split()]
        done = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, text=True)
    return {0: "survived", 1: "caught"}.get(done.returncode, done.stdout[-500:])


def main(words: list[str]) -> int:
    chosen = {name: f for name, f in FAULTS.items() if all(word in name for word in words)}
    outcomes = {}
    for name, fault in chosen.items():
        outcomes[name] = outcome(fault)
        print(f"{outcomes[name]:<10}{name}", flush=True)
    n_caught = list(outcomes.values()).count("caught")
    print(f"{n_caught} of {len(outcomes)} faults were caught.")
    return int(n_caught < len(outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
