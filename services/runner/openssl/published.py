"""Tries the published study's commands, to say what they did."""

from dataclasses import dataclass
from random import Random

from errors import SettingsError
from runner.openssl.capabilities import offered_parameter_sets
from runner.openssl.cli import PREPARATION_LIMIT_S, Finished, OpenSslCli
from runner.openssl.commands import Command, KeyOperation, Paths, keygen_commands, published_command
from runner.openssl.private import private_folder
from runner.openssl.program import OpenSsl
from runner.stopping import Stop
from schemas import CATALOGUE


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What became of a published command: `output_bytes` counts the files it wrote, or what it printed."""

    exit_status: int
    output_bytes: int
    first_error_line: str


def try_published_command(
    openssl: OpenSsl, operation: KeyOperation, parameter_set: str, message_bytes: int = 19_600
) -> CommandOutcome:
    """Run the study's command for an operation once, on fresh keys and a message of this size.

    The signature to verify is the one that the published signing command wrote, be it empty. Raises SettingsError
    `this OpenSSL lacks X` where it does.
    """
    if parameter_set not in offered_parameter_sets(openssl):
        raise SettingsError(f"this OpenSSL lacks {parameter_set}")
    each = CATALOGUE[parameter_set]
    stop = Stop()
    with private_folder() as folder:
        paths = Paths.within(folder)
        paths.message.write_bytes(Random(0).randbytes(message_bytes))
        cli = OpenSslCli(openssl, folder, stop)
        try:
            before: tuple[Command, ...] = () if operation == "keygen" else keygen_commands(each, paths)
            if operation == "verify":
                before += published_command("sign", each, paths)
            for command in before:
                cli.run(command, PREPARATION_LIMIT_S)
            return _outcome(cli, published_command(operation, each, paths), operation, paths)
        finally:
            cli.close()
            stop.close()


def _outcome(cli: OpenSslCli, commands: tuple[Command, ...], operation: KeyOperation, paths: Paths) -> CommandOutcome:
    printed = cli.folder / "printed"
    written = {"keygen": (paths.private_key, paths.public_key), "sign": (paths.signature,), "verify": (printed,)}
    finished = Finished(0, 0.0, None)
    for command in commands:
        finished = cli.run_into(command, printed, PREPARATION_LIMIT_S)
        if finished.error is not None:
            break
    output_bytes = sum(path.stat().st_size for path in written[operation] if path.exists())
    return CommandOutcome(finished.exit_status, output_bytes, cli.error_line() if finished.error else "")
