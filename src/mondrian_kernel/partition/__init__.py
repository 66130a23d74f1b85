"""The Mondrian process on a box: sample it, stop it earlier, restrict it, extend it."""

from mondrian_kernel.partition.box_tree import Level
from mondrian_kernel.partition.partition import BoxCells, BoxCuts, MondrianPartition

__all__ = ["BoxCells", "BoxCuts", "Level", "MondrianPartition"]
