"""The experiments of the paper "The Mondrian Kernel", one module for each figure.

A run first writes numbers to JSON. Figures are drawn from the JSON, and the claims of the paper are
checked against it.
"""

from mondrian_kernel.experiments.claims import Claim, Outcome
from mondrian_kernel.experiments.runner import NAMES, run

__all__ = ["NAMES", "Claim", "Outcome", "run"]
