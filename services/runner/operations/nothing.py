"""Trains without cryptography: null (the same processes are started) and sham (nothing runs)."""

from runner.operations.work import Bench, Work, prepare

NULL_COMMAND = ("version",)
"""The cheapest thing that the same program does: it is loaded with its libraries, starts libcrypto, reads its
configuration, prints one line and ends."""


def prepare_null(bench: Bench) -> Work:
    """As many processes per repetition as the operation that it is subtracted from."""
    commands = (NULL_COMMAND,) * bench.processes
    prepare(bench, "null", commands)
    return Work(f"processes={bench.processes}", commands)


def prepare_sham(bench: Bench) -> Work:
    """Load segments sleep like idle ones: what they show is the error of the method."""
    return Work("", ())
