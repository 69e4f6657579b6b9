"""Runs the published commands once on the OpenSSL at hand, and says which of them fail."""

from collections.abc import Callable, Iterable
from typing import Literal, cast

from errors import SettingsError
from opjoule.study.names import Subject
from runner.openssl import obtain_openssl, try_published_command

TRIED = ("keygen", "sign", "verify")
Operation = Literal["keygen", "sign", "verify"]


def try_commands(subjects: Iterable[Subject], progress: Callable[[int, int], None]) -> dict[tuple[str, str], str]:
    """By operation and parameter set: what is wrong with the command; empty where it works."""
    wanted = sorted({(s.operation, s.parameter_set) for s in subjects if s.operation in TRIED})
    openssl = obtain_openssl(None).openssl
    said: dict[tuple[str, str], str] = {}
    for number, (operation, parameter_set) in enumerate(wanted):
        progress(number, len(wanted))
        try:
            outcome = try_published_command(openssl, cast(Operation, operation), parameter_set)
        except SettingsError as error:
            said[str(operation), parameter_set] = f"not tried: {error}"
            continue
        failed = outcome.exit_status != 0
        said[str(operation), parameter_set] = (
            f"the published command fails: exit {outcome.exit_status}, {outcome.output_bytes} bytes" if failed else ""
        )
    progress(len(wanted), len(wanted))
    return said
