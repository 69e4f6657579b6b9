"""Key agreement with `pkeyutl -derive` (ECDH, X25519, X448): one process per repetition."""

from runner.openssl.commands import Paths, derive_command
from runner.operations.files import output, prepare_keys
from runner.operations.work import Bench, Output, Work, cli_work, prepare, repeat_untimed


def prepare_derive(bench: Bench) -> Work:
    """Both sides' keys are there before; every repetition writes the secret of one side."""
    paths = Paths.within(bench.folder)
    prepare_keys(bench, paths)
    prepare_keys(bench, paths.of_the_peer(), "the peer's keygen")
    commands, outputs = (derive_command(paths),), _outputs(bench, paths)
    prepare(bench, "derive", commands, outputs)
    sizes = {"shared_secret": paths.secret.stat().st_size}
    return cli_work(bench, "", commands, outputs, output_bytes=sizes, check=lambda: _error(bench, paths))


def _outputs(bench: Bench, paths: Paths) -> tuple[Output, ...]:
    return (output("shared secret", paths.secret, bench.parameter_set.shared_secret_bytes),)


def _error(bench: Bench, paths: Paths) -> str | None:
    """Both sides derive the same secret, and with fresh keys of the peer another one."""
    peer = paths.of_the_peer()
    error = _derivation_error(bench, paths) or _derivation_error(bench, peer)
    if error is not None:
        return error
    secret = paths.secret.read_bytes()
    if peer.secret.read_bytes() != secret:
        return "the two sides derive different secrets"
    prepare_keys(bench, peer, "the peer's keygen")
    error = _derivation_error(bench, paths)
    if error is None and paths.secret.read_bytes() == secret:
        return "another key of the peer gives the same secret"
    return error


def _derivation_error(bench: Bench, paths: Paths) -> str | None:
    return repeat_untimed(bench.cli, (derive_command(paths),), _outputs(bench, paths))
