"""What the tests of the `lib` backend do in a Python that runs on the libraries of an OpenSSL: one answer in JSON."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ctypes import addressof, memmove
from functools import partial
from pathlib import Path
from typing import Any

from errors import SettingsError
from runner.job import Job
from runner.openssl.lib import Crypto, load, offer_error
from runner.operations.lib.case import Case
from runner.operations.lib.prepare import prepare_in_process
from runner.operations.work import Work
from schemas import CATALOGUE, Operation, ParameterSet

FLAT: tuple[tuple[Operation, str], ...] = (
    ("null", "none"),
    ("keygen", "ML-KEM-768"),
    ("encaps", "ML-KEM-768"),
    ("decaps", "ML-KEM-768"),
    ("keygen", "ECDSA-P-256"),
    ("derive", "X25519"),
    ("sign", "ECDSA-P-256"),
    ("sign", "Ed25519"),
    ("verify", "RSA-1024"),
    ("verify", "ML-DSA-44"),
    ("encrypt", "RSA-1024"),
    ("decrypt", "RSA-1024"),
)
WARM_UP, REPETITIONS, REOPENED = 2_000, 20_000, 300
SLOW = ("SHA2-128s", "SHA2-192", "SHA2-256", "SHAKE", "3072", "4096")
FUNCTIONS: dict[Operation, tuple[str, str]] = {
    "keygen": ("EVP_PKEY_generate", "ML-KEM-512"),
    "encaps": ("EVP_PKEY_encapsulate", "ML-KEM-512"),
    "decaps": ("EVP_PKEY_decapsulate", "ML-KEM-512"),
    "derive": ("EVP_PKEY_derive", "X25519"),
    "sign": ("EVP_PKEY_sign", "ML-DSA-44"),
    "verify": ("EVP_DigestVerify", "ECDSA-P-256"),
    "encrypt": ("EVP_PKEY_encrypt", "RSA-1024"),
    "decrypt": ("EVP_PKEY_decrypt", "RSA-1024"),
}


class Idle(Crypto):
    """A libcrypto one of whose functions returns success, and does nothing once `idle` is set."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self.idle = False
        super().__init__(path)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = super().__getitem__(name)
        return (lambda *arguments: 1 if self.idle else function(*arguments)) if name == self._name else function


OUTPUTS = {
    "EVP_PKEY_encapsulate": (1, 2, 3, 4),
    "EVP_PKEY_decapsulate": (1, 2),
    "EVP_PKEY_derive": (1, 2),
    "EVP_PKEY_decrypt": (1, 2),
}
"""Which arguments a function writes."""


class Wrong(Crypto):
    """A libcrypto one of whose functions gives what `forge` makes of its outputs, whenever that is set."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self.forge: Callable[[tuple[bytes, ...]], tuple[bytes, ...]] = tuple
        super().__init__(path)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = super().__getitem__(name)
        return partial(self._call, function) if name == self._name else function

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        result = function(*arguments)
        if arguments[1] is None:
            return result
        cells = [arguments[index]._obj for index in OUTPUTS[self._name]]
        forged = self.forge(tuple(map(bytes, cells)))
        for cell, content in zip(cells, forged, strict=True):
            memmove(addressof(cell), content, len(content))
        return 1 if forged else result


class Repeating:
    """After so many honest calls the outputs of the last one again and again."""

    def __init__(self, honest: int) -> None:
        self._left = honest
        self._last: tuple[bytes, ...] = ()

    def __call__(self, outputs: tuple[bytes, ...]) -> tuple[bytes, ...]:
        if self._left:
            self._left -= 1
            self._last = outputs
        return self._last


class Other:
    """Another first byte at each call."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, outputs: tuple[bytes, ...]) -> tuple[bytes, ...]:
        self._calls += 1
        return bytes([outputs[0][0] ^ self._calls]) + outputs[0][1:], *outputs[1:]


@contextmanager
def prepared(crypto: Crypto, operation: Operation, name: str, each: ParameterSet | None = None) -> Iterator[Work]:
    """Work of a message of 100 bytes."""
    case = Case(Job(operation, name, "lib"), each or CATALOGUE.get(name), 1, bytes(100))
    with closing(prepare_in_process(crypto, case)) as work:
        yield work


def repeated(work: Work, times: int) -> str | None:
    """The first error of so many repetitions."""
    assert work.begin is not None
    repeat = work.begin(1.0)
    return next((error for error in (repeat().error for _ in range(times)) if error is not None), None)


