"""`python -m meter` as a process, and a listener on a real broker that plays the aggregator."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bus import BrokerAddress, MqttBus
from schemas import Journaled, SampleBatch, SeqRange, ServiceStatus, topic_filter

DEADLINE_S = 30.0


class Listener:
    """Collects what the meter publishes at one site, and confirms batches when asked to."""

    def __init__(self, url: str, site: str, confirm: bool = False) -> None:
        self._bus = MqttBus(BrokerAddress.parse(url), f"listener-{site}")
        self._bus.subscribe([topic_filter("status", site), topic_filter("samples", site)])
        assert self._bus.connect(DEADLINE_S)
        self._confirm = confirm
        self.statuses: list[ServiceStatus] = []
        self.batches: list[SampleBatch] = []

    def listen(self) -> None:
        for message in self._bus.receive(0.05):
            if message.topic.endswith("/status"):
                self.statuses.append(ServiceStatus.model_validate_json(message.payload))
                continue
            batch = SampleBatch.model_validate_json(message.payload)
            self.batches.append(batch)
            if self._confirm:
                span = SeqRange(meter=batch.meter, timeline_id=batch.timeline_id, first=batch.seq, last=batch.seq)
                receipt = Journaled(site=batch.site, dut=batch.dut, ranges=(span,))
                self._bus.publish("journaled", batch.site, receipt, dut=batch.dut)

    def listen_until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline_s, "waited too long"
            self.listen()

    def close(self) -> None:
        self._bus.disconnect()


def start(folder: Path, url: str, site: str, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    """`before`: a program that starts it, with its arguments."""
    common = ["--broker-url", url, "--site", site, "--state-dir", str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPJOULE_")}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "meter", *common, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, errors


class Running:
    """A meter service at a site of its own, and what it says."""

    def __init__(self, folder: Path, url: str, site: str, arguments: Sequence[str], before: Sequence[str] = ()) -> None:
        self.listener = Listener(url, site)
        self.process = start(folder, url, site, *arguments, before=before)

    @property
    def status(self) -> ServiceStatus | None:
        return self.listener.statuses[-1] if self.listener.statuses else None

    def wait_for(self, condition: Callable[[ServiceStatus], bool]) -> ServiceStatus:
        self.listener.listen_until(lambda: any(condition(status) for status in self.listener.statuses))
        assert self.process.poll() is None
        return next(status for status in self.listener.statuses if condition(status))

    def end(self) -> str:
        """What it wrote, once it has ended well."""
        begin_s = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code, errors = end_of(self.process)
        assert time.monotonic() - begin_s < 5.0
        self.listener.close()
        assert code == 0
        assert "Traceback" not in errors
        return errors

    def kill(self) -> None:
        """Leave nothing behind, whatever has failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
