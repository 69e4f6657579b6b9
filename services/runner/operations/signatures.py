"""Signing and verification of a message file with `pkeyutl`: one process per repetition."""

from random import Random

from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.commands import Paths, keygen_commands, raw_input, sign_command, verify_command
from runner.operations.work import Bench, Output, Work, prepare, repeat_untimed


def prepare_sign(bench: Bench) -> Work:
    """Keys and message are there before; every repetition writes a signature of the standard's size."""
    paths = _prepare_keys(bench, "sign")
    output = _signature(bench, paths)
    commands = (sign_command(bench.each, paths),)
    prepare(bench, "sign", commands, (output,))

    def check() -> str | None:
        return repeat_untimed(bench.cli, commands, (output,)) or _verification_error(bench, paths)

    return Work(_variant(bench), commands, (output,), {"signature": paths.signature.stat().st_size}, check)


def prepare_verify(bench: Bench) -> Work:
    """Keys, message and a signature are there before; a verification writes nothing, its exit status is the answer."""
    paths = _prepare_keys(bench, "verify")
    prepare(bench, "sign", (sign_command(bench.each, paths),), (_signature(bench, paths),))
    commands = (verify_command(bench.each, paths),)
    prepare(bench, "verify", commands)
    return Work(_variant(bench), commands, check=lambda: _verification_error(bench, paths))


def _prepare_keys(bench: Bench, what: str) -> Paths:
    paths = Paths.within(bench.folder)
    paths.message.write_bytes(Random(bench.seed).randbytes(bench.message_bytes))
    prepare(bench, f"{what}: keygen", keygen_commands(bench.each, paths))
    return paths


def _signature(bench: Bench, paths: Paths) -> Output:
    return Output("signature", paths.signature, bench.each.signature_size_is_right)


def _variant(bench: Bench) -> str:
    return ",".join((f"message_bytes={bench.message_bytes}", *(option.strip("-") for option in raw_input(bench.each))))


def _verification_error(bench: Bench, paths: Paths) -> str | None:
    """The signature verifies, and with its last bit flipped it does not; None when both are so."""
    command = verify_command(bench.each, paths)
    error = repeat_untimed(bench.cli, (command,))
    if error is not None:
        return f"the signature does not verify: {error}"
    signature = paths.signature.read_bytes()
    try:
        paths.signature.write_bytes(signature[:-1] + bytes([signature[-1] ^ 1]))
        flipped = bench.cli.run(command, PREPARATION_LIMIT_S)
    finally:
        paths.signature.write_bytes(signature)
    return "a signature with a flipped bit verifies too" if flipped.error is None else None
