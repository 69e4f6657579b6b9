"""The only part of opjoule that touches OpenSSL: finding it, asking what it can do, running its commands.

Names are imported when they are first used: a runner that only looks for its OpenSSL, to start Python again on it, does
not pay for the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runner.openssl.capabilities import Offer, offered, offered_parameter_sets
    from runner.openssl.cli import OpenSslCli
    from runner.openssl.locate import Found, find_openssl, obtain_openssl
    from runner.openssl.private import private_folder, remove_abandoned
    from runner.openssl.program import OpenSsl
    from runner.openssl.published import CommandOutcome, try_published_command

__all__ = [
    "CommandOutcome",
    "Found",
    "Offer",
    "OpenSsl",
    "OpenSslCli",
    "find_openssl",
    "obtain_openssl",
    "offered",
    "offered_parameter_sets",
    "private_folder",
    "remove_abandoned",
    "try_published_command",
]

_WHERE = {
    "CommandOutcome": "published",
    "Found": "locate",
    "Offer": "capabilities",
    "OpenSsl": "program",
    "OpenSslCli": "cli",
    "find_openssl": "locate",
    "obtain_openssl": "locate",
    "offered": "capabilities",
    "offered_parameter_sets": "capabilities",
    "private_folder": "private",
    "remove_abandoned": "private",
    "try_published_command": "published",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(name)
    return getattr(import_module(f"runner.openssl.{_WHERE[name]}"), name)
