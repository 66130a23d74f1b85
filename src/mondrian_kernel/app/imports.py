"""What scikit-learn and pyarrow would import and no command needs.

Importing scikit-learn imports pandas, where it is installed, and scipy.stats. On the reference
machine these take 0.2 and 0.25 of the 0.75 CPU seconds before a command starts.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_UNUSED = "pandas"
_LATER = "scipy.stats"


def leave_out_imports() -> None:
    """Let this process do without pandas, and import scipy.stats when its names are looked up.

    Only for a process that runs the command line and nothing else.
    """
    if _UNUSED not in sys.modules:
        sys.meta_path.insert(0, _Absent())
    if _LATER not in sys.modules:
        sys.modules[_LATER] = _Postponed(_LATER)


class _Absent:
    """A finder of modules that says of one that it is not installed."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name == _UNUSED:
            raise ModuleNotFoundError(f"The command line does without {name}.", name=name)


class _Postponed(ModuleType):
    """Stands for a module until a name in it is looked up."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
