"""The command lines of the published study, as arguments of the `openssl` program. Pure.

Its key generation is two processes: the private key, then the public key from it. `pkeyutl` signs a message longer than
a hash with RSA, ECDSA and (before OpenSSL 3.5) EdDSA only when told that it is raw input: the study left that out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas import ParameterSet

Command = tuple[str, ...]
KeyOperation = Literal["keygen", "sign", "verify"]


@dataclass(frozen=True, slots=True)
class Paths:
    """The files that the commands read and write."""

    private_key: Path
    public_key: Path
    message: Path
    signature: Path

    @classmethod
    def within(cls, folder: Path) -> "Paths":
        """The usual names in one folder."""
        return cls(folder / "priv.pem", folder / "pub.pem", folder / "message", folder / "sig")


def key_manager(parameter_set: ParameterSet) -> str:
    """What `openssl list -key-managers` calls the keys of this set."""
    match parameter_set.family:
        case "RSA":
            return "RSA"
        case "ECDSA" | "ECDH":
            return "EC"
        case _:
            return parameter_set.name


def keygen_commands(parameter_set: ParameterSet, paths: Paths) -> tuple[Command, Command]:
    """The private key, then the public key: one process each."""
    private, public = str(paths.private_key), str(paths.public_key)
    if parameter_set.family == "RSA":
        bits = str(8 * parameter_set.public_key_bytes)
        return ("genrsa", "-out", private, bits), ("rsa", "-in", private, "-pubout", "-out", public)
    options: Command = ()
    if key_manager(parameter_set) == "EC":
        options = ("-pkeyopt", "ec_paramgen_curve:" + parameter_set.name.split("-", 1)[1])
    return (
        ("genpkey", "-algorithm", key_manager(parameter_set), *options, "-out", private),
        ("pkey", "-in", private, "-pubout", "-out", public),
    )


def sign_command(parameter_set: ParameterSet, paths: Paths) -> Command:
    """One signature of the message."""
    return (*_published_sign(paths), *raw_input(parameter_set))


def verify_command(parameter_set: ParameterSet, paths: Paths) -> Command:
    """One verification of the signature."""
    return (*_published_verify(paths), *raw_input(parameter_set))


def raw_input(parameter_set: ParameterSet) -> Command:
    """What a classical signature of a whole message needs. RSA and ECDSA then hash it with SHA-256."""
    return () if parameter_set.post_quantum else ("-rawin",)


def published_command(operation: KeyOperation, parameter_set: ParameterSet, paths: Paths) -> tuple[Command, ...]:
    """The study's commands to the letter, one per process: without `-rawin`."""
    match operation:
        case "keygen":
            return keygen_commands(parameter_set, paths)
        case "sign":
            return (_published_sign(paths),)
        case "verify":
            return (_published_verify(paths),)


def _published_sign(paths: Paths) -> Command:
    return (
        "pkeyutl",
        "-sign",
        "-inkey",
        str(paths.private_key),
        "-in",
        str(paths.message),
        "-out",
        str(paths.signature),
    )


def _published_verify(paths: Paths) -> Command:
    key, message, signature = str(paths.public_key), str(paths.message), str(paths.signature)
    return ("pkeyutl", "-verify", "-pubin", "-inkey", key, "-in", message, "-sigfile", signature)
