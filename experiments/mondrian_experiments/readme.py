"""The page of a run: the table of claims, written between two markers, and the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mondrian_experiments.claims import Claim

_BEGIN, _END = "<!-- claims -->", "<!-- end -->"

TEMPLATE = f"""\
# The paper's experiments

    mondrian-kernel reproduce all --data DIR

runs the experiments of *The Mondrian Kernel* (Balog, Lakshminarayanan, Ghahramani, Roy and Teh, UAI
2016); `--quick` runs them at small sizes. DIR holds `cpu_act.csv.gz`, the CPU data (OpenML data set
197); without it, and offline, the experiments on it are skipped. A run writes numbers to `results`,
draws `figures` from them, and sets the paper's claims beside them here. Inputs are raw, targets
less their mean, errors 100 ‖ŷ - y‖ / ‖y‖, times CPU seconds on one thread.

{_BEGIN}
{_END}

## Figures

The Mondrian process on a box, with its tree (figure 1), and restricted to a smaller one (figure 2):

![](figures/partition.png)
![](figures/restriction.png)

Error of the kernel (figure 5), and test error on the CPU data (figure 6):

![](figures/kernel-error.png)
![](figures/cpu-error.png)

A known width found again (figure 7), and the time to a good one (figure 8):

![](figures/width-recovery.png)
![](figures/width-search.png)

Kernel and forest on the same trees (figures 9 and 10):

![](figures/kernel-and-forest.png)
![](figures/weights.png)
"""


def with_table(text: str, claims_of: Mapping[str, list[Claim]]) -> str:
    """Return a page with the table between its markers; they are added where there are none."""
    if _BEGIN not in text:
        text += f"\n{_BEGIN}\n{_END}\n"
    block = f"{_BEGIN}\n{_table(claims_of)}\n{_END}"
    return re.sub(f"{_BEGIN}.*?{_END}", lambda _: block, text, count=1, flags=re.DOTALL)


def _table(claims_of: Mapping[str, list[Claim]]) -> str:
    """Markdown table of the claims of experiments."""
    lines = ["| experiment | the paper's claim | measured | held |", "|---|---|---|---|"]
    for name, claims in claims_of.items():
        for claim in claims:
            numbers = "; ".join(f"{key}: {_number(v)}" for key, v in claim.measured.items())
            remark = f" *{claim.remark}*" if claim.remark else ""
            held = "yes" if claim.held else "**no**"
            lines.append(f"| {name} | {claim.text} | {numbers}.{remark} | {held} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
