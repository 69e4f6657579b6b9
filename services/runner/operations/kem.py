"""Encapsulation and decapsulation with `pkeyutl` of OpenSSL 3.5: one process per repetition."""

from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.commands import Paths, decaps_command, encaps_command
from runner.operations.files import flip_last_bit, output, prepare_keys
from runner.operations.work import Bench, Output, Work, cli_work, prepare, repeat_untimed


def prepare_encaps(bench: Bench) -> Work:
    """Keys are there before; every repetition writes a ciphertext and a secret of the standard's sizes."""
    paths = _prepare(bench)
    outputs = _encapsulated(bench, paths)
    return cli_work(
        bench,
        "",
        (encaps_command(paths),),
        outputs,
        output_bytes={each.kind.replace(" ", "_"): each.path.stat().st_size for each in outputs},
        check=lambda: _error(bench, paths),
    )


def prepare_decaps(bench: Bench) -> Work:
    """Keys and a ciphertext are there before; every repetition writes the secret."""
    paths = _prepare(bench)
    commands, decapsulated = (decaps_command(paths),), _decapsulated(bench, paths)
    prepare(bench, "decaps", commands, decapsulated)
    sizes = {"shared_secret": paths.peer_secret.stat().st_size}
    return cli_work(bench, "", commands, decapsulated, output_bytes=sizes, check=lambda: _error(bench, paths))


def _prepare(bench: Bench) -> Paths:
    paths = Paths.within(bench.folder)
    prepare_keys(bench, paths)
    prepare(bench, "encaps", (encaps_command(paths),), _encapsulated(bench, paths))
    return paths


def _encapsulated(bench: Bench, paths: Paths) -> tuple[Output, ...]:
    each = bench.parameter_set
    return (
        output("ciphertext", paths.ciphertext, each.ciphertext_bytes),
        output("shared secret", paths.secret, each.shared_secret_bytes),
    )


def _decapsulated(bench: Bench, paths: Paths) -> tuple[Output, ...]:
    return (output("shared secret", paths.peer_secret, bench.parameter_set.shared_secret_bytes),)


def _error(bench: Bench, paths: Paths) -> str | None:
    """A fresh encapsulation gives a fresh secret, and decapsulation the same one; with a flipped bit it does not."""
    before = paths.secret.read_bytes()
    decaps, decapsulated = (decaps_command(paths),), _decapsulated(bench, paths)
    error = repeat_untimed(bench.cli, (encaps_command(paths),), _encapsulated(bench, paths))
    error = error or repeat_untimed(bench.cli, decaps, decapsulated)
    if error is not None:
        return error
    secret = paths.secret.read_bytes()
    if paths.peer_secret.read_bytes() != secret:
        return "the decapsulated secret is not the encapsulated one"
    if secret == before:
        return "two encapsulations give the same secret"
    return _tampered_error(bench, paths, secret)


def _tampered_error(bench: Bench, paths: Paths, secret: bytes) -> str | None:
    ciphertext = flip_last_bit(paths.ciphertext)
    try:
        tampered = bench.cli.run(decaps_command(paths), PREPARATION_LIMIT_S)
        same = tampered.error is None and paths.peer_secret.read_bytes() == secret
    finally:
        paths.ciphertext.write_bytes(ciphertext)
    return "a ciphertext with a flipped bit gives the same secret" if same else None
