"""Key generation as in the published study: the private key, then the public key from it (two processes)."""

from runner.openssl.commands import Paths, keygen_commands
from runner.operations.work import Bench, Output, Work, key_size_error, prepare, repeat_untimed

RSA_SLACK_BYTES = 48
"""The numbers of an RSA private key may be a few bytes shorter or longer each; all other key files have one size."""


def prepare_keygen(bench: Bench) -> Work:
    """One pair is made first: its raw sizes are held against the catalogue, its file sizes against each repetition."""
    paths = Paths.within(bench.folder)
    commands = keygen_commands(bench.each, paths)
    prepare(bench, "keygen", commands)
    private_bytes, public_bytes = paths.private_key.stat().st_size, paths.public_key.stat().st_size
    slack_bytes = RSA_SLACK_BYTES if bench.each.family == "RSA" else 0
    outputs = (
        Output("private key file", paths.private_key, lambda size: abs(size - private_bytes) <= slack_bytes),
        Output("public key file", paths.public_key, lambda size: size == public_bytes),
    )

    def check() -> str | None:
        """A fresh pair has the standard's sizes and both keys load."""
        loads = (
            ("pkey", "-in", str(paths.private_key), "-noout"),
            ("pkey", "-pubin", "-in", str(paths.public_key), "-noout"),
        )
        return (
            repeat_untimed(bench.cli, commands, outputs)
            or key_size_error(paths.private_key, bench.each.private_key_bytes)
            or key_size_error(paths.public_key, bench.each.public_key_bytes)
            or repeat_untimed(bench.cli, loads)
        )

    sizes = {
        "private_key": bench.each.private_key_bytes,
        "public_key": bench.each.public_key_bytes,
        "private_key_file": private_bytes,
        "public_key_file": public_bytes,
    }
    return Work("pair", commands, outputs, sizes, check)
