"""A fleet on disk: `private/` never leaves this machine, `broker/` is the broker's, `bundles/` go to the devices.

private/   ca.key ca.pem server.key server.pem fleet.json     the authority and the register: all the rest follows
broker/    ca.pem crl.pem server.key server.pem passwords acl written anew from them by every command
bundles/   one folder per account
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from errors import SettingsError
from file_lock import hold_lock
from opjoule.fleet.access import access_list
from opjoule.fleet.authority import Authority, Issued, Validity, new_authority
from opjoule.fleet.bundle import bundle
from opjoule.fleet.files import check_writable, private_folder, read_file, remove_folder, write_folder, write_private
from opjoule.fleet.members import Enrolled, Member, Register
from opjoule.fleet.passwords import new_password, password_file, password_hash

AUTHORITY_LIFE = timedelta(days=3650)
"""Certificates of devices end with the authority: it is by revocation that a device is shut out."""
SERVER_LIFE = timedelta(days=730)
CLOCK_MARGIN = timedelta(days=1)
"""So much may the clock of a device be behind that of this machine."""


class Fleet:
    """An opened fleet. Every change is in the register before the broker's files follow, so that a repeated command
    completes one that was cut short."""

    def __init__(self, folder: Path, authority: Authority, server: Issued, register: Register) -> None:
        self._folder = folder
        self._authority = authority
        self._server = server
        self.register = register

    @property
    def broker_folder(self) -> Path:
        """Where the broker's files are."""
        return self._folder / self.register.broker_folder

    def add(self, member: Member, place: PurePosixPath, now: datetime) -> Path:
        """Enrol a member; the folder of its bundle. One that is enrolled just so, with its bundle there, keeps it.

        Raises SettingsError for another one of the same name.
        """
        enrolled, folder = self.register.find(member.username), self._bundle_folder(member)
        if enrolled is None:
            self._enrol(member, folder, place, now)
        elif enrolled.member != member or not folder.is_dir():
            raise SettingsError(f"{member.username} is there already; for new credentials revoke it first")
        self.write_broker_files(now)
        return folder

    def _enrol(self, member: Member, folder: Path, place: PurePosixPath, now: datetime) -> None:
        password = new_password()
        issued = self._authority.for_client(member.username, Validity(now - CLOCK_MARGIN, self._authority.until))
        files = bundle(member, self.register, self._authority.issued.certificate, issued, password, place)
        write_folder(folder, files)
        self._keep(
            self.register.with_member(
                Enrolled(
                    member=member,
                    password_hash=password_hash(password),
                    serial=issued.serial,
                    added=now,
                    until=self._authority.until,
                )
            )
        )

    def revoke(self, username: str, now: datetime) -> bool:
        """Shut a member out; False where it was out already. Raises SettingsError for a name that never was."""
        enrolled = self.register.find(username)
        if enrolled is None and username not in {each.username for each in self.register.revoked}:
            raise SettingsError(f"no {username!r} in this fleet; `opjoule fleet list` names all")
        if enrolled is not None:
            self._keep(self.register.without(username, now))
            remove_folder(self._bundle_folder(enrolled.member))
        self.write_broker_files(now)
        return enrolled is not None

    def renew(self, hosts: tuple[str, ...], now: datetime) -> None:
        """A new certificate for the broker, for other hosts where some are given. Devices need nothing new."""
        hosts = hosts or self.register.hosts
        validity = _server_validity(now, self._authority.until)
        self._server = self._authority.for_server(hosts, validity)
        private = self._folder / "private"
        write_private(private / "server.key", self._server.key)
        write_private(private / "server.pem", self._server.certificate)
        self._keep(self.register.model_copy(update={"hosts": hosts, "server_until": validity.end}))
        self.write_broker_files(now)

    def write_broker_files(self, now: datetime) -> None:
        """All that the broker reads, from the register. It has to be told to read them (SIGHUP)."""
        enrolled, folder = self.register.enrolled, self.broker_folder
        private_folder(folder)
        revoked = [(each.serial, each.revoked) for each in self.register.revoked]
        files = {
            "ca.pem": self._authority.issued.certificate,
            "server.key": self._server.key,
            "server.pem": self._server.certificate,
            "crl.pem": self._authority.revocations(revoked, now),
            "passwords": password_file((each.member.username, each.password_hash) for each in enrolled).encode(),
            "acl": access_list(each.member for each in enrolled).encode(),
        }
        for name, content in files.items():
            write_private(folder / name, content)

    def _keep(self, register: Register) -> None:
        write_private(self._folder / "private" / "fleet.json", _encoded(register))
        self.register = register

    def _bundle_folder(self, member: Member) -> Path:
        return self._folder / "bundles" / member.folder


def create(folder: Path, hosts: tuple[str, ...], port: int, broker_folder: Path, now: datetime) -> Register:
    """Make a fleet with no members yet. Raises SettingsError where there is one already."""
    private = folder / "private"
    private_folder(folder)
    if private.exists():
        raise SettingsError(f"{folder} holds a fleet already; its authority is never replaced (move the folder away)")
    end = now + AUTHORITY_LIFE
    authority = new_authority(f"opjoule fleet {hosts[0]}", Validity(now - CLOCK_MARGIN, end))
    validity = _server_validity(now, end)
    server = authority.for_server(hosts, validity)
    register = Register(
        hosts=hosts,
        port=port,
        broker_folder=_from_fleet(folder, broker_folder),
        authority_until=authority.until,
        server_until=validity.end,
    )
    check_writable(broker_folder)
    write_folder(
        private,
        {
            "ca.key": authority.issued.key,
            "ca.pem": authority.issued.certificate,
            "server.key": server.key,
            "server.pem": server.certificate,
            "fleet.json": _encoded(register),
        },
    )
    with opened(folder) as fleet:
        fleet.write_broker_files(now)
    return register


@contextmanager
def opened(folder: Path) -> Iterator[Fleet]:
    """The fleet in a folder, for this process alone. Raises SettingsError where there is none."""
    private = folder / "private"
    if not (private / "fleet.json").is_file():
        raise SettingsError(f"{folder} holds no fleet: make one with `opjoule fleet init`")
    lock = hold_lock(private / "fleet.json", "the register")
    try:
        register = _decoded(private / "fleet.json")
        yield Fleet(folder, Authority(_pair(private, "ca")), _pair(private, "server"), register)
    finally:
        lock.close()


def _from_fleet(folder: Path, broker_folder: Path) -> Path:
    """The broker's folder as the register keeps it."""
    inside, wanted = folder.absolute(), broker_folder.absolute()
    return wanted.relative_to(inside) if wanted.is_relative_to(inside) else wanted


def _server_validity(now: datetime, authority_end: datetime) -> Validity:
    return Validity(now - CLOCK_MARGIN, min(now + SERVER_LIFE, authority_end))


def _pair(private: Path, name: str) -> Issued:
    return Issued(read_file(private / f"{name}.pem"), read_file(private / f"{name}.key"))


def _encoded(register: Register) -> bytes:
    return register.model_dump_json(indent=1).encode() + b"\n"


def _decoded(path: Path) -> Register:
    try:
        return Register.model_validate_json(read_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise SettingsError(f"{path} is no register of this opjoule: {where}: {first['msg']}") from None