def resident_bytes() -> int:
    """Memory of this process, exact."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return 1024 * int(text.split("Rss:")[1].split()[0])


def every(crypto: Crypto) -> dict[str, Any]:
    """All operations of all parameter sets that do not take long: what is known of each, or why it cannot be done."""
    return {
        f"{operation} {name}": _tried(crypto, operation, name)
        for name, each in CATALOGUE.items()
        for operation in each.operations
        if operation != "handshake" and not any(part in name for part in SLOW)
    }


def _tried(crypto: Crypto, operation: Operation, name: str) -> dict[str, Any] | str:
    lacking = offer_error(crypto, operation, CATALOGUE[name])
    if lacking is not None:
        return lacking
    with prepared(crypto, operation, name) as work:
        error = repeated(work, 3)
        return {
            "errors": [error, work.check()],
            "variant": work.variant,
            "null": work.null_variant,
            **work.output_bytes,
        }


def flat(crypto: Crypto) -> dict[str, Any]:
    """Growth in bytes, and errors, of many repetitions; and of preparing and closing often."""
    found: dict[str, Any] = {}
    for operation, name in FLAT:
        with prepared(crypto, operation, name) as work:
            repeated(work, WARM_UP)
            before = resident_bytes()
            error = repeated(work, REPETITIONS)
            found[f"{operation} {name}"] = [error, resident_bytes() - before]
    for operation, name in (("verify", "ML-DSA-44"), ("decaps", "ML-KEM-768"), ("sign", "ECDSA-P-256")):
        sizes = []
        for _ in range(2):
            for _ in range(REOPENED):
                with prepared(crypto, operation, name) as work:
                    work.check()
            sizes.append(resident_bytes())
        found[f"reopened {operation} {name}"] = [None, sizes[1] - sizes[0]]
    return found


def idle(crypto: Crypto) -> dict[str, Any]:
    """What the check says when the function that does the operation returns success and does nothing."""
    found: dict[str, Any] = {}
    for operation, (function, name) in FUNCTIONS.items():
        liar = Idle(crypto.path, function)
        with prepared(liar, operation, name) as work:
            honest = work.check()
            liar.idle = True
            found[operation] = [honest, work.check()]
    return found


FORGED: dict[str, tuple[Operation, str, str, Callable[[], Any]]] = {
    "encaps twice": ("encaps", "ML-KEM-512", "EVP_PKEY_encapsulate", lambda: Repeating(1)),
    "encaps flipped": ("encaps", "ML-KEM-512", "EVP_PKEY_decapsulate", lambda: Repeating(1)),
    "decaps flipped": ("decaps", "ML-KEM-512", "EVP_PKEY_decapsulate", lambda: Repeating(1)),
    "derive": ("derive", "X25519", "EVP_PKEY_derive", Other),
    "derive anyhow": ("derive", "X25519", "EVP_PKEY_derive", lambda: Repeating(2)),
    "encrypt": ("encrypt", "RSA-1024", "EVP_PKEY_decrypt", Other),
    "decrypt": ("decrypt", "RSA-1024", "EVP_PKEY_decrypt", Other),
    "encrypt flipped": ("encrypt", "RSA-1024", "EVP_PKEY_decrypt", lambda: Repeating(1)),
    "decrypt flipped": ("decrypt", "RSA-1024", "EVP_PKEY_decrypt", lambda: Repeating(1)),
}


def forged(crypto: Crypto) -> dict[str, Any]:
    """What the check says when a function succeeds and writes something else."""
    found: dict[str, Any] = {}
    for title, (operation, name, function, forge) in FORGED.items():
        liar = Wrong(crypto.path, function)
        with prepared(liar, operation, name) as work:
            liar.forge = forge()
            if title == "encaps twice":
                repeated(work, 1)
            found[title] = work.check()
    return found


def provider(crypto: Crypto) -> dict[str, Any]:
    """The operations of the provider `opj`, of which only the names are known."""
    found: dict[str, Any] = {}
    for name, operations in (
        ("opj-sig", ("keygen", "sign", "verify")),
        ("opj-exchange", ("keygen", "derive")),
        ("opj-kem", ("keygen", "encaps", "decaps")),
        ("opj-broken", ("keygen",)),
    ):
        each = ParameterSet(name, "provider", "", None, operations, 0, 0)  # type: ignore[arg-type]
        for operation in each.operations:
            lacking = offer_error(crypto, operation, each)
            try:
                with prepared(crypto, operation, name, each) as work:
                    outcome = [lacking, repeated(work, 3), work.check(), work.size_unknown, work.output_bytes]
            except SettingsError as error:
                outcome = [lacking, str(error)]
            found[f"{operation} {name}"] = outcome
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[2]](load(Path(sys.argv[1])))))
