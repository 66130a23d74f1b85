"""What the paper claims beside what a run measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what became of it.

    Attributes
    ----------
    text : str
        The claim, in the paper's sense.
    measured : dict
        Numbers by name.
    held : bool
        Whether the numbers bear the claim out.
    remark : str
        Where ours differs from the paper, and why.
    """

    text: str
    measured: Mapping[str, float]
    held: bool
    remark: str = ""

    def __post_init__(self) -> None:
        # Plain numbers, whatever numpy they came from: a caller may want JSON.
        plain = {k: v if isinstance(v, int) else float(v) for k, v in self.measured.items()}
        object.__setattr__(self, "measured", plain)
        object.__setattr__(self, "held", bool(self.held))


@dataclass(frozen=True)
class Outcome:
    """What became of one experiment.

    Attributes
    ----------
    name : str
        Name of the experiment.
    skipped : str or None
        Why it did not run, and what to do about it; None where it ran.
    claims : list of Claim
        Its claims.
    files : list of Path
        Files written.
    """

    name: str
    skipped: str | None = None
    claims: list[Claim] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
