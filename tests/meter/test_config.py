"""Which meter feeds which DUT: by a file or by flags, and what is refused."""

from pathlib import Path

import pytest

from configure import load
from errors import SettingsError
from meter.config import MeterEntry, read_meters
from meter.settings import MeterSettings

TWO = """
[[meter]]
source = "fnirsi"
serial = "0001A0000000"
dut = "pi4"
meter = "fnb"
family = "B"
keep_alive_s = 0
role = "before the cable"

[[meter]]
source = "tc66c"
serial = 1234
dut = "pi4"
meter = "tc66c"
"""


def file_of(folder: Path, text: str) -> Path:
    path = folder / "meters.toml"
    path.write_text(text)
    return path


def entry(**fields: object) -> str:
    given = {"source": "fnirsi", "dut": "pi4", "meter": "m1", **fields}
    return "[[meter]]\n" + "".join(f"{name} = {value!r}\n" for name, value in given.items() if value is not None)


def test_a_file_gives_its_meters_two_of_them_at_one_dut(tmp_path: Path) -> None:
    first, second = read_meters(file_of(tmp_path, TWO))
    assert first == MeterEntry(
        source="fnirsi",
        serial="0001A0000000",
        dut="pi4",
        meter="fnb",
        family="B",
        keep_alive_s=0.0,
        role="before the cable",
    )
    assert (second.serial, second.dut, second.meter) == ("1234", "pi4", "tc66c")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[meter]\n", "(at line 1, column 8)"),
        ("", "there is no [[meter]] in it"),
        ("meter = 3\n", "there is no [[meter]] in it"),
        ("[broker]\nurl = 'x'\n" + entry(), "'broker' is not known"),
        (entry() + entry(meter=None), "[[meter]] number 2: meter: Field required"),
        (entry(dut="Pi 4"), "[[meter]] number 1: dut: String should match"),
        (entry(dut="services"), "[[meter]] number 1: dut: 'services' is reserved"),
        (entry(source="ina219"), "[[meter]] number 1: source: Input should be 'fnirsi', 'tc66c' or 'hwmon'"),
        (entry(colour="red"), "[[meter]] number 1: colour: Extra inputs are not permitted"),
        (entry(source="tc66c", family="A"), "[[meter]] number 1: family and keep_alive_s are for FNIRSI meters only"),
        (entry(source="hwmon"), "[[meter]] number 1: a sensor of hwmon has a name as its node"),
        (entry(keep_alive_s=-1), "[[meter]] number 1: keep_alive_s: Input should be greater than or equal to 0"),
        (entry(serial="1") + entry(serial="1", dut="pi1"), "number 2: fnirsi serial '1' is that of number 1 too"),
        (entry(node="1-2") + entry(node="1-2", dut="pi1"), "number 2: fnirsi node '1-2' is that of number 1 too"),
        (entry(serial="1") + entry(serial="2"), "number 2: meter 'm1' of pi4 is that of number 1 too"),
        (entry(serial="1") + entry(dut="pi1"), "[[meter]] number 2: serial or node must say which of 2 meters it is"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line_or_the_number_of_the_meter(tmp_path: Path, text: str, what: str) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_meters(path)
    assert str(caught.value).startswith(f"meters file {path}: ")
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_meters_of_one_serial_number_are_told_apart_by_their_usb_ports(tmp_path: Path) -> None:
    text = entry(node="1-1.4") + entry(node="1-1.3", dut="pi1")
    assert [each.node for each in read_meters(file_of(tmp_path, text))] == ["1-1.4", "1-1.3"]


def test_the_example_in_the_docs_is_a_file_of_meters(tmp_path: Path, repository: Path) -> None:
    example = (repository / "docs/operate.md").read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    entries = read_meters(file_of(tmp_path, example))
    assert [each.source for each in entries] == ["fnirsi", "tc66c", "hwmon"]
    assert entries[1].role == "behind the cable"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"meters file .*none.toml: No such file"):
        read_meters(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    with pytest.raises(SettingsError, match="utf-8"):
        read_meters(tmp_path / "latin.toml")


def settings(*arguments: str) -> MeterSettings:
    return load(MeterSettings, "meter", "", arguments, {})


def test_flags_name_one_meter_whose_model_is_found_out_unless_it_is_given() -> None:
    flags = ["--source", "fnirsi", "--dut", "pi4", "--meter", "m1", "--keep-alive-s", "0.9"]
    assert settings(*flags).entries() == (MeterEntry(source="fnirsi", dut="pi4", meter="m1", keep_alive_s=0.9),)
    (given,) = settings(*flags, "--meter-model", "FNB58", "--serial", "7").entries()
    assert (given.model, given.serial) == ("FNB58", "7")


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--source", "auto"], "--source auto and --meters need each other"),
        (["--source", "fnirsi", "--dut", "a", "--meter", "b", "--meters", "f"], "--source auto and --meters need each"),
        (["--source", "auto", "--meters", "f", "--dut", "a"], "--dut, --meter, --serial and --node are for one meter"),
        (["--source", "fnirsi"], "--dut and --meter must be given"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags: list[str], what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        settings(*flags)


def test_flags_for_another_kind_of_meter_are_refused() -> None:
    flags = ["--source", "tc66c", "--dut", "pi4", "--meter", "m1", "--family", "A"]
    with pytest.raises(SettingsError, match="for FNIRSI meters only"):
        settings(*flags).entries()


def test_the_spool_keeps_an_hour_for_each_meter_unless_it_is_told_otherwise() -> None:
    flags = ["--source", "fnirsi", "--dut", "pi4", "--meter", "m1"]
    assert settings(*flags).spool_limit_bytes(1) == 360_000 * 18
    assert settings(*flags).spool_limit_bytes(8) == 8 * 360_000 * 18
    assert settings(*flags, "--spool-limit-mb", "3").spool_limit_bytes(8) == 3_000_000
    assert settings("--source", "recording", "--playlist", "f").spool_limit_bytes(3) == 256_000_000
