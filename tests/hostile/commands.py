"""The command line on strange tables, damaged models and wrong options."""

import csv
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from itertools import count

import numpy as np

from hostile.files import damaged, new_folder
from hostile.judge import ACCEPTED, REFUSED, Attack, watched
from house_table import rows
from mondrian_kernel.app.main import main

CELLS = [
    "", "?", "NaN", "inf", "-inf", "1e400", "-1e-400", "1e99", "99,12", "1.234,5", "€ 3", "3 %",
    "=1+1", "0x10", "\x1b[2J", "\u202e", "\x00", '"', "'", "\\", "a" * 5000, "9007199254740993",
    "٣", "１", "true", "2020-02-30", "None", "\ud800", " ", "\t", ";", "\r", "brick",
]  # fmt: skip
FEW = ["--target", "price", "--trees", "3", "--quiet"]
WORDS = [
    ["demo", "--seed", "-1"], ["demo", "--report", "."], ["demo", "--jobs", "x"], ["demo", "--no"],
    ["fit", "TABLE"], ["fit", "TABLE", "--target", "nothing"], ["fit", "TABLE", "--target", ""],
    ["fit", "nowhere", *FEW], ["fit", ".", *FEW], ["fit", "MODEL", *FEW], ["fit", os.devnull, *FEW],
    ["fit", "TABLE", *FEW, "--drop", "nothing"],
    ["fit", "TABLE", *FEW, "--categorical", "nothing"], ["fit", "TABLE", *FEW, "--task", "x"],
    ["fit", "TABLE", *FEW, "--holdout", "1"], ["fit", "TABLE", *FEW, "--holdout", "nan"],
    ["fit", "TABLE", *FEW, "--trees", "0"], ["fit", "TABLE", *FEW, "--decimal", ";"],
    ["fit", "TABLE", *FEW, "-o", "."], ["fit", "TABLE", *FEW, "-o", "TABLE"],
    ["fit", "TABLE", *FEW, "-o", "no/where"], ["fit", "TABLE", *FEW, "-o", "n" * 300],
    ["fit", "TABLE", *FEW, "-o", "one", "--report", "one"], ["fit", "TABLE", *FEW, "--report", "."],
    ["predict", "MODEL"], ["predict", "TABLE", "TABLE"], ["predict", "MODEL", "MODEL"],
    ["predict", "MODEL", "TABLE", "-o", "MODEL"], ["predict", "MODEL", "TABLE", "--interval", "1"],
    ["predict", "MODEL", "TABLE", "-o", "."], ["predict", "nowhere", "TABLE"],
    ["update", "MODEL"], ["update", "TABLE", "TABLE"], ["update", "MODEL", "nowhere"],
    ["update", "MODEL", "TABLE", "-o", "."], ["update", ".", "TABLE"],
    ["path", "TABLE", "--target", "sold", "--trees", "0"], ["path", "TABLE"],
    ["path", "TABLE", "--target", "price", "--trees", "3", "--plot", "a.txt"],
    ["path", "TABLE", "--target", "price", "--trees", "3", "--max-rows", "1"],
    ["inspect", "TABLE"], ["inspect", "."], ["inspect", "nowhere"], ["inspect", os.devnull],
    ["inspect"], [],
]  # fmt: skip


@cache
def place():
    """Return a folder with a table and a model of it."""
    folder, table = new_folder(), rows(12)
    (folder / "TABLE").write_bytes(text_of([list(table[0]), *(list(r.values()) for r in table)]))
    assert run(["fit", "TABLE", *FEW, "--drop", "sold", "-o", "MODEL"], folder)[0] == 0
    return folder


def text_of(lines, encoding="utf-8", separator=",", end="\n"):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator=end).writerows(lines)
    return text.getvalue().encode(encoding, "surrogatepass")


