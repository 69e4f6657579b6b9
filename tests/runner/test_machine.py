"""The board, from a root made by hand."""

from pathlib import Path

from runner.machine import Conditions, disturbance, read_conditions, read_machine


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


PI_ZERO = {
    "proc/device-tree/model": "Raspberry Pi Zero W Rev 1.1\0",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: ARMv6-compatible processor rev 7 (v6l)\nBogoMIPS\t: 697.95\n",
    "proc/meminfo": "MemTotal:         444272 kB\nMemFree: 1 kB\n",
    "proc/loadavg": "0.25 0.10 0.05 1/90 1234\n",
    "etc/os-release": 'PRETTY_NAME="Raspbian GNU/Linux 13 (trixie)"\nID=raspbian\n',
    "sys/class/thermal/thermal_zone0/temp": "41700\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1000000\n",
    "sys/devices/platform/soc/soc:firmware/get_throttled": "50000\n",
}


def test_a_raspberry_pi_says_what_it_is(tmp_path: Path) -> None:
    machine = read_machine(_write(tmp_path, PI_ZERO))
    assert machine.model == "Raspberry Pi Zero W Rev 1.1"
    assert machine.cpu == "ARMv6-compatible processor rev 7 (v6l)"
    assert machine.memory_bytes == 444272 * 1024
    assert machine.operating_system == "Raspbian GNU/Linux 13 (trixie)"
    assert machine.board("3.5.1").openssl == "3.5.1"


def test_conditions_are_in_si_units(tmp_path: Path) -> None:
    assert read_conditions(_write(tmp_path, PI_ZERO)) == Conditions(0.25, 41.7, 1e9, 0x50000)


def test_a_machine_without_sensors_says_none_and_not_zero(tmp_path: Path) -> None:
    assert read_conditions(tmp_path) == Conditions(None, None, None, None)
    assert disturbance(read_conditions(tmp_path), read_conditions(tmp_path)).temperature_c is None
    assert read_machine(tmp_path).model.startswith("unknown ")


def test_a_computer_is_named_by_its_maker(tmp_path: Path) -> None:
    root = _write(tmp_path, {"sys/class/dmi/id/sys_vendor": "ACME\n", "sys/class/dmi/id/product_name": "Box 3\n"})
    assert read_machine(root).model == "ACME Box 3"


def test_an_arm_core_without_a_model_name_is_named_by_its_numbers(tmp_path: Path) -> None:
    root = _write(tmp_path, {"proc/cpuinfo": "CPU implementer\t: 0x41\nCPU part\t: 0xd08\n"})
    assert read_machine(root).cpu == "CPU implementer 0x41, part 0xd08"


def test_an_under_voltage_alarm_counts_where_the_firmware_file_is_missing(tmp_path: Path) -> None:
    root = _write(
        tmp_path, {"sys/class/hwmon/hwmon1/name": "rpi_volt\n", "sys/class/hwmon/hwmon1/in0_lcrit_alarm": "1\n"}
    )
    assert read_conditions(root).throttled_flags == 1


def test_throttled_means_now_or_since_the_train_began_and_not_long_ago() -> None:
    def flags(value: int | None) -> Conditions:
        return Conditions(None, None, None, value)

    assert disturbance(flags(0x50000), flags(0x50000)).throttled is False
    assert disturbance(flags(0), flags(0x40000)).throttled is True
    assert disturbance(flags(0x4), flags(0x40000)).throttled is True
    assert disturbance(flags(0), flags(None)).throttled is None


def test_whether_others_were_busy_and_the_governor_stand_beside_the_rest(tmp_path: Path) -> None:
    now = read_conditions(tmp_path)
    told = disturbance(now, now, busy=True, governor="ondemand")
    assert (told.busy, told.governor) == (True, "ondemand")
    assert (disturbance(now, now).busy, disturbance(now, now).governor) == (None, None)
