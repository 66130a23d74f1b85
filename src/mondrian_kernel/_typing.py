"""Types of arrays."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
RowArray = NDArray[np.float64] | NDArray[np.float32]
IntArray = NDArray[np.int32]
