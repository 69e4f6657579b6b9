"""The command lines of every operation, as arguments of the `openssl` program. Pure.

The first study's key generation is two processes: the private key, then the public key from it; the second's is
`genpkey` alone. `pkeyutl` signs a message longer than a hash with RSA, ECDSA and (before OpenSSL 3.5) EdDSA only when
told that it is raw input: the first study left that out.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from schemas import ParameterSet

Command = tuple[str, ...]
RAW: Command = ("-rawin",)
OAEP: Command = ("-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256")
KeyOperation = Literal["keygen", "sign", "verify"]


@dataclass(frozen=True, slots=True)
class Paths:
    """The files that the commands read and write. A secret is `secret` on one side and `peer_secret` on the other."""

    private_key: Path
    public_key: Path
    message: Path
    signature: Path
    ciphertext: Path
    secret: Path
    peer_private_key: Path
    peer_public_key: Path
    peer_secret: Path

    @classmethod
    def within(cls, folder: Path) -> "Paths":
        """The usual names in one folder."""
        return cls(
            private_key=folder / "priv.pem",
            public_key=folder / "pub.pem",
            message=folder / "message",
            signature=folder / "sig",
            ciphertext=folder / "ciphertext",
            secret=folder / "secret",
            peer_private_key=folder / "peer_priv.pem",
            peer_public_key=folder / "peer_pub.pem",
            peer_secret=folder / "peer_secret",
        )

    def of_the_peer(self) -> "Paths":
        """The same files as the other side of a key agreement sees them."""
        return replace(
            self,
            private_key=self.peer_private_key,
            public_key=self.peer_public_key,
            secret=self.peer_secret,
            peer_private_key=self.private_key,
            peer_public_key=self.public_key,
            peer_secret=self.secret,
        )


def key_manager(parameter_set: ParameterSet) -> str:
    """What `openssl list -key-managers` calls the keys of this set."""
    match parameter_set.family:
        case "RSA":
            return "RSA"
        case "ECDSA" | "ECDH":
            return "EC"
        case _:
            return parameter_set.name


def curve(parameter_set: ParameterSet) -> str | None:
    """What `openssl ecparam -list_curves` calls the curve of an ECDSA or ECDH set; None for all others."""
    if parameter_set.family not in ("ECDSA", "ECDH"):
        return None
    name = parameter_set.name.split("-", 1)[1]
    return {"P-256": "prime256v1"}.get(name, name.replace("P-", "secp") + "r1" if name.startswith("P-") else name)


def keygen_commands(parameter_set: ParameterSet, paths: Paths) -> tuple[Command, Command]:
    """The private key, then the public key: one process each, as in the first study."""
    private, public = str(paths.private_key), str(paths.public_key)
    if parameter_set.family == "RSA":
        bits = str(8 * parameter_set.public_key_bytes)
        return ("genrsa", "-out", private, bits), ("rsa", "-in", private, "-pubout", "-out", public)
    return private_key_command(parameter_set, paths), ("pkey", "-in", private, "-pubout", "-out", public)


def private_key_command(parameter_set: ParameterSet, paths: Paths) -> Command:
    """The private key alone, by `genpkey` for every set, as in the second study."""
    options: Command = ()
    match key_manager(parameter_set):
        case "RSA":
            options = ("-pkeyopt", f"rsa_keygen_bits:{8 * parameter_set.public_key_bytes}")
        case "EC":
            options = ("-pkeyopt", "ec_paramgen_curve:" + parameter_set.name.split("-", 1)[1])
    return ("genpkey", "-algorithm", key_manager(parameter_set), *options, "-out", str(paths.private_key))


def load_commands(paths: Paths) -> tuple[Command, Command]:
    """Both keys are read and checked to be keys."""
    return (
        ("pkey", "-in", str(paths.private_key), "-noout"),
        ("pkey", "-pubin", "-in", str(paths.public_key), "-noout"),
    )


def encaps_command(paths: Paths) -> Command:
    """Ciphertext and shared secret from the public key (`pkeyutl` of OpenSSL 3.5)."""
    key, ciphertext, secret = str(paths.public_key), str(paths.ciphertext), str(paths.secret)
    return ("pkeyutl", "-encap", "-pubin", "-inkey", key, "-out", ciphertext, "-secret", secret)


def decaps_command(paths: Paths) -> Command:
    """The peer's secret from the ciphertext and the private key."""
    key, ciphertext, secret = str(paths.private_key), str(paths.ciphertext), str(paths.peer_secret)
    return ("pkeyutl", "-decap", "-inkey", key, "-in", ciphertext, "-secret", secret)


def derive_command(paths: Paths) -> Command:
    """The shared secret of one's own private key and the peer's public key."""
    own, peer, secret = str(paths.private_key), str(paths.peer_public_key), str(paths.secret)
    return ("pkeyutl", "-derive", "-inkey", own, "-peerkey", peer, "-out", secret)


def encrypt_command(paths: Paths) -> Command:
    """RSA-OAEP of the message, which is short."""
    key, message, ciphertext = str(paths.public_key), str(paths.message), str(paths.ciphertext)
    return ("pkeyutl", "-encrypt", "-pubin", "-inkey", key, "-in", message, "-out", ciphertext, *OAEP)


def decrypt_command(paths: Paths) -> Command:
    """The plaintext, into the file of the secret."""
    key, ciphertext, plaintext = str(paths.private_key), str(paths.ciphertext), str(paths.secret)
    return ("pkeyutl", "-decrypt", "-inkey", key, "-in", ciphertext, "-out", plaintext, *OAEP)


def sign_command(parameter_set: ParameterSet, paths: Paths, *, raw: bool = False) -> Command:
    """One signature of the message; `raw` says that it is not hashed yet, where the set does not say it by itself."""
    return (*_published_sign(paths), *(raw_input(parameter_set) or (RAW if raw else ())))


def verify_command(parameter_set: ParameterSet, paths: Paths, *, raw: bool = False) -> Command:
    """One verification of the signature, `raw` as for the signature."""
    return (*_published_verify(paths), *(raw_input(parameter_set) or (RAW if raw else ())))


def raw_input(parameter_set: ParameterSet) -> Command:
    """What a classical signature of a whole message needs. RSA and ECDSA then hash it with SHA-256."""
    return () if parameter_set.post_quantum or parameter_set.family == "provider" else RAW


def null_commands(processes: int, reads_key: bool, reads_message: bool, paths: Paths) -> tuple[Command, ...]:
    """Processes that compute nothing; the last reads what the operation's last process reads.

    Without files `version`: the program is loaded with its libraries, starts libcrypto, reads its configuration,
    prints one line and ends. With files `enc -none`, a cipher that copies: it reads the file after `-in` whole, and of
    the one after `-kfile` the first 4,096 bytes, and makes no key of it.
    """
    key, message = str(paths.private_key), str(paths.message)
    last: Command = ("version",)
    if reads_message:
        last = ("enc", "-none", "-kfile", key, "-in", message)
    elif reads_key:
        last = ("enc", "-none", "-in", key)
    return (*((("version",),) * (processes - 1)), last)


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
