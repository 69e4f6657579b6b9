"""Trains without cryptography: null (the same processes are started, the same files read) and sham (nothing runs)."""

import re

from errors import SettingsError
from runner.message import empty_message
from runner.openssl.commands import Paths, null_commands
from runner.operations.work import Bench, Work, cli_work, prepare

KEY_FILE_LINE, KEY_FILE_LINES = "A" * 64 + "\n", 27
"""As long as the private key file of RSA-2048, in the middle of those of the catalogue."""
_VARIANT = re.compile(r"processes=([1-9])(?:,reads=(key|key\+message,message_bytes=(\d{1,10})))?")


def prepare_null(bench: Bench) -> Work:
    """As many processes per repetition as the operation that it is subtracted from, and as many bytes read.

    Raises SettingsError for a variant that is none.
    """
    variant = bench.job.null_variant
    match = _VARIANT.fullmatch(variant)
    if match is None:
        raise SettingsError(f"no null train {variant!r}: processes=N[,reads=key[+message,message_bytes=M]]")
    paths = Paths.within(bench.folder)
    paths.private_key.write_text(KEY_FILE_LINE * KEY_FILE_LINES)
    paths.message.write_bytes(empty_message(int(match[3] or 0)))
    commands = null_commands(int(match[1]), match[2] is not None, match[3] is not None, paths)
    prepare(bench, "null", commands)
    return cli_work(bench, variant, commands)


def prepare_sham(bench: Bench) -> Work:
    """Load segments sleep like idle ones: what they show is the error of the method."""
    return Work("")
