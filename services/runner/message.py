"""The message that is signed, and how long it may be on this machine."""

import os
from pathlib import Path
from random import Random

from errors import SettingsError
from runner.job import MOST_MESSAGE_BYTES

MEMORY_PARTS = 16
"""A message may take this part of the memory: it is there in the runner, in a file in memory and in the program that
signs it, which makes room for it in steps of twice as much."""


def random_message(size_bytes: int, seed: int) -> bytes:
    """Random bytes. Raises SettingsError where this machine has no room for so many."""
    hold_against_memory(size_bytes, memory_bytes())
    return Random(seed).randbytes(size_bytes)


def empty_message(size_bytes: int) -> bytes:
    """Zeros, for a null train, which only reads them. Raises SettingsError where there is no room for so many."""
    hold_against_memory(size_bytes, memory_bytes())
    return bytes(size_bytes)


def message_of_file(path: Path, size_bytes: int) -> bytes:
    """What a file of this size holds. Raises SettingsError where it does not, or where there is no room for it."""
    hold_against_memory(size_bytes, memory_bytes())
    try:
        message = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the message file {path} cannot be read: {error.strerror}") from None
    if len(message) != size_bytes:
        raise SettingsError(f"the message file {path} has {len(message)} bytes, not {size_bytes}")
    return message


def hold_against_memory(size_bytes: int, memory_bytes: int | None) -> None:
    """Raises SettingsError for a message that is too long for a machine with so much memory."""
    most_bytes = MOST_MESSAGE_BYTES if memory_bytes is None else min(MOST_MESSAGE_BYTES, memory_bytes // MEMORY_PARTS)
    if size_bytes > most_bytes:
        raise SettingsError(
            f"a message of {size_bytes} bytes is too long for the memory of this machine: {most_bytes} at most"
        )


def memory_bytes() -> int | None:
    """The memory of this machine; None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
