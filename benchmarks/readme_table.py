"""Write the tables of README.md from the results: ``python -m benchmarks.readme_table [FILE]``."""

import re
import sys
from pathlib import Path

from benchmarks.record import HERE, path_of, read
from benchmarks.tables import rendered

README = HERE.parent / "README.md"


def filled(text, tables):
    """Text with each table between its marks; marks whose table is missing are left alone."""
    for name, table in tables.items():
        block = f"<!-- {name} -->\n{table}\n<!-- end -->"
        text = re.sub(
            rf"<!-- {name} -->.*?<!-- end -->", lambda _, b=block: b, text, flags=re.DOTALL
        )
    return text


if __name__ == "__main__":
    results = read(Path(sys.argv[1]) if len(sys.argv) > 1 else path_of())
    README.write_text(filled(README.read_text(), rendered(results)))
