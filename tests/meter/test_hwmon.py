"""Power sensors of the kernel, on a tree of files such as it makes."""

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from clock import ServiceClock
from errors import FrameError, SettingsError
from meter.batching import Batcher, BatchLimits
from meter.protocols.hwmon import ChannelFiles, channels, decode
from meter.readings import Reading, Source, Stream
from meter.sources.hwmon import HwmonSource, choose, period_ns_of
from meter.sources.pacing import Pacing
from meter.transports.hwmon import OpenSensor, power_sensors

CLOCK = ServiceClock()
PERIOD_NS = 10_000_000


def chip(root: Path, number: int, name: str, device: str, files: Mapping[str, int | str]) -> Path:
    """A folder as the kernel makes one for a chip."""
    folder = root / f"hwmon{number}"
    folder.mkdir()
    bus = root / "i2c" / device
    bus.mkdir(parents=True)
    (folder / "device").symlink_to(bus)
    for file, content in {"name": name, **files}.items():
        (folder / file).write_text(f"{content}\n")
    return folder


@pytest.fixture
def ina226(tmp_path: Path) -> Path:
    """A chip of the driver ina2xx: in0 is its shunt."""
    files = {"in0_input": 3, "in1_input": 5123, "curr1_input": 612, "power1_input": 3125000, "update_interval": 18}
    return chip(tmp_path, 3, "ina226", "1-0040", files)


class Host:
    """Time that only sleeping moves, and a chip that changes its value every so often."""

    def __init__(self, root: Path, on_sleep: Callable[[int], None] = lambda now_ns: None) -> None:
        self.now_ns = 1_000_000_000
        self._root = root
        self._on_sleep = on_sleep

    def sleep(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)
        self._on_sleep(self.now_ns)

    def source(self, name: str, period_ns: int = PERIOD_NS) -> HwmonSource:
        stream = Stream("lab", "pi5", "ina", "ina226", "measured", CLOCK.timeline_id, None, period_ns)
        pacing = Pacing(lambda: self.now_ns, self.sleep)
        return HwmonSource(stream, name, CLOCK, list_sensors=lambda: power_sensors(self._root), pacing=pacing)


def read(source: Source, duration_s: float) -> list[Reading]:
    return [reading for _ in range(round(duration_s / 0.2)) for reading in source.read(0.2) or []]


def test_an_ina_chip_gives_bus_voltage_times_current(tmp_path: Path, ina226: Path) -> None:
    (sensor,) = power_sensors(tmp_path)
    assert sensor.name == "ina226@1-0040/1"
    power_w, *parts = decode(sensor.files, OpenSensor(sensor).read())
    assert power_w == pytest.approx(5.123 * 0.612)
    assert parts == [5.123, 0.612]


def test_another_chip_gives_its_own_power_and_nothing_that_may_belong_to_another_line(tmp_path: Path) -> None:
    chip(tmp_path, 0, "pmbus", "2-0010", {"in1_input": 12000, "curr1_input": 900, "power1_input": 10_500_000})
    (sensor,) = power_sensors(tmp_path)
    assert decode(sensor.files, OpenSensor(sensor).read()) == (10.5, None, None)


def test_a_chip_without_power_is_no_sensor(tmp_path: Path) -> None:
    chip(tmp_path, 0, "nct6775", "superio", {"in1_input": 1000, "curr1_input": 5, "temp1_input": 40000})
    chip(tmp_path, 1, "ina219", "1-0041", {"in0_input": 1, "in1_input": 5000})
    (tmp_path / "hwmon2").mkdir()
    assert power_sensors(tmp_path) == []
    assert power_sensors(tmp_path / "nowhere") == []


def test_shunts_and_sums_of_an_ina3221_are_no_supplies() -> None:
    files = {f"{kind}{channel}_input" for kind in ("in", "curr") for channel in range(1, 8)}
    assert [found.channel for found in channels("ina3221", files)] == [1, 2, 3]


def test_the_average_of_a_power_meter_counts_where_it_has_no_other() -> None:
    assert channels("power_meter", {"power1_average", "power1_label"}) == [ChannelFiles(1, power="power1_average")]


def test_a_sensor_is_called_by_chip_device_label_or_channel(tmp_path: Path, ina226: Path) -> None:
    files: dict[str, int | str]
    files = {"in1_input": 5000, "curr1_input": 100, "in1_label": "VDD_5V", "in2_input": 3300, "curr2_input": 50}
    chip(tmp_path, 4, "ina3221", "1-0041", files)
    sensors = power_sensors(tmp_path)
    called = {name: choose(sensors, name).name for name in ("ina226", "1-0040", "ina226/1", "VDD_5V", "ina3221/2")}
    assert called == {
        "ina226": "ina226@1-0040/1",
        "1-0040": "ina226@1-0040/1",
        "ina226/1": "ina226@1-0040/1",
        "VDD_5V": "ina3221@1-0041/VDD_5V",
        "ina3221/2": "ina3221@1-0041/2",
    }
    assert all(choose(sensors, sensor.name) == sensor for sensor in sensors)


def test_of_several_sensors_none_is_guessed_and_all_are_named(tmp_path: Path, ina226: Path) -> None:
    chip(tmp_path, 4, "ina226", "1-0041", {"in1_input": 5000, "curr1_input": 100})
    with pytest.raises(SettingsError, match="may be one of ina226@1-0040/1, ina226@1-0041/1"):
        choose(power_sensors(tmp_path), "ina226")
    with pytest.raises(OSError, match="no power sensor is called 1; there are: ina226@1-0040/1, ina226@1-0041/1"):
        choose(power_sensors(tmp_path), "1")


