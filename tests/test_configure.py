"""Settings come from one model: flags, environment, defaults, help and errors."""

import logging
from typing import Annotated, Literal

import pytest
from pydantic import Field, field_validator

import configure
from configure import Settings, load, load_or_exit, parser_for, start_logging
from errors import SettingsError


class KettleSettings(Settings):
    """What a small service would need."""

    broker_url: str = Field(default="mqtt://127.0.0.1:1883", description="where the broker is")
    dut: str = Field(description="the board; 100 % of it")
    power_w: Annotated[float, Field(gt=0)] = Field(default=2000.0, description="watts")
    mode: Literal["boil", "warm"] = Field(default="boil", description="what to do")
    boards: tuple[str, ...] = Field(default=(), description="boards in use")
    counts: tuple[int, ...] = Field(default=(1, 2), description="how many")
    note: str | None = Field(default=None, description="free text")

    @field_validator("broker_url")
    @classmethod
    def _has_scheme(cls, url: str) -> str:
        if "://" not in url:
            raise ValueError("a URL needs a scheme")
        return url


def kettle(*arguments: str, **environment: str) -> KettleSettings:
    """Settings of the kettle."""
    return load(KettleSettings, "kettle", "Boils water.", arguments, environment)


def complaint(*arguments: str, **environment: str) -> str:
    """The one line that wrong settings give."""
    with pytest.raises(SettingsError) as caught:
        kettle(*arguments, **environment)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_flag_beats_the_environment_and_the_environment_beats_the_default() -> None:
    assert kettle("--dut", "a").power_w == 2000.0
    assert kettle("--dut", "a", OPJOULE_POWER_W="900").power_w == 900.0
    assert kettle("--dut", "a", "--power-w", "50.5", OPJOULE_POWER_W="900").power_w == 50.5


def test_a_flag_may_be_given_with_an_equals_sign() -> None:
    assert kettle("--dut=a", "--mode=warm").mode == "warm"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert kettle("--dut", "a", OPJOULE_POWER_W="").power_w == 2000.0
    assert complaint(OPJOULE_DUT="") == "--dut (OPJOULE_DUT) must be given"


def test_variables_of_others_are_left_alone() -> None:
    assert kettle("--dut", "a", POWER_W="1", OPJOULE_UNKNOWN="1", HOME="/root").power_w == 2000.0


def test_a_list_is_separated_by_commas() -> None:
    assert kettle("--dut", "a").boards == ()
    assert kettle("--dut", "a", "--boards", "pi1, pi4,").boards == ("pi1", "pi4")
    assert kettle("--dut", "a", OPJOULE_COUNTS="3,4,5").counts == (3, 4, 5)


def test_settings_cannot_be_changed_after_they_were_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        kettle("--dut", "a").dut = "b"


def test_a_missing_setting_is_named_by_flag_and_variable() -> None:
    assert complaint() == "--dut (OPJOULE_DUT) must be given"


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        (["--power-w", "hot"], {}, "--power-w (OPJOULE_POWER_W): Input should be a valid number"),
        (["--power-w", "nan"], {}, "--power-w (OPJOULE_POWER_W): Input should be"),
        (["--power-w", "-3"], {}, "--power-w (OPJOULE_POWER_W): Input should be greater than 0, not '-3'"),
        ([], {"OPJOULE_MODE": "melt"}, "--mode (OPJOULE_MODE): Input should be 'boil' or 'warm', not 'melt'"),
        (["--counts", "1,x"], {}, "--counts (OPJOULE_COUNTS): "),
        (["--broker-url", "here"], {}, "--broker-url (OPJOULE_BROKER_URL): a URL needs a scheme, not 'here'"),
    ],
)
def test_a_wrong_setting_gives_one_line_that_names_it(
    arguments: list[str], environment: dict[str, str], line: str
) -> None:
    assert complaint("--dut", "a", *arguments, **environment).startswith(line)


def test_an_unknown_flag_is_refused_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        kettle("--dut", "a", "--colour", "red")
    assert ended.value.code == 2
    assert "unrecognized arguments: --colour red" in capsys.readouterr().err


def test_the_help_lists_every_setting_with_its_variable_and_default() -> None:
    text = " ".join(parser_for(KettleSettings, "kettle", "Boils water.").format_help().split())
    assert text.startswith("usage: kettle")
    assert "Boils water." in text
    for entry in (
        "--broker-url VALUE where the broker is [OPJOULE_BROKER_URL; default: mqtt://127.0.0.1:1883]",
        "--dut VALUE the board; 100 % of it [OPJOULE_DUT; default: none, must be given]",
        "--power-w VALUE watts [OPJOULE_POWER_W; default: 2000.0]",
        "--mode boil|warm what to do [OPJOULE_MODE; default: boil]",
        "--boards A,B boards in use [OPJOULE_BOARDS; default: empty]",
        "--counts A,B how many [OPJOULE_COUNTS; default: 1,2]",
        "--note VALUE free text [OPJOULE_NOTE; default: none]",
    ):
        assert entry in text


def test_a_wrong_setting_ends_the_process_with_one_line_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kettle", "--power-w", "0"])
    monkeypatch.setattr("os.environ", {"OPJOULE_DUT": "a"})
    with pytest.raises(SystemExit) as ended:
        load_or_exit(KettleSettings, "kettle", "Boils water.")
    assert ended.value.code == 2
    assert capsys.readouterr().err == ("kettle: --power-w (OPJOULE_POWER_W): Input should be greater than 0, not '0'\n")


def test_right_settings_are_read_from_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["kettle", "--power-w", "10"])
    monkeypatch.setattr("os.environ", {"OPJOULE_DUT": "a"})
    assert load_or_exit(KettleSettings, "kettle", "Boils water.") == KettleSettings(dut="a", power_w=10.0)


def test_the_names_of_flag_and_variable_follow_from_the_field() -> None:
    assert configure.flag_of("broker_url") == "--broker-url"
    assert configure.variable_of("broker_url") == "OPJOULE_BROKER_URL"


def test_what_a_log_line_quotes_cannot_begin_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    try:
        start_logging("info")
        logging.getLogger("kettle").info("boils for %s", "tée\n2026 ERROR kettle: \a\x1b[2Jbroken")
    finally:
        root.handlers = before
        root.setLevel(level)
    assert capsys.readouterr().err.endswith("boils for tée\\n2026 ERROR kettle: \\x07\\x1b[2Jbroken\n")


def test_log_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    try:
        start_logging("info")
        logging.getLogger("kettle").info("boils at %d degrees", 100)
        logging.getLogger("kettle").debug("bubble")
    finally:
        root.handlers = before
        root.setLevel(level)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith(" INFO kettle: boils at 100 degrees\n")
    assert "bubble" not in said.err
