"""All groups of attacks, by name."""

from itertools import islice

from hostile.commands import table_attacks, word_attacks
from hostile.files import SAVED, file_attacks
from hostile.interrupts import SUBJECTS, interrupt_attacks, save_attacks
from hostile.judge import argument_groups
from hostile.methods import method_groups

TABLE_COMMANDS = ("fit", "predict", "update", "path", "inspect")


def fixed_groups():
    """Yield attacks that are written down one by one."""
    yield from argument_groups()
    yield from method_groups()
    yield "command words", word_attacks()


def endless_groups(seed):
    """Yield attacks that are drawn at random, without an end."""
    for name in SAVED:
        yield f"{name} file", file_attacks(name, seed)
    for name in SUBJECTS:
        yield f"interrupted {name}", interrupt_attacks(name, seed)
    yield "interrupted save", save_attacks(seed)
    for command in TABLE_COMMANDS:
        yield f"command {command}", table_attacks(command, seed)


def quick_groups():
    """Yield the groups of a run of two minutes: a third of the slow, the first of the endless."""
    for name, attacks in fixed_groups():
        yield name, list(attacks)[:: 3 if {"Dask", "default"} & {*name.split()} else 1]
    for name, attacks in endless_groups(seed=0):
        yield name, islice(attacks, 60)
