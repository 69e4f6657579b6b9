"""The only part of opjoule that touches OpenSSL: finding it, asking what it can do, running its commands."""

from runner.openssl.capabilities import offered_parameter_sets
from runner.openssl.cli import CommandOutcome, OpenSslCli, try_published_command
from runner.openssl.locate import Found, find_openssl, obtain_openssl
from runner.openssl.private import private_folder, remove_abandoned
from runner.openssl.program import OpenSsl

__all__ = [
    "CommandOutcome",
    "Found",
    "OpenSsl",
    "OpenSslCli",
    "find_openssl",
    "obtain_openssl",
    "offered_parameter_sets",
    "private_folder",
    "remove_abandoned",
    "try_published_command",
]
