"""What every service is told about the broker."""

from pathlib import Path

import pytest

from bus import BrokerSettings
from configure import load
from errors import SettingsError


def settings(*arguments: str) -> BrokerSettings:
    return load(BrokerSettings, "opjoule-test", "test", list(arguments), {})


def test_the_defaults_reach_a_broker_on_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = settings()
    assert str(found.address()) == "mqtt://127.0.0.1:1883"
    assert (found.site, found.log_level, found.state_dir) == ("lab", "info", tmp_path / "opjoule")
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings().state_dir == tmp_path / ".local" / "state" / "opjoule"


def test_the_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    found = settings("--broker-username", "lab/pi4", "--broker-password-file", str(file)).address()
    assert (found.username, found.password) == ("lab/pi4", "secret")


@pytest.mark.parametrize(
    ("content", "what"), [(None, "No such file"), (b"\n", "is empty"), (b"", "is empty"), (b"\xff\n", "not UTF-8")]
)
def test_a_password_file_that_is_of_no_use_is_named(tmp_path: Path, content: bytes | None, what: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"broker password file .*password.*{what}"):
        settings("--broker-username", "me", "--broker-password-file", str(file)).address()


def test_every_setting_is_described() -> None:
    assert all(field.description for field in BrokerSettings.model_fields.values())
