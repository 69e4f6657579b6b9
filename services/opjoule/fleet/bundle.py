"""What a device gets: who it is, how it enters the broker, and how it knows the broker. Pure."""

from pathlib import PurePosixPath

from configure import variable_of
from opjoule.fleet.authority import Issued
from opjoule.fleet.members import Member, Register

SETTINGS_FILE = "opjoule.env"
DEFAULT_PLACE = PurePosixPath("/etc/opjoule")


def bundle(
    member: Member, register: Register, authority: bytes, issued: Issued, password: str, place: PurePosixPath
) -> dict[str, bytes]:
    """The files of a bundle by name. `place` is the folder in which they will lie on the device."""
    return {
        "ca.pem": authority,
        "client.pem": issued.certificate,
        "client.key": issued.key,
        "password": f"{password}\n".encode(),
        SETTINGS_FILE: _settings(member, register, place).encode(),
    }


def _settings(member: Member, register: Register, place: PurePosixPath) -> str:
    """Environment variables, for systemd's EnvironmentFile, a container's env_file, or a shell."""
    host = f"[{register.hosts[0]}]" if ":" in register.hosts[0] else register.hosts[0]
    settings = {
        "broker_url": f"mqtts://{host}:{register.port}",
        "broker_username": member.username,
        "broker_password_file": str(place / "password"),
        "broker_ca_file": str(place / "ca.pem"),
        "broker_cert_file": str(place / "client.pem"),
        "broker_key_file": str(place / "client.key"),
        **_identity(member),
    }
    return "".join(f"{variable_of(name)}={value}\n" for name, value in settings.items())


def _identity(member: Member) -> dict[str, str]:
    """The settings that the account ties a service to."""
    found = {"site": member.site} if member.site else {}
    if member.role == "aggregator" and member.site:
        found["sites"] = member.site
    if member.role in ("runner", "meter", "aggregator"):
        found["instance"] = member.name
    if member.role in ("runner", "meter") and len(member.duts) == 1:
        found["dut"] = member.duts[0]
    return found
