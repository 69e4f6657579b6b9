"""What the kernel is told about programs of other architectures, and what apt is."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.openssl.private_apt import update
from tests.arm.debian import ARCHITECTURES


def header(elf_class: int, kind: int, machine: int, abi: int = 0) -> bytes:
    """The first bytes of a little-endian ELF file (elf(5))."""
    return b"\x7fELF" + bytes((elf_class, 1, 1, abi)) + bytes(8) + bytes((kind, 0, machine, 0))


def emulated(head: bytes) -> set[str]:
    """The architectures whose emulator the kernel would start: each byte under the mask equals the magic's."""
    return {
        name
        for name, (magic, mask) in ((each.debian, each.binfmt) for each in ARCHITECTURES.values())
        if all(byte & keep == wanted & keep for byte, wanted, keep in zip(head, magic, mask, strict=True))
    }


@pytest.mark.parametrize("kind", [2, 3], ids=["executable", "position independent"])
@pytest.mark.parametrize("abi", [0, 3], ids=["System V", "GNU"])
def test_programs_of_an_architecture_and_no_others_get_its_emulator(kind: int, abi: int) -> None:
    assert emulated(header(1, kind, 40, abi)) == {"armhf"}
    assert emulated(header(2, kind, 183, abi)) == {"arm64"}
    assert emulated(header(2, kind, 62, abi)) == set()
    assert emulated(header(1, kind, 3, abi)) == set()


def test_what_is_no_program_gets_no_emulator() -> None:
    assert emulated(header(1, 1, 40)) == set()
    assert emulated(b"#!/bin/sh\n".ljust(20)) == set()


@pytest.mark.parametrize(("architecture", "lines"), [(None, 0), ("armhf", 2)])
def test_apt_is_told_of_another_architecture_only_where_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str | None, lines: int
) -> None:
    apt_get = tmp_path / "bin/apt-get"
    apt_get.parent.mkdir()
    apt_get.write_text("#!/bin/sh\nexit 0\n")
    apt_get.chmod(0o755)
    monkeypatch.setenv("PATH", str(apt_get.parent))
    options = update(tmp_path / "apt", "Types: deb\n", time.monotonic() + 60, architecture)
    assert Path(options[1]).read_text().count('"armhf"') == lines


def test_an_architecture_that_is_none_is_one_clear_line(repository: Path) -> None:
    answer = subprocess.run(
        (sys.executable, "-m", "tests.arm", "sparc"), cwd=repository, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (2, "test-arm: 'sparc' is none of armhf, arm64\n")
