"""The runner's tests on ARM, emulated by qemu-user: `python -m tests.arm [ARCHITECTURE...] [-- PYTEST ARGUMENTS]`.

Functional only: an emulator's time, memory and kernel counters say nothing about a board.
"""

import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from errors import SettingsError
from tests.arm.debian import ARCHITECTURES, Architecture, emulator_of, root_of

REPOSITORY = Path(__file__).resolve().parents[2]
NAMESPACES = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child")
PYTEST = ("python3", "-u", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfEs")
WHICH = ("-m", "not (not_emulated or processes)")
"""Services as processes of their own take minutes each when they are emulated."""
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected)\b")


def main(arguments: list[str]) -> int:
    """Exit status: 0 when every test passed on every architecture, 1 when one failed, 2 when they cannot be run."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    try:
        chosen = [_architecture(name) for name in arguments[:split] or ARCHITECTURES]
        _demand_namespaces()
        passed = [_tested(architecture, arguments[split + 1 :]) for architecture in chosen]
    except SettingsError as error:
        print(f"test-arm: {error}", file=sys.stderr)
        return 2
    return 0 if all(passed) else 1


def _architecture(name: str) -> Architecture:
    if name not in ARCHITECTURES:
        raise SettingsError(f"{name!r} is none of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def _demand_namespaces() -> None:
    """Raises SettingsError where a user may not register an emulator in namespaces of their own."""
    if shutil.which("unshare") is None:
        raise SettingsError("no unshare program: on Debian and its relatives, sudo apt install util-linux")
    trial = ("sh", "-c", "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc")
    answer = subprocess.run(("unshare", *NAMESPACES, *trial), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SettingsError(
            f"it needs Linux 6.7 or newer (this is {platform.release()}), which lets a user register an emulator in "
            f"namespaces of their own, and that those are permitted: {answer.stderr.strip()[:200]}"
        )


def _tested(architecture: Architecture, pytest_arguments: list[str]) -> bool:
    """Whether every test passed. Prints what pytest says, and last the figures."""
    root, emulator = root_of(architecture), emulator_of(architecture)
    state = _state(root)
    command = (
        "unshare", *NAMESPACES, str(REPOSITORY / "tests/arm/enter.sh"), str(root), str(REPOSITORY), str(state),
        _registration(architecture, emulator), *PYTEST, *WHICH, *pytest_arguments, *_default_tests(pytest_arguments),
    )  # fmt: skip
    print(f"{architecture.debian}: Debian 13 by {emulator}", flush=True)
    started_s = time.monotonic()
    status, last = _shown(command)
    counts = {name.rstrip("s"): number for number, name in _COUNT.findall(last)}
    named = {name: counts.get(name, "0") for name in ("passed", "failed", "error", "skipped", "deselected")}
    figures = " ".join(f"{name}={number}" for name, number in named.items())
    print(f"test=arm architecture={architecture.debian} {figures} seconds={time.monotonic() - started_s:.0f}")
    return status == 0


def _shown(command: tuple[str, ...]) -> tuple[int, str]:
    """Exit status and last line of a command whose output is passed on."""
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                last = line.strip() or last
        except BaseException:
            process.kill()  # by force: unshare ignores polite signals, and takes all in its namespaces with it
            raise
    return process.returncode, last


def _state(root: Path) -> Path:
    """What is kept between runs beside a root folder: compiled modules, and the word that opjoule is installed."""
    state = root.with_name(f"{root.name}-state")
    information = state / "installed/opjoule.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: opjoule\nVersion: {version('opjoule')}\n")
    return state


def _default_tests(pytest_arguments: list[str]) -> list[str]:
    """The runner's tests, unless the arguments name some."""
    named = any((REPOSITORY / each.partition("::")[0]).exists() for each in pytest_arguments)
    return [] if named else ["tests/runner"]


def _registration(architecture: Architecture, emulator: Path) -> str:
    magic, mask = ("".join(f"\\x{byte:02x}" for byte in each) for each in architecture.binfmt)
    return f":opjoule-{architecture.debian}:M::{magic}:{mask}:{emulator}:F"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
