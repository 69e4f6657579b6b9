"""Debian 13 of an ARM architecture, and the emulator that runs it, fetched into the user's cache. Needs no root."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from errors import SettingsError
from runner.openssl.apt_sources import DEBIAN_RELEASES
from runner.openssl.locate import cache_folder
from runner.openssl.private_apt import archives, command, update

FETCH_LIMIT_S = 600.0
PACKAGES = (
    "base-files", "coreutils", "dash", "diffutils", "grep", "openssl", "procps", "python3",
    "python3-hypothesis", "python3-paho-mqtt", "python3-pydantic", "python3-pytest", "python3-scipy", "sed",
)  # fmt: skip
"""What the runner's tests use, the aggregator that some of them ask included; apt adds what these depend on."""
UNUSED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/info")
ALTERNATIVES = ("blas/libblas.so.3", "lapack/liblapack.so.3")
"""Libraries that a package's own script, which nobody runs here, would link into the folder above."""
MOUNT_POINTS = ("repository", "state")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """A Debian architecture: its emulator, and what the ELF header of its programs holds at byte 16 and following."""

    debian: str
    emulator: str
    elf_class: int
    elf_machine: int

    @property
    def binfmt(self) -> tuple[bytes, bytes]:
        """Magic and mask of little-endian ELF programs (elf(5)), version and ABI of any kind, executable or shared."""
        magic = b"\x7fELF" + bytes((self.elf_class, 1, 1)) + bytes(9) + b"\x02\x00" + bytes((self.elf_machine, 0))
        mask = b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
        return magic, mask


ARCHITECTURES = {
    each.debian: each
    for each in (
        Architecture("armhf", "qemu-arm", elf_class=1, elf_machine=40),
        Architecture("arm64", "qemu-aarch64", elf_class=2, elf_machine=183),
    )
}
"""EM_ARM is 40, EM_AARCH64 183 (elf.h)."""


def root_of(architecture: Architecture) -> Path:
    """A root folder with the packages of an architecture, fetched where it is not there. Raises SettingsError."""
    final = _cache() / architecture.debian
    return final if final.is_dir() else _fetched(final, PACKAGES, architecture.debian)


def emulator_of(architecture: Architecture) -> Path:
    """The emulator, linked statically, for this machine, fetched where it is not there. Raises SettingsError."""
    final = _cache() / "qemu-user"
    return (final if final.is_dir() else _fetched(final, ("qemu-user",), None)) / "usr/bin" / architecture.emulator


def _cache() -> Path:
    return cache_folder().with_name("arm-of-debian-13")


def _fetched(final: Path, packages: tuple[str, ...], architecture: str | None) -> Path:
    tries = [stanza for suite, stanza in archives() if suite in DEBIAN_RELEASES]
    if not tries:
        raise SettingsError("Debian 13 for ARM is fetched on Debian only: this machine has no apt source of Debian")
    deadline_s = time.monotonic() + FETCH_LIMIT_S
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=final.parent) as name:
        folder = Path(name)
        options = update(folder, tries[0], deadline_s, architecture)
        how = ("install", "--download-only", "--yes", "--no-install-recommends") if architecture else ("download",)
        downloads = folder / "cache/archives"
        command(("apt-get", *options, "-o", "Debug::NoLocking=true", *how, *packages), downloads, deadline_s)
        _unpacked(downloads, folder / "root", deadline_s).rename(final)
    return final


def _unpacked(downloads: Path, root: Path, deadline_s: float) -> Path:
    """Packages in a folder; `base-files` goes first, for its links from /lib and /bin to /usr."""
    for package in sorted(downloads.glob("*.deb"), key=lambda each: (not each.name.startswith("base-files"), each)):
        command(("dpkg-deb", "-x", str(package), str(root)), downloads, deadline_s)
    for unused in UNUSED:
        shutil.rmtree(root / unused, ignore_errors=True)
    for alternative in ALTERNATIVES:
        for library in root.glob(f"usr/lib/*/{alternative}"):
            (library.parents[1] / library.name).symlink_to(alternative)
    for name in MOUNT_POINTS:
        (root / name).mkdir()
    for path, text in _FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    return root
