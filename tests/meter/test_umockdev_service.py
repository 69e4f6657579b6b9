"""The meter service as a process on fake hidraw nodes and a real broker: a meter is pulled out and put in again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from meter.devices.faults import Faults, every
from meter.devices.fnb58 import Fnb58
from meter.devices.power import constant
from opjoule.local_broker import LocalBroker
from tests.meter.fake_hidraw import FakeHidraw
from tests.meter.process_rig import Listener, end_of, start

pytestmark = pytest.mark.processes
METER = ["--source", "fnirsi", "--dut", "pi4", "--meter", "m1", "--batch-s", "0.2"]


@pytest.fixture(scope="module")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for this module."""
    with LocalBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.url


@pytest.fixture
def usb(tmp_path: Path) -> Iterator[FakeHidraw]:
    """Fake hidraw nodes."""
    with FakeHidraw(tmp_path) as fake:
        yield fake


def test_a_meter_pulled_out_and_put_in_elsewhere_is_read_on_with_a_gap_counted(
    tmp_path: Path, broker_url: str, usb: FakeHidraw
) -> None:
    listener = Listener(broker_url, "replug", confirm=True)
    usb.plug_in(Fnb58(constant(2.5)), number=0)
    process = start(tmp_path, broker_url, "replug", *METER, before=usb.before)
    listener.listen_until(lambda: bool(listener.batches) and listener.statuses[-1].duts == ("pi4",))
    usb.unplug(0)
    listener.listen_until(lambda: listener.statuses[-1].duts == ())
    seen = len(listener.batches)
    usb.plug_in(Fnb58(constant(1.25)), number=4)
    listener.listen_until(lambda: len(listener.batches) > seen and listener.statuses[-1].duts == ("pi4",))
    process.terminate()
    code, errors = end_of(process)
    listener.close()
    assert (code, "Traceback" in errors) == (0, False)
    before, after = listener.batches[0], listener.batches[-1]
    assert (before.meter_model, before.meter_kind, before.timeline_id) == ("FNB58", "measured", after.timeline_id)
    assert before.power_w[0] == pytest.approx(2.5, abs=1e-4)
    assert after.power_w[-1] == pytest.approx(1.25, abs=1e-4)
    assert after.lost_samples > before.lost_samples


def test_damaged_reports_are_counted_in_what_is_published(tmp_path: Path, broker_url: str, usb: FakeHidraw) -> None:
    listener = Listener(broker_url, "damaged", confirm=True)
    usb.plug_in(Fnb58(constant(2.5), faults=Faults(bad_crc=every(10))))
    process = start(tmp_path, broker_url, "damaged", *METER, before=usb.before)
    listener.listen_until(lambda: len(listener.batches) > 0 and listener.batches[-1].rejected_frames > 4)
    process.terminate()
    code, errors = end_of(process)
    listener.close()
    assert (code, "Traceback" in errors) == (0, False)
    assert listener.batches[-1].lost_samples > 0
