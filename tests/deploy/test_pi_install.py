"""The installer for boards, on fake roots: every branch, by what it calls and what it leaves."""

import os
import re
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from configure import load
from meter.settings import MeterSettings
from runner.settings import RunnerSettings
from tests.deploy.fleets import make_fleet

LIMIT_S = 60.0
STUB = """#!/bin/sh
echo "{name} $*" >>"$CALLS"
{body}
"""
VENV = """
case "$*" in "-m venv "*) for last; do :; done; mkdir -p "$last/bin"
    for each in python pip; do printf '#!/bin/sh\\necho "venv-%s $*" >>"$CALLS"\\nexit %s\\n' $each $FETCHES \\
        >"$last/bin/$each"; chmod +x "$last/bin/$each"; done
    [ -z "$FETCHES" ] || sed -i 's/^exit.*/exit 0/' "$last/bin/pip" ;;
-) cat >/dev/null; echo "about 2.5 hours" ;; esac
"""
INSTALL = """
arguments=''
while [ $# -gt 0 ]; do case $1 in -g) shift ;; *) arguments="$arguments '$1'" ;; esac; shift; done
eval "exec /usr/bin/install $arguments"
"""


class Board:
    """A root folder that looks like a board's, and programs that note how they are called."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.root, self.tools, self.calls = folder / "root", folder / "tools", folder / "calls"
        self._script = repository / "deploy/pi/install"
        self.fetches = "0"
        for name in ("etc/systemd/system", "etc/udev/rules.d"):
            (self.root / name).mkdir(parents=True)
        self.tools.mkdir()
        self.calls.touch()
        for name in ("apt-get", "useradd", "userdel", "systemctl", "udevadm", "chgrp", "make"):
            self.tool(name)
        self.tool("python3", VENV)
        self.tool("install", INSTALL)
        self.has(release="13", architecture="arm64", machine="aarch64", openssl="3.5.9")

    def tool(self, name: str, body: str = "") -> None:
        """A program of the board."""
        path = self.tools / name
        path.write_text(STUB.format(name=name, body=body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def has(self, release: str, architecture: str, machine: str, openssl: str, index: bool = False) -> None:
        """What board and system it is."""
        (self.root / "etc/os-release").write_text(f'ID=debian\nVERSION_ID="{release}"\n')
        (self.root / "etc/pip.conf").write_text("[global]\nextra-index-url=https://index.example/\n" if index else "")
        self.tool("dpkg", f"case $1 in --print-architecture) echo {architecture} ;; -s) exit 1 ;; esac")
        self.tool("uname", f"echo {machine}")
        self.tool("openssl", f"echo OpenSSL {openssl} 1 Jan 2026")

    def install(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run the installer; nobody sits at a terminal."""
        environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "CALLS": str(self.calls),
            "FETCHES": self.fetches,
            "OPJOULE_INSTALL_ROOT": str(self.root),
        }
        return subprocess.run(
            [str(self._script), *map(str, arguments)], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip

    def called(self) -> str:
        """All calls so far."""
        return self.calls.read_text()

    def files(self) -> set[str]:
        """All files below the root, by their path."""
        return {str(file.relative_to(self.root)) for file in self.root.rglob("*") if file.is_file()}


@pytest.fixture
def board(tmp_path: Path, repository: Path) -> Board:
    """A Raspberry Pi OS 13 on 64 bit."""
    return Board(tmp_path, repository)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of a runner, lab/pi4, and a meter, lab/meter/hub, made for another place than the installer's."""
    return make_fleet(tmp_path_factory.mktemp("fleet") / "fleet")


@pytest.fixture
def runner_bundle(fleet: Path) -> Path:
    return fleet / "bundles/lab.pi4"


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """What it said."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_runner_is_installed_with_credentials_that_its_service_finds(board: Board, runner_bundle: Path) -> None:
    succeeded(board.install("runner", "--bundle", runner_bundle, "--set", "OPJOULE_PLAN=all"))
    folder = board.root / "etc/opjoule/runner"
    lines = (folder / "opjoule.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    settings = load(RunnerSettings, "runner", "", [], given)
    assert settings.dut == "pi4"
    for path in (settings.broker_password_file, settings.broker_ca_file, settings.broker_cert_file):
        assert path is not None and path.parent == Path("/etc/opjoule/runner")
        assert (board.root / str(path).lstrip("/")).is_file()
    assert (folder / "local.env").read_text().splitlines()[-1] == "OPJOULE_PLAN=all"
    assert all(file.stat().st_mode & 0o777 == 0o640 for file in folder.iterdir())
    calls = board.called()
    assert "systemctl enable --quiet opjoule-runner.service\nsystemctl restart opjoule-runner.service" in calls
    assert "useradd --system" in calls and "udevadm" not in calls
    assert "etc/systemd/system/opjoule-runner.service" in board.files()


def test_a_meter_gets_the_rules_for_its_devices_and_no_openssl(board: Board, fleet: Path) -> None:
    said = succeeded(board.install("meter", "--bundle", fleet / "bundles/lab.meter.hub"))
    assert "etc/udev/rules.d/60-opjoule-meters.rules" in board.files()
    assert "udevadm control --reload" in board.called() and "OpenSSL" not in said
    text = (board.root / "etc/opjoule/meter/opjoule.env").read_text()
    given = dict(line.split("=", 1) for line in text.splitlines())
    more = {"OPJOULE_SOURCE": "simulated", "OPJOULE_DUT": "pi4", "OPJOULE_METER": "fnb58"}
    assert load(MeterSettings, "meter", "", [], given | more).instance_name == "hub"


def test_a_runner_and_a_meter_live_on_one_board(board: Board, fleet: Path, runner_bundle: Path) -> None:
    succeeded(board.install("runner", "--bundle", runner_bundle))
    succeeded(board.install("meter", "--bundle", fleet / "bundles/lab.meter.hub"))
    names = ("runner", "meter")
    keys = [(board.root / "etc/opjoule" / name / "client.key").read_bytes() for name in names]
    assert keys[0] != keys[1]
    assert board.called().count("-m venv") == 1


def test_a_bundle_may_come_as_an_archive(board: Board, runner_bundle: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pi4.tar"
    with tarfile.open(archive, "w") as made:
        made.add(runner_bundle, "lab.pi4")
    succeeded(board.install("runner", "--bundle", archive))
    assert (board.root / "etc/opjoule/runner/client.key").read_bytes() == (runner_bundle / "client.key").read_bytes()


def test_what_is_wrong_with_a_bundle_is_one_line_before_anything_is_changed(
    board: Board, fleet: Path, runner_bundle: Path, tmp_path: Path
) -> None:
    for name, folder in (("all", fleet / "bundles"), ("other", fleet / "broker")):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as made:
            made.add(folder, name)
    (tmp_path / "junk.tar").write_text("junk")
    before = board.files()
    for bundle, line in (
        (fleet / "bundles/lab.meter.hub", "is of lab/meter/hub, no runner: make one on the hub"),
        (fleet / "bundles/aggregator.main", "is of aggregator.main, no runner"),
        (tmp_path / "all.tar", "holds several bundles"),
        (tmp_path / "other.tar", "is no bundle of opjoule fleet add: it has no opjoule.env"),
        (tmp_path / "junk.tar", "is no bundle of opjoule fleet add: tar cannot read it"),
    ):
        refused = board.install("runner", "--bundle", bundle)
        assert refused.returncode == 1 and refused.stderr.startswith(f"install: {bundle} {line}")
        assert len(refused.stderr.splitlines()) == 1
    assert "is of lab/pi4, no meter" in board.install("meter", "--bundle", runner_bundle).stderr
    assert board.files() == before and "apt-get" not in board.called()


def test_an_installation_that_fails_leaves_no_secret_behind(board: Board, runner_bundle: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pi4.tar"
    with tarfile.open(archive, "w") as made:
        made.add(runner_bundle, "lab.pi4")
    scratch = tmp_path / "scratch"
    board.tool("mktemp", f"mkdir -m 700 {scratch} && echo {scratch}")
    board.tool("useradd", f"ls {scratch} >>$CALLS; exit 1")
    assert board.install("runner", "--bundle", archive).returncode == 1
    assert "lab.pi4" in board.called() and not scratch.exists()


def test_your_settings_are_never_open_to_others(board: Board, runner_bundle: Path) -> None:
    board.tool("chgrp", 'stat -c "local.env is %a" "$2" >>"$CALLS"')
    succeeded(board.install("runner", "--bundle", runner_bundle, "--set", "OPJOULE_PLAN=all"))
    assert "local.env is 600" in board.called()


def test_a_second_run_keeps_what_is_yours_and_needs_no_bundle(board: Board, runner_bundle: Path) -> None:
    succeeded(
        board.install("runner", "--bundle", runner_bundle, "--set", "OPJOULE_PLAN=all", "--set", "OPJOULE_SEED=1")
    )
    before = board.files()
    succeeded(board.install("runner", "--set", "OPJOULE_PLAN=demo"))
    assert board.files() == before
    lines = (board.root / "etc/opjoule/runner/local.env").read_text().splitlines()
    assert lines[1:] == ["OPJOULE_SEED=1", "OPJOULE_PLAN=demo"]


def test_a_dry_run_says_all_and_changes_nothing(board: Board, runner_bundle: Path) -> None:
    before = board.files()
    said = succeeded(board.install("runner", "--bundle", runner_bundle, "--dry-run"))
    assert board.files() == before
    changing = ("apt-get", "useradd", "systemctl", "install -", "python3 -m")
    assert not any(line.startswith(changing) for line in board.called().splitlines())
    for wanted in ("apt-get install", "useradd", "venv/bin/pip install", "etc/opjoule/runner/client.key", "systemctl"):
        assert f"{wanted}" in said
    assert said.endswith("install: opjoule-runner would be installed\n")
    assert all(line.startswith(("would run: ", "install: ")) for line in said.splitlines())


@pytest.mark.parametrize(
    ("release", "architecture", "machine", "index", "expected"),
    [
        ("13", "arm64", "aarch64", False, "pip"),
        ("12", "arm64", "aarch64", True, "pip"),
        ("13", "armhf", "armv6l", True, "distribution"),
        ("13", "armhf", "armv7l", False, "distribution"),
        ("12", "armhf", "armv6l", True, "pip"),
        ("12", "armhf", "armv7l", False, "pip"),
    ],
)
def test_python_packages_come_as_binaries_on_every_board(
    board: Board, runner_bundle: Path, release: str, architecture: str, machine: str, index: bool, expected: str
) -> None:
    board.has(release, architecture, machine, "3.5.9", index)
    assert f"Python packages by {expected}" in succeeded(board.install("runner", "--bundle", runner_bundle))
    calls = board.called()
    pip = next(line for line in calls.splitlines() if line.startswith("venv-pip"))
    if expected == "distribution":
        assert "python3-pydantic python3-paho-mqtt" in calls and "--system-site-packages" in calls
        assert "--no-deps" in pip
    else:
        assert "--only-binary :all:" in pip and "python3-pydantic" not in calls


def test_a_board_for_which_nobody_has_binaries_is_refused_before_anything_is_changed(
    board: Board, runner_bundle: Path
) -> None:
    board.has("12", "armhf", "armv6l", "3.0.16")
    before = board.files()
    refused = board.install("runner", "--bundle", runner_bundle)
    assert refused.returncode == 1 and "no wheels of pydantic-core for this board" in refused.stderr
    assert board.files() == before


@pytest.mark.parametrize("release", ["11", "9", ""])
def test_an_older_release_is_refused(board: Board, runner_bundle: Path, release: str) -> None:
    board.has(release, "arm64", "aarch64", "3.0.16")
    refused = board.install("runner", "--bundle", runner_bundle)
    assert refused.returncode == 1 and "12 or 13 is needed" in refused.stderr


def test_a_bundle_of_openssl_from_the_hub_is_put_where_the_runner_looks(
    board: Board, runner_bundle: Path, tmp_path: Path
) -> None:
    board.has("12", "arm64", "aarch64", "3.0.16")
    (tmp_path / "trixie-arm64/usr/bin").mkdir(parents=True)
    (tmp_path / "trixie-arm64/usr/bin/openssl").touch()
    archive = tmp_path / "openssl.tar"
    with tarfile.open(archive, "w") as made:
        made.add(tmp_path / "trixie-arm64", "trixie-arm64")
    assert f"OpenSSL: from {archive}" in succeeded(
        board.install("runner", "--bundle", runner_bundle, "--openssl", archive)
    )
    assert "opt/opjoule/cache/opjoule/openssl/trixie-arm64/usr/bin/openssl" in board.files()
    assert "venv-python -c" in board.called(), "it was tried"
    assert not (board.root / "opt/opjoule/cache/trying").exists()
    assert "OpenSSL: the one installed before" in succeeded(board.install("runner"))


@pytest.mark.parametrize("is_archive", [True, False])
def test_a_bundle_of_openssl_that_does_not_run_here_is_refused_and_not_kept(
    board: Board, runner_bundle: Path, tmp_path: Path, is_archive: bool
) -> None:
    board.has("12", "arm64", "aarch64", "3.0.16")
    board.fetches = "1"
    archive = tmp_path / "openssl.tar"
    archive.write_text("junk")
    if is_archive:
        (tmp_path / "trixie-armhf/usr/bin").mkdir(parents=True)
        with tarfile.open(archive, "w") as made:
            made.add(tmp_path / "trixie-armhf", "trixie-armhf")
    refused = board.install("runner", "--bundle", runner_bundle, "--openssl", archive)
    line = f"install: {archive} holds no OpenSSL 3.5 that runs on this board, arm64: make one"
    assert refused.returncode == 1 and refused.stderr.splitlines()[-1].startswith(line)
    assert not any("cache" in name for name in board.files()) and "systemctl" not in board.called()
    assert not (board.root / "opt/opjoule/cache/opjoule").exists()


def test_what_an_archive_says_of_owners_is_not_followed(repository: Path) -> None:
    text = "".join(
        (repository / "deploy/pi" / name).read_text("utf-8") for name in ("install", "bundle.sh", "openssl.sh")
    )
    unpacking = [line for line in text.splitlines() if re.search(r"\btar .*-xf", line)]
    assert len(unpacking) == 3 and all("tar --no-same-owner " in line for line in unpacking)


def test_without_a_bundle_packages_of_the_boards_own_sources_are_tried(board: Board, runner_bundle: Path) -> None:
    board.has("12", "arm64", "aarch64", "3.0.16")
    assert "from this board's own sources" in succeeded(board.install("runner", "--bundle", runner_bundle))
    assert "venv-python -c" in board.called()


def test_nothing_is_compiled_unless_a_source_was_named_and_the_time_is_told_first(
    board: Board, runner_bundle: Path
) -> None:
    board.has("12", "arm64", "aarch64", "3.0.16")
    board.fetches = "1"
    refused = board.install("runner", "--bundle", runner_bundle)
    assert refused.returncode == 1
    assert "build it here, which takes about 2.5 hours" in refused.stdout
    assert "make a bundle on the hub" in refused.stdout and "--old-openssl" in refused.stderr
    assert "build-essential" not in board.called() and "systemctl" not in board.called()


def test_a_build_that_was_agreed_to_is_what_the_runner_uses(board: Board, runner_bundle: Path, tmp_path: Path) -> None:
    board.has("12", "arm64", "aarch64", "3.0.16")
    board.fetches = "1"
    source = tmp_path / "openssl-3.5.7"
    source.mkdir()
    configure = source / "Configure"
    configure.write_text(
        '#!/bin/sh\nfor each; do case $each in --prefix=*) mkdir -p "${each#*=}/bin"\n'
        '    cp "$0" "${each#*=}/bin/openssl" ;; esac; done\n'
    )
    configure.chmod(0o755)
    archive = tmp_path / "openssl-3.5.7.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(source, "openssl-3.5.7")
    said = succeeded(board.install("runner", "--bundle", runner_bundle, "--build-openssl", archive))
    assert "about 2.5 hours" in said and "make install_sw" in board.called()
    assert (
        "OPJOULE_OPENSSL=/opt/opjoule/openssl/bin/openssl" in (board.root / "etc/opjoule/runner/local.env").read_text()
    )
    assert not (board.root / "opt/opjoule/build").exists()


def test_an_old_openssl_is_taken_where_that_is_wished(board: Board, runner_bundle: Path) -> None:
    board.has("12", "arm64", "aarch64", "3.0.16")
    assert "as you wished" in succeeded(board.install("runner", "--bundle", runner_bundle, "--old-openssl"))


def test_uninstalling_leaves_only_what_no_aggregator_has_confirmed(
    board: Board, runner_bundle: Path, fleet: Path
) -> None:
    before = board.files()
    succeeded(board.install("runner", "--bundle", runner_bundle))
    succeeded(board.install("meter", "--bundle", fleet / "bundles/lab.meter.hub"))
    (board.root / "var/lib/opjoule/runner").mkdir()
    (board.root / "var/lib/opjoule/runner/runner-pi4.spool").touch()
    succeeded(board.install("--uninstall"))
    assert board.files() - before == {"var/lib/opjoule/runner/runner-pi4.spool"}
    assert "systemctl disable --now --quiet opjoule-runner.service" in board.called()
    succeeded(board.install("--uninstall", "--purge"))
    assert board.files() == before and not (board.root / "var/lib/opjoule").exists()


def test_uninstalling_goes_on_where_systemd_or_the_user_will_not(board: Board, runner_bundle: Path) -> None:
    before = board.files()
    succeeded(board.install("runner", "--bundle", runner_bundle))
    (board.root / "etc/passwd").write_text("opjoule:x:999:999::/var/lib/opjoule:/usr/sbin/nologin\n")
    board.tool("systemctl", "exit 1")
    board.tool("userdel", "exit 8")
    said = succeeded(board.install("--uninstall", "--purge"))
    assert "systemctl cannot stop opjoule-runner; going on" in said and "the user opjoule cannot be removed" in said
    assert board.files() - before == {"etc/passwd"}


def test_uninstalling_can_be_rehearsed(board: Board, runner_bundle: Path) -> None:
    succeeded(board.install("runner", "--bundle", runner_bundle))
    before = board.files()
    said = succeeded(board.install("--uninstall", "--dry-run"))
    assert "would run: rm -rf" in said and "install: would be removed" in said
    assert board.files() == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "runner or meter?"),
        (("aggregator",), "what is aggregator?"),
        (("runner",), "--bundle is missing: make it on the hub with opjoule fleet add runner"),
        (("runner", "--bundle"), "--bundle needs a value"),
        (("runner", "--bundle", "/nowhere"), "no bundle at /nowhere"),
        (("runner", "--bundle", "/etc"), "/etc is no bundle of opjoule fleet add: it has no ca.pem"),
        (("runner", "--set", "PLAN=all"), "--set wants OPJOULE_NAME=VALUE, not PLAN=all"),
        (("runner", "--bundle", "/etc", "--openssl", "/nowhere"), "no OpenSSL bundle at /nowhere"),
        (("runner", "--bundle", "/etc", "--build-openssl", "/nowhere"), "no source archive at /nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(board: Board, arguments: tuple[str, ...], line: str) -> None:
    refused = board.install(*arguments)
    assert refused.returncode == 1 and refused.stderr.splitlines()[-1].startswith(f"install: {line}")
    assert "systemctl" not in board.called()


def test_help_names_every_option_that_is_understood(board: Board, repository: Path) -> None:
    shown = succeeded(board.install("--help"))
    script = (repository / "deploy/pi/install").read_text()
    parse = script.partition("parse() {")[2].partition("\n}")[0]
    options = {word for word in parse.replace(")", " ").split() if word.startswith("--") and len(word) > 3}
    assert len(options) == 9 and all(option in shown or option == "--help" for option in options)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", ["install", "bundle.sh", "openssl.sh", "openssl-bundle"])
def test_shellcheck_finds_nothing(repository: Path, script: str) -> None:
    checked = subprocess.run(
        ["shellcheck", "-x", f"deploy/pi/{script}"], cwd=repository, capture_output=True, text=True, check=False,
        timeout=LIMIT_S, env=os.environ,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout) == (0, "")
