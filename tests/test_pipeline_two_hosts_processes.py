"""Real services and a real broker, with a meter that believes it is on another host, three hours ahead."""

import shutil
from pathlib import Path

import pytest

from runner.openssl import find_openssl
from tests.pipeline.plant import DUT, Plant

pytestmark = [pytest.mark.processes, pytest.mark.mosquitto]

AHEAD_S = 3 * 3600
OTHER_HOST = """
import time
from pathlib import Path

import clock

clock._BOOT_ID = Path(__file__).with_name("boot_id")
_here_ns = time.time_ns
time.time_ns = lambda: _here_ns() + {ahead_ns}
"""
"""Run by Python as it starts (site: sitecustomize)."""


@pytest.fixture
def openssl() -> str:
    """The openssl program on PATH."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl program on PATH")
    return find_openssl(program).openssl.program


def test_a_meter_on_another_host_is_joined_by_the_clock_exchange(
    tmp_path: Path, openssl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other-host"
    other.mkdir()
    (other / "boot_id").write_text("another\n")
    (other / "sitecustomize.py").write_text(OTHER_HOST.format(ahead_ns=AHEAD_S * 10**9))
    runner = {"dut": DUT, "plan": "null:1", "openssl": openssl, "train_s": 5, "gap_s": 2, "start_delay_s": 4}
    with Plant(tmp_path) as plant:
        plant.start("aggregator")
        pid = plant.start("runner", **runner, rounds=1, busy_cores=4096)
        monkeypatch.setenv("PYTHONPATH", str(other))
        plant.start("meter", source="simulated", dut=DUT, meter="m1", simulated_pid=pid)
        plant.wait(lambda: plant.services.status("runner") is not None)
        assert plant.services.status("runner") == 0, plant.services.last_line("runner")
        plant.wait(lambda: len(plant.published) == 1)
        (result,) = plant.results()
        (batches,) = plant.batches().values()
    assert result.clock is not None and result.clock.bound_s is not None
    assert result.clock.method == "exchange"
    print(f"bound {result.clock.bound_s * 1e3:.3f} ms, drift {result.clock.drift_ppm:.1f} ppm")
    true_s = result.clock.offset_ns / 1e9 - AHEAD_S
    assert abs(true_s) <= result.clock.bound_s + 0.001  # the constants of two processes differ by less
    assert result.clock.bound_s < 0.02
    assert result.quality in ("good", "degraded") and "clock_unknown" not in result.flags
    assert result.net_j_per_op is not None and result.net_j_per_op.value > result.net_j_per_op.u95
    assert batches[0].start_ns > result.start_ns - 60 * 10**9
