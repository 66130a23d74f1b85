"""The Mondrian process on a box: sample it, stop it earlier, restrict it, extend it."""

from mondrian_kernel.partition.partition import Cells, Cuts, MondrianPartition

__all__ = ["Cells", "Cuts", "MondrianPartition"]
