"""Where both ends have OpenSSL 3.5 the key exchange is hybrid: Debian 13's own mosquitto and openssl show it."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl.debian13 import PACKAGES, fetch_packages
from runner.openssl.locate import cache_folder
from tests.deploy.fleets import HOST, MEMBERS, Device, Mosquitto, make_fleet, running

pytestmark = [pytest.mark.openssl35, pytest.mark.mosquitto]

BROKER_PACKAGES = (
    "mosquitto", "libmosquitto1", "libwebsockets19t64", "libcjson1", "libdlt2", "libsystemd0", "libuv1t64", "libev4t64",
    "libcap2",
)  # fmt: skip
"""What Debian 13's mosquitto needs beside what its openssl needs."""


@dataclass(frozen=True)
class Debian13:
    """Packages of Debian 13 in a folder, whose programs run by the loader that came with them."""

    root: Path

    def command(self, program: str) -> tuple[str, ...]:
        """What starts a program, without arguments."""
        loader = sorted(self.root.glob("usr/lib/*/ld-linux*.so.*"))[0]
        return (str(loader), "--library-path", str(loader.parent), str(self.root / program))


@pytest.fixture(scope="module")
def debian13() -> Debian13:
    folder = cache_folder().with_name("mosquitto-of-debian-13")
    if not folder.is_dir():
        try:
            fetch_packages((*PACKAGES, *BROKER_PACKAGES), folder, limit_s=100.0)
        except SettingsError as error:
            pytest.skip(f"Debian 13's packages cannot be had here: {error}")
    return Debian13(folder)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fleet(tmp_path_factory.mktemp("hybrid") / "fleet", MEMBERS[:2])


@pytest.fixture(scope="module")
def broker(debian13: Debian13, fleet: Path, repository: Path) -> Iterator[Mosquitto]:
    conf = repository / "deploy/mosquitto/mosquitto.conf"
    with running(fleet.parent / "data", conf, fleet / "broker", debian13.command("usr/sbin/mosquitto")) as broker:
        yield broker


def shake_hands(debian13: Debian13, fleet: Path, broker: Mosquitto, *options: str) -> str:
    """What `openssl s_client` says of a handshake."""
    bundle = fleet / "bundles/lab.pi4"
    command = [
        *debian13.command("usr/bin/openssl"), "s_client", "-connect", f"{HOST}:{broker.port}", "-CAfile",
        str(bundle / "ca.pem"), "-cert", str(bundle / "client.pem"), "-key", str(bundle / "client.key"),
        "-verify_return_error", *options,
    ]  # fmt: skip
    answer = subprocess.run(command, input="", capture_output=True, text=True, timeout=20, check=False)
    return answer.stdout + answer.stderr


def test_broker_and_client_of_debian_13_agree_on_the_hybrid_group_by_themselves(
    debian13: Debian13, fleet: Path, broker: Mosquitto
) -> None:
    said = shake_hands(debian13, fleet, broker)
    assert "Verify return code: 0 (ok)" in said
    assert "Negotiated TLS1.3 group: X25519MLKEM768" in said
    classical = shake_hands(debian13, fleet, broker, "-groups", "X25519")
    assert "X25519MLKEM768" not in classical and "Verify return code: 0 (ok)" in classical


def test_the_broker_of_debian_13_takes_the_same_configuration_passwords_and_access_list(
    fleet: Path, broker: Mosquitto
) -> None:
    said = broker.log_file.read_text()
    assert "mosquitto version 2.0." in said and "Error" not in said
    device, neighbour = Device(fleet, "lab/pi4", broker.port).connect(), Device(fleet, "lab/pi3", broker.port).connect()
    assert device.publish("opjoule/v1/lab/pi4/operations") in ("Success", "No matching subscribers")
    for _ in range(3):
        assert device.publish("opjoule/v1/lab/pi3/operations") == "Not authorized"
    neighbour.subscribe("#")
    assert device.is_in() and neighbour.heard == []
    with pytest.raises(AssertionError, match="Not authorized"):
        Device(fleet, "lab/pi4", broker.port, password="wrong").connect()
    device.leave()
    neighbour.leave()
