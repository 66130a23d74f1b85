"""Run the experiments of the paper and compare its claims with the results."""

import argparse
import sys
from pathlib import Path

from experiments.claims import Outcome
from experiments.runner import NAMES, run


def main(argv: list[str] | None = None) -> None:
    """Run the experiments that are named and print their claims."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"all (default), or some of {', '.join(NAMES)}")
    add("--data", type=Path, metavar="DIR", help="folder of cpu_act.csv.gz (OpenML data set 197)")
    add("--quick", action="store_true", help="small sizes, in minutes")
    add("--seed", type=int, default=0, metavar="N", help="seed of everything random (0)")
    out = "folder of results and figures (reproduced)"
    add("--out", type=Path, default=Path("reproduced"), metavar="DIR", help=out)
    args = parser.parse_args(argv)
    names = None if args.names in ([], ["all"]) else args.names
    try:
        outcomes = run(
            names, data=args.data, out=args.out, quick=args.quick, seed=args.seed, progress=_tell
        )
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(f"Stopped; finished experiments are in {args.out}.")
    print("\n".join([*map(_words, outcomes), f"results in {args.out}"]))


def _tell(done: int, total: int, words: str) -> None:
    print(f"{100 * done // total:3} %  {words}", file=sys.stderr)


def _words(outcome: Outcome) -> str:
    """Say for each claim whether it held and what was measured."""
    if outcome.skipped is not None:
        return f"{outcome.name}\n  skipped: {outcome.skipped}\n"
    lines = [outcome.name]
    for claim in outcome.claims:
        lines.append(f"  {'held' if claim.held else 'NOT HELD'}: {claim.text}")
        lines += [f"      {name}: {value:.4g}" for name, value in claim.measured.items()]
        if claim.remark:
            lines.append(f"      ({claim.remark})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
