"""RSA-OAEP (SHA-256) of a 32-byte plaintext with `pkeyutl`: one process per repetition."""

from random import Random

from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.commands import Paths, decrypt_command, encrypt_command
from runner.operations.files import flip_last_bit, output, prepare_keys
from runner.operations.work import Bench, Output, Work, cli_work, prepare, repeat_untimed

PLAINTEXT_BYTES = 32
"""A symmetric key, which is what RSA is used to encrypt."""
VARIANT = f"oaep-sha256,message_bytes={PLAINTEXT_BYTES}"


def prepare_encrypt(bench: Bench) -> Work:
    """Keys and plaintext are there before; every repetition writes a ciphertext as long as the modulus."""
    paths = _prepare(bench)
    outputs = _ciphertext(bench, paths)
    sizes = {"ciphertext": paths.ciphertext.stat().st_size}
    check = lambda: _error(bench, paths)  # noqa: E731
    return cli_work(bench, VARIANT, (encrypt_command(paths),), outputs, output_bytes=sizes, check=check)


def prepare_decrypt(bench: Bench) -> Work:
    """Keys and a ciphertext are there before; every repetition writes the plaintext."""
    paths = _prepare(bench)
    commands, outputs = (decrypt_command(paths),), _plaintext(paths)
    prepare(bench, "decrypt", commands, outputs)
    sizes = {"plaintext": paths.secret.stat().st_size}
    return cli_work(bench, VARIANT, commands, outputs, output_bytes=sizes, check=lambda: _error(bench, paths))


def _prepare(bench: Bench) -> Paths:
    paths = Paths.within(bench.folder)
    paths.message.write_bytes(Random(bench.seed).randbytes(PLAINTEXT_BYTES))
    prepare_keys(bench, paths)
    prepare(bench, "encrypt", (encrypt_command(paths),), _ciphertext(bench, paths))
    return paths


def _ciphertext(bench: Bench, paths: Paths) -> tuple[Output, ...]:
    return (output("ciphertext", paths.ciphertext, bench.parameter_set.ciphertext_bytes),)


def _plaintext(paths: Paths) -> tuple[Output, ...]:
    return (output("plaintext", paths.secret, PLAINTEXT_BYTES),)


def _error(bench: Bench, paths: Paths) -> str | None:
    """What was encrypted afresh decrypts to the plaintext, and with a flipped bit it does not."""
    decrypt = (decrypt_command(paths),)
    error = repeat_untimed(bench.cli, (encrypt_command(paths),), _ciphertext(bench, paths))
    error = error or repeat_untimed(bench.cli, decrypt, _plaintext(paths))
    if error is not None:
        return error
    plaintext = paths.message.read_bytes()
    if paths.secret.read_bytes() != plaintext:
        return "what was decrypted is not the plaintext"
    ciphertext = flip_last_bit(paths.ciphertext)
    try:
        tampered = bench.cli.run(decrypt[0], PREPARATION_LIMIT_S)
        same = tampered.error is None and paths.secret.read_bytes() == plaintext
    finally:
        paths.ciphertext.write_bytes(ciphertext)
    return "a ciphertext with a flipped bit decrypts too" if same else None
