"""Services as child processes, for the demo and for studies: started, watched, stopped, none left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bus import Bus
from errors import SettingsError
from schemas import ServiceStatus, parse_topic, topic_filter
from schemas.status import Service

START_S = 30.0
STOP_S = 5.0
"""How long a service may take to end before it is killed."""

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1  # linux/prctl.h; stays set over exec
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("its parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def dies_with_parent(command: Sequence[str]) -> list[str]:
    """The command, killed when this process dies, however that happens (Linux; elsewhere the command as it is)."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def _is_online(payload: bytes) -> bool:
    return ServiceStatus.model_validate_json(payload).state == "online"


class Services:
    """Child processes by name, in the order of their start. Their log lines go to files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, module: str, settings: dict[str, object], name: str = "") -> int:
        """Start `python -m module` with these settings as flags; its process id.

        The environment's OPJOULE_ variables do not reach it: what is not given here has its default.
        """
        flags = [part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OPJOULE_")}
        with self.log_file(name or module).open("ab") as log:
            process = subprocess.Popen(
                dies_with_parent([sys.executable, "-m", module, *flags]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._running[name or module] = process
        return process.pid

    def kill(self, name: str) -> None:
        """End a service as a power cut would; `start` may start it again."""
        self._running[name].kill()
        self._running[name].wait()

    def log_file(self, name: str) -> Path:
        """Where the log lines of a service are."""
        return self.folder / f"{name}.log"

    def status(self, name: str) -> int | None:
        """The exit status of a service; None while it runs."""
        return self._running[name].poll()

    def must_run(self, *names: str) -> None:
        """Raises SettingsError with the last line of a service that has ended."""
        for name in names:
            status = self.status(name)
            if status is not None:
                raise SettingsError(f"the {name} ended with status {status}: {self.last_line(name)}")

    def wait_until_online(self, bus: Bus, site: str, name: Service) -> None:
        """Wait for the retained status of a service; what else comes meanwhile is dropped.

        Raises SettingsError when it ends, or says nothing for `START_S`.
        """
        bus.subscribe([topic_filter("status", site, service=name)])
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            self.must_run(name)
            for received in bus.receive(0.1):
                address = parse_topic(received.topic)
                if address is not None and address.levels.get("service") == name and _is_online(received.payload):
                    return
        raise SettingsError(f"the {name} did not come up within {START_S:.0f} s: {self.last_line(name)}")

    def last_line(self, name: str) -> str:
        """The last line that a service logged."""
        lines = self.log_file(name).read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def stop(self, *names: str) -> None:
        """Ask services to end, the last started first, and kill those that do not. All, where none is named."""
        for name in names or tuple(reversed(self._running)):
            process = self._running[name]
            if process.poll() is None:
                process.terminate()
        deadline_s = time.monotonic() + STOP_S
        for name in names or tuple(reversed(self._running)):
            process = self._running[name]
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
