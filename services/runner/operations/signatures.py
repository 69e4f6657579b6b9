"""Signing and verification of a message file with `pkeyutl`: one process per repetition.

`as-published` runs the study's words, which fail for classical signatures: then every repetition counts as failed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from errors import SettingsError
from runner.openssl.cli import PREPARATION_LIMIT_S
from runner.openssl.commands import Command, Paths, published_command, sign_command, verify_command
from runner.operations.files import flip_last_bit, prepare_keys, right_size
from runner.operations.work import Bench, Output, Work, cli_work, prepare, repeat_untimed


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where messages are signed: files, both commands, and what they are called."""

    bench: Bench
    paths: Paths
    sign: Command
    verify: Command
    variant: str

    @property
    def signature(self) -> Output:
        """The file that a signature is written to."""
        each = self.bench.parameter_set
        accepts: Callable[[int], bool] = right_size(None) if each.family == "provider" else each.signature_size_is_right
        return Output("signature", self.paths.signature, accepts)

    def verification_error(self) -> str | None:
        """The signature verifies, and with its last bit flipped it does not; None when both are so."""
        error = repeat_untimed(self.bench.cli, (self.verify,))
        if error is not None:
            return f"the signature does not verify: {error}"
        signature = flip_last_bit(self.paths.signature)
        try:
            flipped = self.bench.cli.run(self.verify, PREPARATION_LIMIT_S)
        finally:
            self.paths.signature.write_bytes(signature)
        return "a signature with a flipped bit verifies too" if flipped.error is None else None


def prepare_sign(bench: Bench) -> Work:
    """Keys and message are there before; every repetition writes a signature of the standard's size."""
    if bench.job.form == "as-published":
        return _published_sign(bench)
    desk = _desk(bench)
    commands, outputs = (desk.sign,), (desk.signature,)
    check = lambda: repeat_untimed(bench.cli, commands, outputs) or desk.verification_error()  # noqa: E731
    sizes = {"signature": desk.paths.signature.stat().st_size}
    return cli_work(bench, desk.variant, commands, outputs, output_bytes=sizes, check=check)


def prepare_verify(bench: Bench) -> Work:
    """Keys, message and a signature are there before; a verification writes nothing, its exit status is the answer."""
    if bench.job.form == "as-published":
        return _published_verify(bench)
    desk = _desk(bench)
    prepare(bench, "verify", (desk.verify,))
    return cli_work(bench, desk.variant, (desk.verify,), check=desk.verification_error)


def _published_sign(bench: Bench) -> Work:
    """It need not succeed; what succeeds is checked like any other."""
    desk = _published_desk(bench)
    commands, outputs = (desk.sign,), (desk.signature,)

    def check() -> str | None:
        failed = repeat_untimed(bench.cli, commands, outputs)
        return None if failed else desk.verification_error()

    return cli_work(bench, desk.variant, commands, outputs, check=check)


def _published_verify(bench: Bench) -> Work:
    """What is verified is what the published signing wrote, be it nothing."""
    desk = _published_desk(bench)
    signed = repeat_untimed(bench.cli, (desk.sign,), (desk.signature,)) is None
    if not signed:
        return cli_work(bench, desk.variant, (desk.verify,))
    return cli_work(bench, desk.variant, (desk.verify,), check=desk.verification_error)


def _files(bench: Bench) -> Paths:
    paths = Paths.within(bench.folder)
    paths.message.write_bytes(bench.message())
    prepare_keys(bench, paths)
    return paths


def _published_desk(bench: Bench) -> _Desk:
    paths, each = _files(bench), bench.parameter_set
    (sign,), (verify,) = published_command("sign", each, paths), published_command("verify", each, paths)
    return _Desk(bench, paths, sign, verify, f"as-published,message_bytes={bench.job.message_bytes}")


def _desk(bench: Bench) -> _Desk:
    """A desk where a signature was made. What a provider adds is tried without and with `-rawin`."""
    paths = _files(bench)
    desk = _desk_of(bench, paths, raw=False)
    try:
        prepare(bench, "sign", (desk.sign,), (desk.signature,))
    except SettingsError:
        if bench.parameter_set.family != "provider":
            raise
        desk = _desk_of(bench, paths, raw=True)
        prepare(bench, "sign", (desk.sign,), (desk.signature,))
    return desk


def _desk_of(bench: Bench, paths: Paths, *, raw: bool) -> _Desk:
    each = bench.parameter_set
    sign, verify = sign_command(each, paths, raw=raw), verify_command(each, paths, raw=raw)
    variant = f"message_bytes={bench.job.message_bytes}{',rawin' if '-rawin' in sign else ''}"
    return _Desk(bench, paths, sign, verify, variant)
