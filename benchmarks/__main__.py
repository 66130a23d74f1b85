"""Measure our models beside what a user would pick instead, one part at a time.

A cell (data set, split, method) is written to the file of its part as soon as it is measured. A run
that was stopped goes on where it was. After a change of the library, ``--again --methods "Mondrian
kernel"`` measures ours anew.
"""

import argparse
import os
import warnings
from importlib import import_module
from pathlib import Path

from benchmarks import PARTS

WORDS = {
    "check": "a quick run beside the stored ratios; fails where error or time got worse",
    "tables": "print all tables; --write puts them into README.md and draws the pictures",
}


def main():
    lines = "\n".join(f"  {name:<12}{what}" for name, what in (PARTS | WORDS).items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"{__doc__}\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("part", nargs="+", choices=[*PARTS, *WORDS], metavar="PART")
    add("--quick", action="store_true", help="small sizes, two splits")
    add("--methods", nargs="+", metavar="NAME", help="only these")
    add("--sets", nargs="+", metavar="NAME", help="only these")
    add("--again", action="store_true", help="measure cells anew that are in the file")
    add("--jobs", type=int, default=1, metavar="N", help="cells at a time")
    add("--threads", type=int, default=1, metavar="N", help="of every method")
    add("--splits", type=int, default=5, metavar="N", help="default: 5")
    add("--rows", type=int, default=20_000, metavar="N", help="to learn from; default: 20000")
    add("--limit", type=float, default=1800, metavar="S", help="seconds of a cell; default: 1800")
    add("--budget", type=float, metavar="S", help="CPU seconds of a search; default: our fit's")
    add("--huge", action="store_true", help="growth up to ten million rows")
    add("--seed", type=int, default=0, metavar="N", help="of the first split")
    folder = os.environ.get("MONDRIAN_KERNEL_DATA", "data")
    add("--data", type=Path, default=folder, help="folder of NAME.csv.gz")
    add("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    add("--smallest", action="store_true", help="check: drawn data only, under a minute")
    add("--store", action="store_true", help="check: keep what is found as the ratios to come")
    add("--write", action="store_true", help="tables: into README.md, and pictures")
    arguments = vars(parser.parse_args())
    for name in ("jobs", "threads", "splits", "rows"):
        if arguments[name] < 1:
            parser.error(f"--{name} must be at least 1")
    parts = arguments.pop("part")
    extra = {name: arguments.pop(name) for name in ("smallest", "store", "write")}
    # Before any library reads them; processes of cells inherit them.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments["threads"])
    run(parts, arguments, extra)


def run(parts, arguments, extra):
    from benchmarks import check, pictures, record, tables

    options = record.Options(**arguments)
    options = options.made_quick() if options.quick else options
    warnings.simplefilter("ignore")  # a model may well warn of what a search tries
    for part in parts:
        if part == "check":
            check.run(options, extra["smallest"], extra["store"])
        elif part == "tables":
            if extra["write"]:  # the pictures first: the tables show those that are there
                pictures.draw(options.out, options.quick)
            found = tables.rendered(options.out, options.quick)
            if extra["write"]:
                tables.README.write_text(tables.filled(tables.README.read_text(), found))
            else:
                print("\n\n".join(f"### {name}\n\n{text}" for name, text in found.items()))
        else:
            record.run(part, import_module(f"benchmarks.{part}").plan(options), options)
            print(f"written to {record.path_of(part, options)}")


if __name__ == "__main__":
    main()
