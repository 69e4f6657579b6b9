"""`opjoule fleet`: authority, certificates, passwords, access list, bundles; no secret shown, nothing left behind."""

import argparse
import base64
import hashlib
import json
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from errors import SettingsError
from opjoule.__main__ import main
from opjoule.fleet import command
from opjoule.fleet.access import access_list, rules
from opjoule.fleet.authority import Validity, new_authority
from opjoule.fleet.files import check_writable, write_folder, write_private
from opjoule.fleet.fleet import create, opened
from opjoule.fleet.members import Member, Register
from opjoule.fleet.passwords import new_password, password_hash

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Fleet = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "fleet"


@pytest.fixture
def fleet(folder: Path, capsys: pytest.CaptureFixture[str]) -> Fleet:
    """`opjoule fleet ACTION ...` on the folder: exit status, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        where = (str(folder),) if arguments[0] == "init" else ("--dir", str(folder))
        try:
            status = main(["fleet", arguments[0], *arguments[1:], *where])
        except SystemExit as left:
            status = int(left.code or 0)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.fixture
def made(fleet: Fleet) -> Fleet:
    """With an authority."""
    assert fleet("init", "--host", "hub.local", "--host", "10.0.0.2")[0] == 0
    return fleet


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def usernames(folder: Path) -> list[str]:
    return [line.partition(":")[0] for line in (folder / "broker/passwords").read_text().splitlines()]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_commands_of_the_readme_can_be_given_in_their_order(
    repository: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "deploy/mosquitto/README.md").read_text("utf-8")
    text = text.replace("/srv/opjoule/fleet", str(folder)).replace("/mosquitto/secrets", str(tmp_path / "secrets"))
    commands = [line.split()[1:] for line in text.partition("```bash\n")[2].partition("```")[0].splitlines()]
    assert {words[1] for words in commands} == {"init", "add", "revoke", "renew", "list"}
    assert [main(words) for words in commands] == [0] * len(commands)
    assert "lab/pi4: revoked" in capsys.readouterr().out


def test_init_makes_an_authority_and_what_the_broker_reads(made: Fleet, folder: Path) -> None:
    assert {path.name for path in (folder / "broker").iterdir()} == {
        "ca.pem", "server.pem", "server.key", "crl.pem", "passwords", "acl",
    }  # fmt: skip
    authority, server = certificate(folder / "broker/ca.pem"), certificate(folder / "broker/server.pem")
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.local"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.2"]
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and constraints.value.ca and constraints.value.path_length == 0
    assert not (folder / "broker/ca.key").exists(), "the broker needs no authority's key"


def test_the_authority_is_never_replaced(made: Fleet, folder: Path) -> None:
    before = everything(folder)
    status, _, said = made("init", "--host", "other")
    assert status == 2 and "holds a fleet already; its authority is never replaced" in said
    assert everything(folder) == before


def test_files_are_for_their_owner_only(made: Fleet, folder: Path) -> None:
    assert made("add", "runner", "lab", "pi4")[0] == 0
    for path in (folder, *folder.rglob("*")):
        if not path.name.endswith(".lock"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert [path.name for path in folder.rglob(".*")] == [], "nothing half-written is left"


def test_a_bundle_holds_all_that_a_device_needs(made: Fleet, folder: Path) -> None:
    status, said, _ = made("add", "runner", "lab", "pi4")
    bundle = folder / "bundles/lab.pi4"
    assert status == 0 and str(bundle) in said
    assert {path.name for path in bundle.iterdir()} == {"ca.pem", "client.pem", "client.key", "password", "opjoule.env"}
    assert (bundle / "opjoule.env").read_text().splitlines() == [
        "OPJOULE_BROKER_URL=mqtts://hub.local:8883",
        "OPJOULE_BROKER_USERNAME=lab/pi4",
        "OPJOULE_BROKER_PASSWORD_FILE=/etc/opjoule/password",
        "OPJOULE_BROKER_CA_FILE=/etc/opjoule/ca.pem",
        "OPJOULE_BROKER_CERT_FILE=/etc/opjoule/client.pem",
        "OPJOULE_BROKER_KEY_FILE=/etc/opjoule/client.key",
        "OPJOULE_SITE=lab",
        "OPJOULE_INSTANCE=pi4",
        "OPJOULE_DUT=pi4",
    ]
    client = certificate(bundle / "client.pem")
    client.verify_directly_issued_by(certificate(folder / "private/ca.pem"))
    uses = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH], "a device cannot pose as the broker"


@pytest.mark.parametrize(
    ("arguments", "username", "lines"),
    [
        ("meter lab hub --duts pi4,pi3", "lab/meter/hub", ["OPJOULE_SITE=lab", "OPJOULE_INSTANCE=hub"]),
        (
            "meter lab hub --duts pi4",
            "lab/meter/hub",
            ["OPJOULE_SITE=lab", "OPJOULE_INSTANCE=hub", "OPJOULE_DUT=pi4"],
        ),
        ("aggregator main", "aggregator.main", ["OPJOULE_INSTANCE=main"]),
        (
            "aggregator two --site lab",
            "aggregator.two",
            ["OPJOULE_SITE=lab", "OPJOULE_SITES=lab", "OPJOULE_INSTANCE=two"],
        ),
        ("reader grafana", "reader.grafana", []),
        ("operator ann --site lab", "operator.ann", ["OPJOULE_SITE=lab"]),
    ],
)
def test_every_role_gets_the_settings_that_its_account_ties_it_to(
    made: Fleet, folder: Path, arguments: str, username: str, lines: list[str]
) -> None:
    assert made("add", *arguments.split(), "--at", "/run/secrets")[0] == 0
    text = (folder / "bundles" / username.replace("/", ".") / "opjoule.env").read_text().splitlines()
    assert text[1] == f"OPJOULE_BROKER_USERNAME={username}"
    assert all("=/run/secrets/" in line for line in text[2:6])
    assert text[6:] == lines
    assert usernames(folder) == [username]


def test_a_password_is_kept_nowhere_but_in_its_bundle(made: Fleet, folder: Path) -> None:
    _, said, _ = made("add", "runner", "lab", "pi4")
    password = (folder / "bundles/lab.pi4/password").read_text().strip()
    assert len(password) == 43 and new_password() != password
    assert password not in said
    holders = [name for name, content in everything(folder).items() if password.encode() in content]
    assert holders == ["bundles/lab.pi4/password"]


def test_a_hash_is_the_one_that_mosquitto_computes() -> None:
    _, kind, iterations, salt, derived = password_hash("secret", b"twelve bytes").split("$")
    assert (kind, base64.b64decode(salt)) == ("7", b"twelve bytes")
    expected = hashlib.pbkdf2_hmac("sha512", b"secret", b"twelve bytes", int(iterations))
    assert base64.b64decode(derived) == expected and len(expected) == 64
    assert password_hash("secret") != password_hash("secret")


def test_a_second_account_of_one_name_is_refused_and_the_first_stays_good(made: Fleet, folder: Path) -> None:
    made("add", "meter", "lab", "hub", "--duts", "pi4")
    before = everything(folder)
    status, _, said = made("add", "meter", "lab", "hub", "--duts", "pi4,pi3")
    assert status == 2 and "lab/meter/hub is there already; for new credentials revoke it first" in said
    assert everything(folder) == before


def test_an_account_that_is_added_again_as_it_is_keeps_its_bundle(made: Fleet, folder: Path) -> None:
    made("add", "runner", "lab", "pi4")
    before = everything(folder)
    status, said, _ = made("add", "runner", "lab", "pi4")
    assert status == 0 and "lab/pi4 is there already, its bundle as it was in" in said
    changed = {name for name, content in everything(folder).items() if before[name] != content}
    assert changed <= {"broker/crl.pem", "private/fleet.json.lock"}
    (folder / "bundles/lab.pi4").rename(folder / "lost")
    assert made("add", "runner", "lab", "pi4")[0] == 2, "a password that is lost cannot be given again"


def test_an_account_whose_broker_files_could_not_be_written_is_completed_when_it_is_added_again(
    made: Fleet, folder: Path
) -> None:
    kept = (folder / "broker").rename(folder / "kept")
    (folder / "broker").touch()
    assert made("add", "runner", "lab", "pi4")[0] == 2
    (folder / "broker").unlink()
    kept.rename(folder / "broker")
    assert made("add", "runner", "lab", "pi4")[0] == 0
    assert usernames(folder) == ["lab/pi4"] and "user lab/pi4" in (folder / "broker/acl").read_text()


def test_a_fleet_whose_brokers_folder_cannot_be_made_is_not_made_either(
    fleet: Fleet, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    status, _, said = fleet("init", "--host", "hub", "--broker-dir", str(tmp_path / "file/broker"))
    assert status == 2 and "cannot make the folder" in said and said.count("\n") == 1
    assert not (folder / "private").exists()
    assert fleet("init", "--host", "hub")[0] == 0


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    with pytest.raises(SettingsError, match=r"cannot write into the folder .*: Read-only file system"):
        check_writable(tmp_path)


def test_a_fleet_that_was_copied_writes_into_its_own_folder(made: Fleet, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = everything(folder)
    assert main(["fleet", "add", "runner", "lab", "pi4", "--dir", str(copy)]) == 0
    assert usernames(copy) == ["lab/pi4"] and everything(folder) == before


@pytest.mark.parametrize("content", ["", "junk", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
@pytest.mark.parametrize("name", ["ca.key", "ca.pem"])
def test_a_damaged_authority_is_one_line(made: Fleet, folder: Path, name: str, content: str) -> None:
    (folder / "private" / name).write_text(content)
    status, _, said = made("list")
    assert status == 2 and f"private/{name}, is not one that opjoule made" in said and said.count("\n") == 1


def test_revoking_takes_password_access_and_certificate_and_may_be_repeated(made: Fleet, folder: Path) -> None:
    made("add", "runner", "lab", "pi4")
    made("add", "runner", "lab", "pi3")
    serial = certificate(folder / "bundles/lab.pi4/client.pem").serial_number
    assert made("revoke", "lab/pi4")[:2] == (0, _revoked_lines(folder, "revoked"))
    assert usernames(folder) == ["lab/pi3"] and "lab/pi4" not in (folder / "broker/acl").read_text()
    assert not (folder / "bundles/lab.pi4").exists()
    revoked = x509.load_pem_x509_crl((folder / "broker/crl.pem").read_bytes())
    assert [each.serial_number for each in revoked] == [serial]
    key = certificate(folder / "private/ca.pem").public_key()
    assert revoked.is_signature_valid(key)  # type: ignore[arg-type]
    assert made("revoke", "lab/pi4")[:2] == (0, _revoked_lines(folder, "was revoked before"))
    assert len(x509.load_pem_x509_crl((folder / "broker/crl.pem").read_bytes())) == 1


def _revoked_lines(folder: Path, what: str) -> str:
    return f"lab/pi4: {what}\nthe broker's files in {folder}/broker are new: tell the broker to read them (SIGHUP)\n"


def test_a_revoked_name_can_be_given_again_and_the_old_certificate_stays_dead(made: Fleet, folder: Path) -> None:
    made("add", "runner", "lab", "pi4")
    old = certificate(folder / "bundles/lab.pi4/client.pem").serial_number
    made("revoke", "lab/pi4")
    assert made("add", "runner", "lab", "pi4")[0] == 0
    new = certificate(folder / "bundles/lab.pi4/client.pem").serial_number
    serials = {each.serial_number for each in x509.load_pem_x509_crl((folder / "broker/crl.pem").read_bytes())}
    assert old in serials and new not in serials and usernames(folder) == ["lab/pi4"]


def test_a_list_of_revoked_certificates_is_good_as_long_as_the_authority(made: Fleet, folder: Path) -> None:
    revoked = x509.load_pem_x509_crl((folder / "broker/crl.pem").read_bytes())
    assert revoked.next_update_utc == certificate(folder / "private/ca.pem").not_valid_after_utc


def test_renewing_gives_the_broker_a_new_certificate_and_devices_need_none(made: Fleet, folder: Path) -> None:
    made("add", "runner", "lab", "pi4")
    before = everything(folder)
    assert made("renew", "--host", "hub.example")[0] == 0
    after = everything(folder)
    changed = {name for name in after if after[name] != before[name]} - {"private/fleet.json.lock", "broker/crl.pem"}
    assert changed == {"private/server.pem", "private/server.key", "private/fleet.json", "broker/server.pem",
                       "broker/server.key"}  # fmt: skip
    names = certificate(folder / "broker/server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["hub.example"]


def test_the_list_names_accounts_and_says_when_certificates_end(made: Fleet, folder: Path) -> None:
    made("add", "meter", "lab", "hub", "--duts", "pi4,pi3")
    made("add", "reader", "grafana")
    made("revoke", "reader.grafana")
    status, said, _ = made("list")
    until = f"{certificate(folder / 'private/ca.pem').not_valid_after_utc:%Y-%m-%d}"
    lines = said.splitlines()
    assert status == 0 and lines[0] == f"authority: good until {until}"
    assert lines[1].startswith("broker: hub.local:8883, certificate good until ")
    assert lines[2].startswith("lab/meter/hub: meter of pi4, pi3, added ") and lines[2].endswith(f"good until {until}")
    assert lines[3].startswith("reader.grafana: revoked ")


@pytest.mark.parametrize(
    ("passed", "status", "said"),
    [(timedelta(days=720), 0, "(soon: opjoule fleet renew)"), (timedelta(days=731), 1, "certificate EXPIRED 20")],
)
def test_the_list_warns_before_the_end_and_fails_after_it(
    folder: Path, capsys: pytest.CaptureFixture[str], passed: timedelta, status: int, said: str
) -> None:
    create(folder, ("hub",), 8883, folder / "broker", NOW)
    arguments = argparse.Namespace(action="list", dir=folder)
    assert command._list(arguments, NOW + passed) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("add runner lab services", "'services' is reserved"),
        ("add runner Lab pi4", "site: "),
        ("add runner reader ann", "site: 'reader' is the name of a role and cannot name a site"),
        ("add meter operator hub --duts pi4", "site: 'operator' is the name of a role"),
        ("add runner aggregator main", "site: 'aggregator' is the name of a role"),
        ("add reader ann --site meter", "site: 'meter' is the name of a role"),
        ("add runner lab pi/4", "name: "),
        ("add meter lab hub --duts ,", "serves at least one DUT"),
        ("add meter lab hub --duts pi4,a+b", "duts: "),
        ("add reader a#b", "name: "),
        ("revoke nobody", "no 'nobody' in this fleet; `opjoule fleet list` names all"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(made: Fleet, folder: Path, arguments: str, said: str) -> None:
    before = everything(folder)
    status, out, errors = made(*arguments.split())
    assert status == 2 and said in errors and errors.count("\n") == 1 and out == ""
    assert {name: content for name, content in everything(folder).items() if not name.endswith(".lock")} == {
        name: content for name, content in before.items() if not name.endswith(".lock")
    }


@pytest.mark.parametrize("hosts", [["", "hub"], ["a" * 80], ["hub\nX=1"], ["*.lan"], ["mqtts://hub"], ["hub:8883"]])
def test_a_host_that_is_none_is_named_before_anything_is_made(fleet: Fleet, folder: Path, hosts: list[str]) -> None:
    status, _, said = fleet("init", *[part for host in hosts for part in ("--host", host)])
    assert status == 2 and "is no name or address of a host" in said
    assert not (folder / "private").exists()


def test_without_a_fleet_every_command_says_how_to_make_one(fleet: Fleet) -> None:
    for arguments in (("list",), ("revoke", "x"), ("renew",), ("add", "reader", "x")):
        status, _, said = fleet(*arguments)
        assert status == 2 and "holds no fleet: make one with `opjoule fleet init`" in said


def test_a_clock_that_was_never_set_makes_no_certificates(
    fleet: Fleet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock1970(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(1970, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(command, "datetime", Clock1970)
    status, _, said = fleet("init", "--host", "hub")
    assert status == 2 and "this machine's clock says 1970-01-01: set it first" in said
    assert not folder.exists()


def test_a_register_that_is_none_is_named(made: Fleet, folder: Path) -> None:
    file = folder / "private/fleet.json"
    for content in ("", "{}", json.dumps(json.loads(file.read_text()) | {"version": 2})):
        file.write_text(content)
        status, _, said = made("list")
        assert status == 2 and "is no register of this opjoule" in said and said.count("\n") == 1


def test_the_brokers_files_go_where_they_were_wanted(fleet: Fleet, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mosquitto"
    fleet("init", "--host", "hub", "--broker-dir", str(elsewhere))
    fleet("add", "runner", "lab", "pi4")
    assert (elsewhere / "passwords").read_text().startswith("lab/pi4:$7$")
    assert not (folder / "broker").exists()


def test_a_command_that_was_cut_short_is_completed_by_the_next(made: Fleet, folder: Path) -> None:
    made("add", "runner", "lab", "pi4")
    stale = {path: path.read_bytes() for path in (folder / "broker").iterdir()}
    made("revoke", "lab/pi4")
    for path, content in stale.items():  # as if the power had gone after the register was written
        path.write_bytes(content)
    made("revoke", "lab/pi4")
    assert usernames(folder) == []


def test_a_register_in_use_is_waited_for_by_nobody(made: Fleet, folder: Path) -> None:
    with opened(folder):
        status, _, said = made("list")
    assert status == 2 and "is in use by process" in said


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "passwords"
    write_private(file, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SettingsError, match=r"cannot write .*passwords: No space left on device"):
        write_private(file, b"new")
    with pytest.raises(SettingsError, match="No space left"):
        write_folder(tmp_path / "bundle", {"a": b"1"})
    assert everything(tmp_path) == {"passwords": b"old"} and not (tmp_path / "bundle").exists()


# --- pure parts --------------------------------------------------------------------------------------------------


def test_no_two_roles_can_share_a_user_name() -> None:
    members = [
        Member(role="runner", site="a", name="b", duts=("b",)),
        Member(role="meter", site="a", name="b", duts=("c",)),
        Member(role="aggregator", name="b"),
        Member(role="reader", name="b"),
        Member(role="operator", name="b"),
    ]
    assert len({member.username for member in members}) == len({member.folder for member in members}) == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "runner", "name": "pi4", "site": "lab", "duts": ("pi3",)},
        {"role": "runner", "name": "pi4", "duts": ("pi4",)},
        {"role": "meter", "name": "hub", "site": "lab"},
        {"role": "reader", "name": "a:b"},
        {"role": "king", "name": "a"},
    ],
)
def test_a_member_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Member.model_validate(wrong)


def test_every_member_has_a_block_and_nothing_is_for_all() -> None:
    runner = Member(role="runner", site="lab", name="pi4", duts=("pi4",))
    text = access_list([runner, Member(role="reader", name="grafana")])
    assert text.count("\nuser ") == 2 and "pattern" not in text
    head = text.partition("\nuser ")[0]
    assert "topic" not in head, "a topic in front of the first block would be for anonymous clients"
    assert ("write", "opjoule/v1/lab/pi4/operations") in rules(runner)
    assert not any(
        "#" in topic or "+" in topic.split("results/latest")[0].split("pooled")[0] for _, topic in rules(runner)
    )


def test_a_runner_is_found_again_in_the_register_that_was_written(folder: Path) -> None:
    create(folder, ("hub",), 8883, folder / "broker", NOW)
    with opened(folder) as fleet:
        fleet.add(Member(role="runner", site="lab", name="pi4", duts=("pi4",)), PurePosixPath("/x"), NOW)
        written = fleet.register
    assert Register.model_validate_json((folder / "private/fleet.json").read_bytes()) == written
    assert written.find("lab/pi4") is not None and written.find("lab/pi3") is None


def test_long_names_have_certificates_too() -> None:
    authority = new_authority("x" * 100, Validity(NOW, NOW + timedelta(days=1)))
    issued = authority.for_client(f"{'s' * 63}/{'d' * 63}", Validity(NOW, authority.until))
    assert x509.load_pem_x509_certificate(issued.certificate).serial_number == issued.serial
