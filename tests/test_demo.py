"""`opjoule demo` as its users meet it: what it prints, how it ends, and that nothing of it stays behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opjoule.local_broker import Kind, available
from opjoule.places import board_name
from tests.pipeline.plant import processes_naming, work_folders

pytestmark = pytest.mark.processes

DEADLINE_S = 90.0
GONE_S = 10.0
PROGRAM = Path(sys.executable).with_name("opjoule")


@pytest.fixture
def environment(tmp_path: Path, classical: Path) -> dict[str, str]:
    """An OpenSSL without post-quantum sets and no way to fetch one that has them."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPJOULE_")}
    search = os.pathsep.join([str(classical), str(PROGRAM.parent), inherited["PATH"]])
    return inherited | {"PATH": search, "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "150"}


@pytest.fixture
def classical(tmp_path: Path, openssl: str) -> Path:
    """A folder for PATH whose `openssl` says that it is an old one, and whose `apt-get` finds no network."""
    folder = tmp_path / "programs"
    folder.mkdir()
    _script(
        folder / "openssl",
        'case "$1" in\n'
        "version) echo 'OpenSSL 3.0.17 1 Jul 2025 (Library: OpenSSL 3.0.17 1 Jul 2025)' ;;\n"
        "list) echo '    IDs: { X25519 } @ default'; echo '    IDs: { EC } @ default' ;;\n"
        f'*) exec {openssl} "$@" ;;\nesac\n',
    )
    _script(folder / "apt-get", "echo 'E: there is no network' >&2\nexit 100\n")
    return folder


@pytest.fixture(scope="session")
def openssl() -> str:
    """The openssl program on PATH."""
    found = [Path(folder) / "openssl" for folder in os.get_exec_path()]
    program = next((str(path) for path in found if os.access(path, os.X_OK)), None)
    if program is None:
        pytest.skip("no openssl program on PATH")
    return program


class Demo:
    """A running `opjoule demo` whose store is in `folder`."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        self.folder = folder
        self.work: set[Path] = set()
        self.process = subprocess.Popen(
            [str(PROGRAM), "demo", "--train-s", "5", "--folder", str(folder), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def children(self, word: str = "") -> dict[int, str]:
        """Its processes whose command line holds this word: each names the folder."""
        found = processes_naming(str(self.folder))
        return {pid: line for pid, line in found.items() if pid != self.process.pid and word in line}

    def in_train(self) -> bool:
        """Whether the runner is at work in a folder of its own, which is remembered."""
        for pid in self.children("-m runner"):
            self.work |= work_folders(pid)
        return bool(self.work)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds, while the demo runs."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline_s, "waited in vain"
            time.sleep(0.02)

    def finish(self) -> tuple[int, str, str]:
        """Exit status, output and errors; none of its processes is left, and nothing in shared memory."""
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        assert self.children() == {}
        assert [folder for folder in self.work if folder.exists()] == []
        return self.process.returncode, output, errors

    def close(self) -> None:
        """End it whatever its state."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_demo(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Demo]]:
    """Starts demos, each in a folder of its own."""
    demos: list[Demo] = []

    def start(*arguments: str, **variables: str) -> Demo:
        demos.append(Demo(tmp_path / f"demo {len(demos)}", environment | variables, *arguments))
        return demos[-1]

    yield start
    for demo in demos:
        demo.close()


@pytest.mark.parametrize(
    ("kind", "plan", "operation"),
    [
        pytest.param("mosquitto", "sham,sign:ECDSA-P-256", "sign", marks=pytest.mark.mosquitto),
        pytest.param("iotcore", "keygen:X25519", "keygen", marks=pytest.mark.iotcore),
    ],
)
def test_every_train_becomes_a_figure_that_says_SIMULATED_and_can_be_looked_at_again(
    start_demo: Callable[..., Demo], environment: dict[str, str], kind: Kind, plan: str, operation: str
) -> None:
    if not available(kind):
        pytest.skip(f"{kind} is not installed")
    demo = start_demo("--plan", plan, "--broker", kind)
    status, output, errors = demo.finish()
    assert (status, errors) == (0, "")
    (row,) = (line for line in output.splitlines() if f" {operation} " in line)
    assert board_name() in row and "±" in row and "J" in row
    assert re.search(r" SIMULATED( \([a-z_, ]+\))?$", row.rstrip())  # on a loaded machine: (busy)
    assert "all from SIMULATED power" in output
    assert f"store: {demo.folder / 'journal.sqlite'}" in output
    (again,) = (line.removeprefix("look again: ") for line in output.splitlines() if line.startswith("look again: "))
    looked = subprocess.run(again, shell=True, env=environment, capture_output=True, text=True, check=False)
    assert (looked.returncode, looked.stderr) == (0, "")
    (same,) = (line for line in looked.stdout.splitlines() if f" {operation} " in line)
    assert same.split() == row.split()


def test_without_an_openssl_3_5_its_first_line_says_how_to_get_one_and_the_classical_rest_goes_on(
    start_demo: Callable[..., Demo],
) -> None:
    demo = start_demo("--plan", "keygen:ML-KEM-768,keygen:X25519")
    status, output, errors = demo.finish()
    first = output.splitlines()[0]
    assert "OpenSSL 3.0.17" in first and "has no ML-KEM, ML-DSA and SLH-DSA" in first
    assert "need 3.5 or newer" in first and "name another program with OPJOULE_OPENSSL" in first
    assert "fetching it failed" in first
    assert (status, errors) == (1, "")
    assert "1 of the plan left out" in output
    assert [line for line in output.splitlines() if "X25519" in line and "±" in line]


def test_a_named_openssl_that_does_not_run_is_not_replaced_by_another(start_demo: Callable[..., Demo]) -> None:
    demo = start_demo("--plan", "sham", OPJOULE_OPENSSL="no-such-program")
    status, output, errors = demo.finish()
    assert (status, output) == (2, "")
    assert errors == "opjoule demo: OPJOULE_OPENSSL names 'no-such-program', which is no program\n"


# --- how it ends -------------------------------------------------------------------------------------------------


def _interrupted(demo: Demo) -> str:
    """Ctrl-C: its end within seconds; what it printed."""
    begin_s = time.monotonic()
    demo.process.send_signal(signal.SIGINT)
    status, output, errors = demo.finish()
    assert (status, errors) == (130, "")
    assert time.monotonic() - begin_s < GONE_S
    assert "stopped" in output
    return output


def test_ctrl_c_while_an_openssl_is_fetched_leaves_nothing(
    start_demo: Callable[..., Demo], classical: Path, tmp_path: Path
) -> None:
    _script(classical / "apt-get", f"touch '{tmp_path}/fetching'\nexec sleep 600\n")
    demo = start_demo()
    demo.wait((tmp_path / "fetching").exists)
    _interrupted(demo)
    assert list((tmp_path / "cache").rglob("*fetching*")) == []


def test_ctrl_c_while_the_broker_starts_leaves_nothing(start_demo: Callable[..., Demo], classical: Path) -> None:
    deaf = f"#!{sys.executable}\nimport time\ntime.sleep(600)\n"
    _script(classical / "mosquitto", deaf, "")
    demo = start_demo("--broker", "mosquitto")
    demo.wait(lambda: bool(demo.children("mosquitto.conf")))
    _interrupted(demo)


def test_ctrl_c_while_the_services_start_leaves_nothing(start_demo: Callable[..., Demo]) -> None:
    demo = start_demo()
    demo.wait(lambda: bool(demo.children("-m aggregator")))
    _interrupted(demo)


def test_ctrl_c_in_mid_train_leaves_nothing_and_says_where_the_store_lies(start_demo: Callable[..., Demo]) -> None:
    demo = start_demo("--plan", "keygen:X25519")
    demo.wait(demo.in_train)
    output = _interrupted(demo)
    assert f"store: {demo.folder / 'journal.sqlite'}" in output
    assert demo.work


def test_ctrl_c_at_the_end_leaves_nothing(start_demo: Callable[..., Demo]) -> None:
    demo = start_demo("--plan", "sham")
    demo.wait(demo.in_train)
    demo.wait(lambda: not demo.children("-m runner"))
    _interrupted(demo)


def test_when_the_demo_itself_is_killed_all_its_processes_die_too(start_demo: Callable[..., Demo]) -> None:
    demo = start_demo("--plan", "sham")
    demo.wait(demo.in_train)
    assert len(demo.children()) >= 4
    demo.process.kill()
    deadline_s = time.monotonic() + GONE_S
    while demo.children():
        assert time.monotonic() < deadline_s, demo.children()
        time.sleep(0.02)
    for folder in demo.work:  # a killed runner cannot take it away
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


# --- what cannot be done -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--plan", "keygen:MLKEM768"), "the plan has 'keygen:MLKEM768': did you mean ML-KEM-768?"),
        (("--plan", "sham", "--seed", "-1"), "--seed: Input should be greater than or equal to 0, not '-1'"),
        (("--train-s", "nan"), "--train-s: Input should be a finite number, not 'nan'"),
        (("--openssl", "no-such-program"), "--openssl names 'no-such-program', which is no program"),
    ],
)
def test_what_is_wrong_with_an_argument_is_said_in_one_line(
    start_demo: Callable[..., Demo], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    status, _, errors = start_demo(*arguments).finish()
    assert status == 2
    (line,) = errors.splitlines()
    assert line.startswith(f"opjoule demo: {said}")
    assert not (tmp_path / "demo 0").exists()


def test_a_broker_that_cannot_start_is_named_with_its_last_words(
    start_demo: Callable[..., Demo], classical: Path
) -> None:
    _script(classical / "mosquitto", "echo 'Error: no luck today' >&2\nexit 1\n")
    status, _, errors = start_demo("--broker", "mosquitto").finish()
    assert status == 2
    assert errors == "opjoule demo: mosquitto ended at its start: Error: no luck today\n"


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, environment: dict[str, str], start_demo: Callable[..., Demo]
) -> None:
    (tmp_path / "demo 0").write_text("in the way")
    status, _, errors = start_demo().finish()
    assert status == 2
    assert errors == f"opjoule demo: --folder {tmp_path / 'demo 0'}: File exists\n"


def test_a_state_directory_that_cannot_be_made_is_named_with_what_to_give_instead(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    done = subprocess.run(
        [str(PROGRAM), "demo", "--plan", "sham"],
        env=environment | {"OPJOULE_STATE_DIR": str(tmp_path / "file")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"opjoule demo: {tmp_path / 'file' / 'demo'}/")
    assert "cannot be made; give --folder or OPJOULE_STATE_DIR: Not a directory" in done.stderr


def _script(path: Path, lines: str, head: str = "#!/bin/sh\n") -> None:
    path.write_text(head + lines)
    path.chmod(0o755)
