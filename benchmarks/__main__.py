"""Run the measurements: every part, or those that are named."""

import argparse
import os
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks import data
from benchmarks.record import HERE, Run, path_of

PARTS = {
    "features": "feature maps: time, memory, error of the kernel",
    "path": "the lifetime path beside one exact kernel ridge; every cut; growth with the rows",
    "width": "searches for the width: time to within 1 % of the best held-out error",
    "end_to_end": "regressor and classifier with defaults beside what one would pick instead",
    "trees": "error and time of the regressor against the number of trees",
    "relevance": "error and time with relevances of the inputs learnt, and without",
    "streams": "learning row by row beside river's forests",
    "growth": "time and memory against rows, trees, dims and cells",
    "cold_start": "imports, first calls, the command line",
    "time_spent": "where the time goes, and the bytes that must be read",
}

NEEDS = {"streams": "river", "end_to_end": "matplotlib"}
MODULES = {"streams": "beside_river"}  # streams itself is also a command


def main():
    lines = "\n".join(f"  {name:<12}{what}" for name, what in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"{__doc__}\n\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="*", help="default: all of them")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("MONDRIAN_KERNEL_DATA", "data"),
        help="folder of NAME.csv.gz",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes, under three minutes")
    parser.add_argument("--splits", type=int, help="of a data set, end to end; default: by size")
    parser.add_argument("--rows", type=int, help="to learn from at most, end to end and in streams")
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME",
        help="end to end, measure only these; what the file has of the others stays",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    arguments = parser.parse_args()
    unknown = set(arguments.part) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name, least in (("splits", 1), ("rows", 100)):
        if (given := getattr(arguments, name)) is not None and given < least:
            parser.error(f"--{name} must be at least {least}")
    parts = arguments.part or list(PARTS)
    for part in parts:
        if part in NEEDS and find_spec(NEEDS[part]) is None:
            parser.error(f"{part} needs {NEEDS[part]}: pip install {NEEDS[part]}")
    data.names(arguments.data)  # a folder without data is told before any work
    run = Run(**{name: value for name, value in vars(arguments).items() if name != "part"})
    warnings.simplefilter("ignore")  # a search tries what a model may well warn of
    for part in parts:
        import_module(f"benchmarks.{MODULES.get(part, part)}").measure(run)
    print(f"written to {path_of(run.out, run.quick)}")


if __name__ == "__main__":
    main()
