"""Attack for some time and write what came of it to a table, which the docs show.

    python tests/hostile --minutes 60

The attacks that are written down come once, random files and tables until the time is over.
"""

import argparse
import csv
import sys
import time
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
OUTCOMES = ["refused", "accepted", "failed"]


def batches(seed):
    """Yield groups of attacks, without an end."""
    from hostile.groups import endless_groups, fixed_groups

    groups = [(name, iter(attacks)) for name, attacks in (*fixed_groups(), *endless_groups(seed))]
    while True:
        for name, attacks in groups:
            yield name, islice(attacks, 50)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    default = ROOT / "benchmarks" / "results" / "hostile.csv"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    begin, found, n_faults = time.monotonic(), defaultdict(Counter), 0
    for name, attacks in batches(options.seed):
        if time.monotonic() - begin > 60 * options.minutes:
            break
        for attack in attacks:
            try:
                outcome = attack.run()
            except Exception as fault:
                outcome, n_faults = "failed", n_faults + 1
                print(f"{name}, {attack.what}: {type(fault).__name__} {fault}"[:500], flush=True)
            found[attack.name][outcome] += 1
    minutes = round((time.monotonic() - begin) / 60)
    found[f"all, in {minutes} minutes"] = sum(found.values(), Counter())
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["attacked", "tried", *OUTCOMES])
        for name, outcomes in found.items():
            writer.writerow([name, outcomes.total(), *(outcomes[o] for o in OUTCOMES)])
    return n_faults


if __name__ == "__main__":
    sys.exit(main() > 0)
