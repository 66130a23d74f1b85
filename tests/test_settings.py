"""The module of hand-picked numbers names each of them once, and every one is used."""

import ast
from collections import Counter
from pathlib import Path

import mondrian_kernel

SOURCE = Path(mondrian_kernel.__file__).parent


def names():
    found = []
    for node in ast.parse((SOURCE / "_settings.py").read_text()).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                found += [part.id for part in parts]
    return found


def test_names_are_unique():
    assert [name for name, n in Counter(names()).items() if n > 1] == []


def test_every_name_is_used():
    text = "\n".join(
        path.read_text() for path in SOURCE.rglob("*.py") if path.name != "_settings.py"
    )
    assert [name for name in names() if name not in text] == []
