"""Claims of the paper with what a run measured, and the page that lists them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_BEGIN, _END = "<!-- claims -->", "<!-- end -->"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the numbers measured, and whether they support it.

    ``remark`` says how the run differs from the paper, and why.
    """

    text: str
    measured: Mapping[str, float]
    held: bool
    remark: str = ""

    def __post_init__(self) -> None:
        # Python numbers instead of numpy's, so that a claim can be written as JSON.
        plain = {k: v if isinstance(v, int) else float(v) for k, v in self.measured.items()}
        object.__setattr__(self, "measured", plain)
        object.__setattr__(self, "held", bool(self.held))


@dataclass(frozen=True)
class Outcome:
    """Claims of one experiment and the files written, or why it was skipped."""

    name: str
    skipped: str | None = None
    claims: list[Claim] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def with_table(text: str, claims_of: Mapping[str, list[Claim]]) -> str:
    """Return a page with the table of claims between its markers, which are added if missing."""
    if _BEGIN not in text:
        text += f"\n{_BEGIN}\n{_END}\n"
    lines = ["| experiment | the paper's claim | measured | held |", "|---|---|---|---|"]
    for name, claims in claims_of.items():
        for claim in claims:
            numbers = "; ".join(f"{key}: {_number(v)}" for key, v in claim.measured.items())
            remark = f" *{claim.remark}*" if claim.remark else ""
            held = "yes" if claim.held else "**no**"
            lines.append(f"| {name} | {claim.text} | {numbers}.{remark} | {held} |")
    block = "\n".join([_BEGIN, *lines, _END])
    return re.sub(f"{_BEGIN}.*?{_END}", lambda _: block, text, count=1, flags=re.DOTALL)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
