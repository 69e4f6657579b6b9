"""Compiles an unpacked source of OpenSSL and installs its programs and libraries below a staging folder.

The program and libssl look for their libraries beside themselves (DT_RPATH, which LD_LIBRARY_PATH does not override),
so that the installed folder can be moved.
"""

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
from collections import deque
from pathlib import Path

from errors import SettingsError
from runner.openssl.progress import Progress

OPTIONS = ("--libdir=lib", "no-docs", "no-tests", "shared", "-Wl,--disable-new-dtags", r"-Wl,-rpath,\$$ORIGIN/../lib")
"""As Configure passes them on: the makefile makes `\\$ORIGIN` of the last, the shell `$ORIGIN`."""
ADVICE = "on Debian and its relatives: sudo apt install gcc libc6-dev make perl"
_TARGETS = {("aarch64", 4): "linux-armv4", ("x86_64", 4): "linux-x86"}
"""Where the kernel has more bits than the programs, which Configure does not see: by machine and bytes of a pointer."""
_COMPILES, _OBJECT = " -c -o ", re.compile(r"^\S+\.o:", re.MULTILINE)
_NOT_INHERITED = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "DESTDIR", "LD_LIBRARY_PATH", "OPENSSL_CONF")
_KEPT_LINES = 200


def check_tools() -> None:
    """Raises SettingsError where something that compiling needs is missing."""
    compiler = os.environ.get("CC", "gcc").split()[0]
    for program in (compiler, "make", "perl"):
        if shutil.which(program) is None:
            raise SettingsError(f"building OpenSSL needs gcc, make and perl: no {program} here; {ADVICE}")
    trials = {
        "perl modules": ("perl", "-MFindBin", "-MIPC::Cmd", "-MFile::Compare", "-e", "1"),
        "headers of the C library": (compiler, "-E", "-include", "stdlib.h", "-x", "c", os.devnull),
    }
    for what, argv in trials.items():
        if subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
            raise SettingsError(f"building OpenSSL needs {what}, which are missing; {ADVICE}")


def compile_into(source: Path, prefix: Path, staging: Path, progress: Progress) -> None:
    """Configure for `prefix`, compile on all cores, install below `staging`. Raises SettingsError."""
    target = _TARGETS.get((os.uname().machine, struct.calcsize("P")))
    progress.phase("configuring")
    _run(
        ("./Configure", *([target] if target else []), f"--prefix={prefix}", f"--openssldir={prefix}/ssl", *OPTIONS),
        source,
    )
    progress.phase("compiling")
    total = len(_OBJECT.findall((source / "Makefile").read_text(encoding="utf-8")))
    _run(("make", f"-j{len(os.sched_getaffinity(0))}"), source, (progress, total))
    progress.phase("installing")
    _run(("make", "install_sw", "install_ssldirs", f"DESTDIR={staging}"), source)


def _run(argv: tuple[str, ...], folder: Path, counted: tuple[Progress, int] | None = None) -> None:
    """A command and its children end before this returns, also when it is interrupted."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        argv, cwd=folder, env={**environment, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            _follow(process, last, counted)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise SettingsError(f"{' '.join(argv[:2])} failed: {_first_error(last)}")


def _follow(process: subprocess.Popen[str], last: deque[str], counted: tuple[Progress, int] | None) -> None:
    done = 0
    for line in process.stdout or ():
        last.append(line)
        if counted is not None and _COMPILES in line:
            done += 1
            counted[0].share(done, counted[1])
    process.wait()


def _first_error(lines: deque[str]) -> str:
    said = [line.strip() for line in lines if line.strip()]
    wrong = (line for line in said if re.search(r"\b(error|Error|fatal|No space|Can't|cannot)\b", line))
    return next(wrong, said[-1] if said else "without a word")[:300]
