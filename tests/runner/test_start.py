"""A runner from its settings to its last word."""

from dataclasses import dataclass, field, replace

import pytest

from errors import SettingsError
from runner import start
from runner.__main__ import named
from runner.description import device
from runner.machine import read_machine
from runner.offer import whole_offer
from runner.openssl import Found, OpenSsl
from runner.service import Service
from runner.settings import RunnerSettings
from runner.stopping import Stop, Stopped


@pytest.mark.parametrize(
    ("arguments", "environment", "program"),
    [
        (["--dut", "pi4"], {}, None),
        (["--dut", "pi4", "--openssl", "/a/openssl"], {"OPJOULE_OPENSSL": "/b"}, "/a/openssl"),
        (["--openssl=/a/openssl"], {}, "/a/openssl"),
        (["--dut", "pi4"], {"OPJOULE_OPENSSL": "/b/openssl"}, "/b/openssl"),
        (["--openssl"], {}, None),
        ([], {"OPJOULE_OPENSSL": ""}, None),
    ],
)
def test_the_flag_stands_over_the_variable(
    arguments: list[str], environment: dict[str, str], program: str | None
) -> None:
    assert named(arguments, environment) == program


@dataclass
class _Service:
    """A service that ends so, and what it said then."""

    ending: Exception | None
    said: list[str] = field(default_factory=list)
    pending = left_out = 0

    def run(self) -> bool:
        if self.ending is not None:
            raise self.ending
        return True

    def leave(self, detail: str) -> None:
        self.said.append(detail)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (None, "plan finished"),
        (Stopped(), "stopped"),
        (SettingsError("another runner is connected"), "another runner is connected"),
        (ZeroDivisionError(), "ended by an error, see its log"),
    ],
)
def test_the_last_status_says_how_the_runner_ended(
    system_openssl: OpenSsl, stop: Stop, monkeypatch: pytest.MonkeyPatch, ending: Exception | None, said: str
) -> None:
    service = _Service(ending)
    monkeypatch.setattr(Service, "of", lambda *_: service)
    settings = RunnerSettings.model_validate({"dut": "pi4"})
    try:
        status = start.serve(settings, Found(system_openssl, None), None, stop)
    except (SettingsError, ZeroDivisionError) as error:
        assert error is ending
    else:
        assert status == 0
    assert service.said == [said]


def test_a_long_path_of_the_openssl_program_is_told_whole(system_openssl: OpenSsl) -> None:
    path = f"/opt/{'x' * 200}/{'y' * 200}/openssl"
    openssl = replace(system_openssl, argv_prefix=(path,))
    description = device("lab", "pi4", read_machine(), openssl, whole_offer(system_openssl, "not asked for"))
    assert description.openssl_program == path
