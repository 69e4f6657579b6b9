"""apt with a private configuration in a temporary folder: this machine's own archives, another release's name.

Keyrings, proxies and credentials are the machine's; apt checks signatures as ever; the system's own apt state is not
touched. Needs no root.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from errors import SettingsError
from runner.openssl.apt_sources import ArchiveType, Source, candidates, os_release, parse_list, parse_stanzas

_CONFIGURATION = """\
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/archive.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
_OF_ARCHITECTURE = """\
APT::Architecture "{architecture}";
#clear APT::Architectures;
APT::Architectures {{ "{architecture}"; }};
"""


def archives(root: Path = Path("/"), kind: ArchiveType = "deb") -> list[tuple[str, str]]:
    """Suites and apt stanzas to try, of the machine whose files are below `root`. Raises SettingsError where none."""
    if shutil.which("apt-get") is None:
        raise SettingsError("packages can be fetched on Debian and its relatives only: no apt-get here")
    tries = candidates(os_release(_text(root / "etc/os-release")), machine_sources(root), kind)
    if not tries:
        raise SettingsError("none of this machine's apt sources serves its distribution's main archive")
    return tries


def machine_sources(root: Path) -> list[Source]:
    """The apt sources that this machine is configured with."""
    folder = root / "etc/apt"
    sources = list(parse_list(_text(folder / "sources.list")))
    for path in sorted((folder / "sources.list.d").glob("*")):
        if path.suffix == ".list":
            sources += parse_list(_text(path))
        elif path.suffix == ".sources":
            sources += parse_stanzas(_text(path))
    return sources


def update(folder: Path, stanza: str, deadline_s: float, architecture: str | None = None) -> tuple[str, ...]:
    """Read an archive's index into a folder; the options with which apt's programs then use it, and nothing else.

    Of another Debian architecture (`armhf`) where one is named, instead of this machine's.
    """
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "archive.sources").write_text(stanza)
    configuration = folder / "apt.conf"
    foreign = _OF_ARCHITECTURE.format(architecture=architecture) if architecture else ""
    configuration.write_text(_CONFIGURATION.format(folder=folder) + foreign)
    options = ("-c", str(configuration), "-qq", "-o", "APT::Update::Error-Mode=any")
    command(("apt-get", *options, "update"), folder, deadline_s)
    return options


def command(argv: tuple[str, ...], folder: Path, deadline_s: float) -> str:
    """Output of a command that must succeed before the deadline. Raises SettingsError with its own first words."""
    left_s = max(deadline_s - time.monotonic(), 0.1)
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        answer = subprocess.run(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=left_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{argv[0]} took too long") from None
    if answer.returncode:
        lines = [line for line in answer.stderr.splitlines() if line.startswith(("E:", "dpkg"))] or [answer.stderr]
        raise SettingsError(f"{argv[0]} failed: {lines[0].strip()[:300]}")
    return answer.stdout


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