def strange_table(rng):
    """Return a table with some wrong cells, names, rows or bytes."""
    table = rows(int(rng.choice([1, 3, 12, 12])), seed=int(rng.integers(9)))
    lines = [list(table[0]), *(list(row.values()) for row in table)]
    for _ in range(rng.integers(3)):
        word, column = str(rng.choice(CELLS)), int(rng.integers(4))
        kind = rng.integers(4)
        if kind == 0:  # a cell or a name
            line = lines[rng.integers(len(lines))]
            line[column % len(line)] = word
        elif kind == 1:  # a column
            for line in lines[1:]:
                line[column % len(line)] = word
        elif kind == 2:  # a row that is too long or too short
            line = lines[rng.integers(len(lines))]
            line[2:] = [] if rng.integers(2) else [word] * 5
        else:
            lines[0][column % len(lines[0])] = lines[0][0]
    encoding = str(rng.choice(["utf-8"] * 6 + ["utf-16", "latin-1", "utf-8-sig"]))
    if encoding == "latin-1":
        lines = [[cell.encode("ascii", "replace").decode() + "é" for cell in li] for li in lines]
    separator, end = str(rng.choice([",", ";", "\t"])), str(rng.choice(["\n", "\r\n", "\r"]))
    contents = text_of(lines, encoding, separator, end)
    if rng.uniform() < 0.1:
        at = int(rng.integers(len(contents)))
        contents = contents[:at] + rng.bytes(5) + contents[at:]
    return contents


def run(words, folder):
    """Run a command in a folder; return its exit code and what it wrote to the standard error."""
    out, said, before = io.StringIO(), io.StringIO(), os.getcwd()
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(said), watched():
            code = main(words)
    except SystemExit as stop:
        code = stop.code
    finally:
        os.chdir(before)
    for text in (out.getvalue(), said.getvalue()):
        assert not set("\x00\x1b\x9b\u202e") & set(text), "A name reached the terminal."
    return code, said.getvalue()


def judged(words, folder):
    """Run a command, which succeeds or says in one sentence what is wrong."""
    code, said = run(words, folder)
    if code == 0:
        return ACCEPTED
    assert code in (1, 2), (code, said)
    if code == 1:
        assert said.startswith("mondrian-kernel: "), said
        assert said.endswith(".\n"), said
        assert said.count("\n") == 1, said
    return REFUSED


def attack_words(words):
    """Run a command that must be refused; model and table stay as they were."""
    folder = place()
    before = [(folder / name).read_bytes() for name in ("MODEL", "TABLE")]
    assert judged(words, folder) == REFUSED
    assert [(folder / name).read_bytes() for name in ("MODEL", "TABLE")] == before
    return REFUSED


def attack_table(command, seed):
    """Run a command on a strange table or, to inspect, a damaged model."""
    rng, folder = np.random.default_rng(seed), place()
    model = (folder / "MODEL").read_bytes()
    (folder / "STRANGE").write_bytes(
        damaged(model, rng) if command == "inspect" else strange_table(rng)
    )
    words = {
        "fit": ["fit", "STRANGE", *FEW, "-o", "new"],
        "path": ["path", "STRANGE", "--target", "price", "--trees", "3"],
        "predict": ["predict", "MODEL", "STRANGE", "-o", "new", "--interval", "0.5"],
        "update": ["update", "MODEL", "STRANGE", "-o", "new", "--quiet"],
        "inspect": ["inspect", "STRANGE"],
    }[command]
    outcome = judged(words, folder)
    assert (folder / "MODEL").read_bytes() == model
    assert not (command == "inspect" and outcome == ACCEPTED), "A damaged file was taken."
    return outcome


def word_attacks():
    """Yield the attacks with wrong options."""
    for words in WORDS:
        yield Attack("command words", " ".join(words), partial(attack_words, words))


def table_attacks(command, seed):
    """Yield attacks on a command by strange files, without an end."""
    for number in count():
        run = partial(attack_table, command, [seed, number])
        yield Attack(f"command {command}", f"seed {seed}, {number}", run)
