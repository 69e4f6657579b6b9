"""Python on the libraries of the chosen OpenSSL, so that one libcrypto serves its `ssl` and the `lib` backend.

Where this process has another libcrypto, it is started again, once, by execve: with the folder of the chosen one in
front of LD_LIBRARY_PATH, or, for packages that were unpacked with their own C library, by the loader among them. Before
that a short child shows that it works. On macOS each library binds to its own, and nothing need be done.
"""

import ctypes
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.program import STARTED_AGAIN, OpenSsl, own_environment, run

_SETTINGS = ("OPENSSL_CONF", "OPENSSL_MODULES")
_TRIAL = ("-I", "-S", "-c", "import _ssl; print(open('/proc/self/maps').read())")
_MAPPED = re.compile(r"(/.*/(libcrypto\.so[\w.]*))$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start this Python on other libraries: what goes before its arguments, and the whole environment."""

    argv_prefix: tuple[str, ...]
    environment: Mapping[str, str]


def ensure_process(openssl: OpenSsl) -> str | None:
    """Start this process again where it needs other libraries, which does not return; else None, all is well.

    One line, where it cannot be done: the `lib` backend is then left out. Call it before threads and connections.
    """
    libraries = find_libraries(openssl)
    if isinstance(libraries, str):
        return libraries
    if sys.platform != "linux":
        return None
    if serves(libraries):
        return _built_in()
    if STARTED_AGAIN in os.environ:
        return f"Python was started again on {libraries.folder} and still has another libcrypto"
    launch = find_launch(openssl, libraries)
    if isinstance(launch, str):
        return launch
    sys.stdout.flush()
    sys.stderr.flush()
    return _start_again(launch)


def serves(libraries: Libraries) -> bool:
    """Whether this process's `ssl` runs on this libcrypto, or on none that could be taken for it."""
    return not _others(_maps(), libraries)


def find_launch(openssl: OpenSsl, libraries: Libraries) -> Launch | str:
    """The way of starting Python on these libraries that a trial has shown to work, or what went wrong in one line."""
    said = "no way was found"
    for launch in _launches(openssl, libraries):
        try:
            answer = run(launch.argv_prefix, _TRIAL, launch.environment)
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if answer.returncode == 0 and not _others(answer.stdout, libraries):
            return launch
        said = answer.stderr.strip().rpartition("\n")[2][:200] or "it has a libcrypto of its own"
    return f"{sys.executable} does not run on {libraries.crypto}: {said}"


def _launches(openssl: OpenSsl, libraries: Libraries) -> list[Launch]:
    """The second way is for a Python that has the path of another libcrypto in itself, as conda's."""
    environment = own_environment()
    before = {name: environment.get(name) for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", *_SETTINGS)}
    environment |= {name: openssl.environment[name] for name in _SETTINGS if name in openssl.environment}
    environment[STARTED_AGAIN] = json.dumps(before)
    path = _joined(str(libraries.folder), before["LD_LIBRARY_PATH"])
    if len(openssl.argv_prefix) > 1:
        loader = (openssl.argv_prefix[0], "--library-path", _joined(str(libraries.folder), f"{sys.base_prefix}/lib"))
        real = str(Path(sys.executable).resolve())
        return [Launch((*loader, "--argv0", sys.executable, real), environment)]
    preload = _joined(f"{libraries.crypto}:{libraries.ssl}", before["LD_PRELOAD"])
    return [
        Launch((sys.executable,), environment | {"LD_LIBRARY_PATH": path}),
        Launch((sys.executable,), environment | {"LD_PRELOAD": preload}),
    ]


def _joined(first: str, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else first


def _others(maps: str, libraries: Libraries) -> set[str]:
    """Paths of mapped libraries that have the name of the chosen libcrypto and are not it."""
    name = libraries.crypto.name
    return {path for path, own in _MAPPED.findall(maps) if own == name and not _same(Path(path), libraries.crypto)}


def _maps() -> str:
    return Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def _built_in() -> str | None:
    """A Python that shows an OpenSSL of its own to all that it loads would lend it to the chosen libssl."""
    if hasattr(ctypes.CDLL(None), "OpenSSL_version") and not _MAPPED.search(_maps()):
        return f"{sys.executable} has {ssl.OPENSSL_VERSION} built in: use a Python that loads its OpenSSL"
    return None


def _start_again(launch: Launch) -> str:
    try:
        os.execve(launch.argv_prefix[0], (*launch.argv_prefix, *sys.orig_argv[1:]), dict(launch.environment))
    except OSError as error:
        return f"{launch.argv_prefix[0]} cannot be started: {error.strerror}"