@pytest.mark.parametrize(("update_ms", "period_ms"), [(18, 18), (1, 10), (2200, 100), ("", 100), ("fast", 100)])
def test_it_is_read_as_often_as_its_driver_says_that_it_measures(
    tmp_path: Path, update_ms: int | str, period_ms: int
) -> None:
    chip(tmp_path, 0, "ina226", "1-0040", {"in1_input": 1, "curr1_input": 1, "update_interval": update_ms})
    assert period_ns_of(power_sensors(tmp_path)[0]) == period_ms * 1_000_000


@pytest.mark.parametrize(("voltage_mv", "current_ma"), [(36_000, 500), (5_100, 8_200), (5_100, -2)])
def test_what_a_shunt_lets_it_measure_is_published(
    tmp_path: Path, ina226: Path, voltage_mv: int, current_ma: int
) -> None:
    """An INA226 goes to 36 V, and its current is that of its shunt; around no current half of the noise is negative."""
    _set(ina226 / "in1_input", voltage_mv)
    _set(ina226 / "curr1_input", current_ma)
    source = Host(tmp_path).source("ina226")
    batcher = Batcher(source.stream, BatchLimits(1000, None))
    batcher.add(read(source, 1))
    (batch,) = batcher.flush()
    assert set(batch.power_w) == {voltage_mv / 1e3 * (current_ma / 1e3)}
    assert batch.rejected_frames == 0


def test_the_rate_of_new_values_is_measured_and_not_assumed(tmp_path: Path, ina226: Path) -> None:
    """The driver says 18 ms and the host reads every 10 ms; the chip really measures every 70 ms."""
    host = Host(tmp_path, lambda now_ns: _set(ina226 / "curr1_input", 600 + now_ns // 70_000_000 % 50))
    source = host.source("ina226")
    readings = read(source, 20)
    assert len(readings) == 2001
    assert source.health.rate_hz == pytest.approx(100, rel=0.01)
    assert source.health.new_values_hz == pytest.approx(1 / 0.07, rel=0.02)
    assert source.counts.lost_samples == 0


def test_samples_lie_on_the_grid_beside_their_reading(tmp_path: Path, ina226: Path) -> None:
    host = Host(tmp_path)
    readings = read(host.source("ina226"), 1)
    start_ns = CLOCK.at_ns(1_000_000_000)
    assert [reading.t_ns for reading in readings] == [start_ns + index * PERIOD_NS for index in range(101)]


def test_a_reading_that_fails_costs_itself(tmp_path: Path, ina226: Path) -> None:
    spoiled = range(1_500_000_000, 1_530_000_000)
    host = Host(tmp_path, lambda now_ns: _set(ina226 / "curr1_input", "" if now_ns in spoiled else 612))
    source = host.source("ina226")
    assert len(read(source, 1)) == 98
    counts = source.counts
    assert (counts.rejected, counts.lost_samples, counts.gaps) == ({"not_a_number": 3}, 3, 1)
    assert source.health.connected


def test_a_host_that_was_busy_leaves_a_counted_gap(tmp_path: Path, ina226: Path) -> None:
    host = Host(tmp_path)
    source = host.source("ina226")
    read(source, 1)
    host.now_ns += 500_000_000
    read(source, 1)
    assert source.counts.gaps == 1
    assert source.counts.lost_samples == pytest.approx(50, abs=1)


def test_a_sensor_that_goes_is_waited_for_and_found_under_another_number(
    tmp_path: Path, ina226: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(tmp_path)
    source = host.source("ina226")
    read(source, 1)
    (ina226 / "in1_input").write_text("dead")
    (ina226 / "name").unlink()
    assert read(source, 4) == []
    assert not source.health.connected
    assert source.health.detail == "no power sensor is called ina226; there are: none"
    (ina226 / "in1_input").write_text("5000\n")
    (ina226 / "name").write_text("ina226\n")
    ina226.rename(tmp_path / "hwmon9")
    assert read(source, 3)
    assert source.health.connected
    assert source.health.reopened == 1
    assert source.counts.gaps == 1
    assert [record.message for record in caplog.records] == [
        "meter ina at pi5: not_a_number: 'dead'",
        "meter ina at pi5: no power sensor is called ina226; there are: none",
    ]


def test_a_sensor_that_is_not_there_yet_is_waited_for_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(tmp_path)
    source = host.source("ina226")
    assert read(source, 5) == []
    assert len(caplog.records) == 1
    chip(tmp_path, 0, "ina226", "1-0040", {"in1_input": 5000, "curr1_input": 100})
    assert read(source, 2)


def test_closing_gives_every_file_back(tmp_path: Path, ina226: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    source = Host(tmp_path).source("ina226")
    read(source, 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 2
    source.close()
    source.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_vanished_closes_what_was_opened_before_it(tmp_path: Path, ina226: Path) -> None:
    (sensor,) = power_sensors(tmp_path)
    (ina226 / "curr1_input").unlink()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="curr1_input") as caught:
        OpenSensor(sensor)
    assert caught.value.errno == errno.ENOENT
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(FrameError, match=r"^not_a_number: 'nan'$"):
        decode(ChannelFiles(1, power="power1_input"), ("nan\n",))


def _set(file: Path, value: int | str) -> None:
    if file.read_text() != f"{value}\n":
        file.write_text(f"{value}\n")
