"""The command that runs the experiments of the paper."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mondrian_kernel.app.cli.console import Console


def run(args: Namespace, console: Console) -> None:
    """Run experiments and show what became of the paper's claims."""
    import mondrian_kernel.experiments as mondrian_experiments

    def progress(done: int, total: int, words: str) -> None:
        console.progress.rename(words)
        console.progress(done, total)

    console.progress.stage("starting")
    try:
        outcomes = mondrian_experiments.run(
            None if args.names == ["all"] else args.names,
            data=None if args.data is None else Path(args.data),
            out=Path(args.out), quick=args.quick, seed=args.seed, progress=progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped; what was finished is in {args.out}.") from None
    result = {"out": args.out, "experiments": [asdict(outcome) for outcome in outcomes]}
    console.result(result, "\n".join([*map(_words, outcomes), f"results in {args.out}"]))


def _words(outcome: Any) -> str:
    """Say for each claim whether it held and what was measured."""
    if outcome.skipped is not None:
        return f"{outcome.name}\n  skipped: {outcome.skipped}\n"
    said = [outcome.name]
    for claim in outcome.claims:
        said.append(f"  {'held' if claim.held else 'NOT HELD'}: {claim.text}")
        said += [f"      {name}: {value:.4g}" for name, value in claim.measured.items()]
        if claim.remark:
            said.append(f"      ({claim.remark})")
    return "\n".join(said) + "\n"
