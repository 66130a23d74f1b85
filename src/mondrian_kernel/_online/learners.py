from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.means import Means
