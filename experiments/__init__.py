"""The experiments of the paper "The Mondrian Kernel", one module for each figure.

A run writes numbers to JSON. Figures are drawn and claims are checked from the JSON.
"""

from experiments.claims import Claim, Outcome
from experiments.runner import NAMES, run

__all__ = ["NAMES", "Claim", "Outcome", "run"]
