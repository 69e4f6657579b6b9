"""Key generation: `pair`, two processes, as in the first study, or `private`, one process, as in the second."""

from runner.openssl.commands import Command, Paths, keygen_commands, load_commands, private_key_command
from runner.operations.work import Bench, Output, Work, cli_work, key_size_error, prepare, repeat_untimed

RSA_SLACK_BYTES = 48
"""The numbers of an RSA private key may be a few bytes shorter or longer each; all other key files have one size."""


def prepare_keygen(bench: Bench) -> Work:
    """One pair is made first: its raw sizes are held against the catalogue, its file sizes against each repetition."""
    paths, each = Paths.within(bench.folder), bench.parameter_set
    pair = keygen_commands(each, paths)
    private_only = bench.job.form == "private"
    commands = (private_key_command(each, paths),) if private_only else pair
    prepare(bench, "keygen", commands if not private_only else (*commands, pair[1]))
    outputs = _outputs(bench, paths)[: len(commands)]
    sizes = {"private_key": each.private_key_bytes, "private_key_file": paths.private_key.stat().st_size}
    if not private_only:
        sizes |= {"public_key": each.public_key_bytes, "public_key_file": paths.public_key.stat().st_size}
    return cli_work(
        bench,
        "private" if private_only else "pair",
        commands,
        outputs,
        output_bytes=sizes,
        check=lambda: _error(bench, paths, commands, outputs),
    )


def _outputs(bench: Bench, paths: Paths) -> tuple[Output, Output]:
    """Files as large as those of the first pair; those of a provider may be of any size."""
    private_bytes, public_bytes = paths.private_key.stat().st_size, paths.public_key.stat().st_size
    match bench.parameter_set.family:
        case "RSA":
            slack_bytes = RSA_SLACK_BYTES
        case "provider":
            slack_bytes = private_bytes + public_bytes
        case _:
            slack_bytes = 0
    return (
        Output(
            "private key file", paths.private_key, lambda size: size > 0 and abs(size - private_bytes) <= slack_bytes
        ),
        Output("public key file", paths.public_key, lambda size: size > 0 and abs(size - public_bytes) <= slack_bytes),
    )


def _error(bench: Bench, paths: Paths, commands: tuple[Command, ...], outputs: tuple[Output, ...]) -> str | None:
    """A fresh pair has the standard's sizes and both keys load; a public key is made where the work makes none."""
    each = bench.parameter_set
    public_key = keygen_commands(each, paths)[1:] if len(commands) == 1 else ()
    return (
        repeat_untimed(bench.cli, commands, outputs)
        or repeat_untimed(bench.cli, public_key)
        or key_size_error(paths.private_key, each.private_key_bytes)
        or key_size_error(paths.public_key, each.public_key_bytes)
        or repeat_untimed(bench.cli, load_commands(paths))
    )
