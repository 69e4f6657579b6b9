"""The OpenSSL that the settings will name is known before they are read."""

import pytest

from runner.__main__ import named


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
