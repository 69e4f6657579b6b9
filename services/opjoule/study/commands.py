"""Runs the published commands once on the OpenSSL at hand, and says which of them fail."""

from collections.abc import Callable, Iterable
from typing import cast

from errors import SettingsError
from opjoule.study.names import Subject
from runner.openssl import OpenSsl, obtain_openssl, try_published_command
from runner.openssl.commands import KeyOperation

TRIED = ("keygen", "sign", "verify")


def try_commands(subjects: Iterable[Subject], progress: Callable[[int, int], None]) -> dict[tuple[str, str], str]:
    """By operation and parameter set: what is wrong with the command, or why it was not tried; empty where it works."""
    wanted = sorted({(str(s.operation), s.parameter_set) for s in subjects if s.operation in TRIED})
    try:
        openssl = obtain_openssl(None).openssl
    except SettingsError as error:
        return dict.fromkeys(wanted, f"not tried: {error}")
    said: dict[tuple[str, str], str] = {}
    for number, (operation, parameter_set) in enumerate(wanted):
        progress(number, len(wanted))
        said[operation, parameter_set] = _tried(openssl, cast(KeyOperation, operation), parameter_set)
    progress(len(wanted), len(wanted))
    return said


def _tried(openssl: OpenSsl, operation: KeyOperation, parameter_set: str) -> str:
    try:
        outcome = try_published_command(openssl, operation, parameter_set)
    except SettingsError as error:
        return f"not tried: {error}"
    if outcome.exit_status == 0:
        return ""
    return f"the published command fails: exit {outcome.exit_status}, {outcome.output_bytes} bytes"
