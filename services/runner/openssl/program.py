"""An `openssl` program: how to start it and which version it is."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PQC_SINCE = (3, 5)
"""The first OpenSSL with ML-KEM, ML-DSA and SLH-DSA."""
VERSION_LIMIT_S = 20.0
STARTED_AGAIN = "OPJOULE_STARTED_AGAIN"
"""Set in a process that was started again (process.py): what its environment was before, as a JSON object."""
_INHERITED = ("HOME", "LD_LIBRARY_PATH", "OPENSSL_CONF", "OPENSSL_MODULES", "PATH")
_VERSION = re.compile(r"OpenSSL (\S{1,64})[^(\n]*(?:\(Library: OpenSSL ([^\s)]{1,64}))?")


@dataclass(frozen=True, slots=True)
class OpenSsl:
    """A program that ran. `argv_prefix` starts it: the program, or a loader that loads it; the first is a full path."""

    argv_prefix: tuple[str, ...]
    version: str
    origin: str
    environment: Mapping[str, str] = field(hash=False)
    library_version: str | None = None
    """Version of the libcrypto that it runs on, where it names one."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version for comparing: (3, 5, 9)."""
        return version_number(self.version)

    @property
    def has_pqc(self) -> bool:
        """Whether it, and the library that it runs on, are new enough for the post-quantum sets."""
        return min(self.number, version_number(self.library_version or self.version)) >= PQC_SINCE

    @property
    def mismatch(self) -> str | None:
        """One line where the program runs on the libcrypto of another version, with who must act."""
        if self.library_version in (None, self.version):
            return None
        return (
            f"{self.program} is OpenSSL {self.version} and runs on the libcrypto of {self.library_version}: "
            "install both from one release, or unset LD_LIBRARY_PATH"
        )

    @property
    def program(self) -> str:
        """The path of the program itself."""
        return self.argv_prefix[-1]


def version_number(version: str) -> tuple[int, ...]:
    """The numbers in front of a version: (3, 5, 9) of `3.5.9`; empty where there are none."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part) for part in match.groups(default="0")) if match else ()


def probe(argv_prefix: tuple[str, ...], origin: str, extra_environment: Mapping[str, str]) -> OpenSsl | str:
    """The program, asked for its version, or one line that says why it is none."""
    environment = own_environment()
    environment = {name: environment[name] for name in _INHERITED if name in environment}
    environment |= {"LC_ALL": "C", **extra_environment}
    try:
        answer = run(argv_prefix, ("version",), environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv_prefix[-1]} cannot be run: {error}"
    match = _VERSION.match(answer.stdout)
    if answer.returncode or match is None:
        said = (answer.stdout + answer.stderr).strip().partition("\n")[0]
        return f"{argv_prefix[-1]} is not an OpenSSL program: it says {said[:200]!r}"
    return OpenSsl(argv_prefix, match[1], origin, environment, match[2])


def own_environment() -> dict[str, str]:
    """The environment as this process's user set it, whether or not the process was started again."""
    environment = dict(os.environ)
    before: dict[str, str | None] = json.loads(environment.pop(STARTED_AGAIN, "{}"))
    environment |= {name: value for name, value in before.items() if value is not None}
    return {name: value for name, value in environment.items() if before.get(name, value) is not None}


def run(
    argv_prefix: tuple[str, ...], arguments: tuple[str, ...], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """One short command whose output is wanted. Raises OSError and subprocess.TimeoutExpired.

    It has a process group of its own: one that hangs is ended with whatever it started.
    """
    argv = (*argv_prefix, *arguments)
    with subprocess.Popen(
        argv,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
    ) as process:
        try:
            output, errors = process.communicate(timeout=VERSION_LIMIT_S)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)


def probe_built(root: Path) -> OpenSsl | str:
    """The program of a build (build.py) in a folder, which finds its own libraries wherever the folder is.

    Configuration and modules are that folder's, unless the user names others.
    """
    program = root / "bin/openssl"
    if not program.is_file():
        return f"{root} holds no build of openssl"
    own = {"OPENSSL_CONF": str(root / "ssl/openssl.cnf"), "OPENSSL_MODULES": str(root / "lib/ossl-modules")}
    named = own_environment()
    return probe((str(program),), f"built in {root}", {k: path for k, path in own.items() if not named.get(k)})


def probe_unpacked(root: Path) -> OpenSsl | str:
    """The program of Debian packages unpacked into a folder, run by the loader unpacked beside it.

    It sees that folder's configuration and modules only, never those of the system's own OpenSSL.
    """
    loaders = sorted(root.glob("usr/lib/*/ld-linux*.so.*"))
    program = root / "usr/bin/openssl"
    if not loaders or not program.is_file():
        return f"{root} holds no unpacked openssl"
    libraries = loaders[0].parent
    return probe(
        (str(loaders[0]), "--library-path", str(libraries), str(program)),
        f"packages unpacked in {root}",
        {
            "LD_LIBRARY_PATH": "",
            "OPENSSL_CONF": str(root / "etc/ssl/openssl.cnf"),
            "OPENSSL_MODULES": str(libraries / "ossl-modules"),
        },
    )
