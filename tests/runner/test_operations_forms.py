"""Forms of the same operation: both studies' key generations, published commands, null trains, masks, messages."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from errors import SettingsError
from runner.job import Form, Job
from runner.nulls import null_variant_of
from runner.openssl import OpenSsl, OpenSslCli
from runner.operations import Bench, Work, prepare_work
from runner.stopping import Stop
from runner.train import Repetition
from schemas import Operation

MakeBench = Callable[..., Bench]
Wrap = Callable[[OpenSsl, str, str], OpenSsl]
LIMIT_S = 60.0


def _once(work: Work) -> Repetition:
    assert work.begin is not None
    return work.begin(LIMIT_S)()


@pytest.mark.parametrize(
    ("form", "programs", "null"),
    [("", 2, "processes=2,reads=key"), ("pair", 2, "processes=2,reads=key"), ("private", 1, "processes=1")],
)
@pytest.mark.parametrize("name", ["RSA-1024", "ECDSA-P-224", "ECDSA-secp160r1", "X25519"])
def test_a_key_is_generated_as_in_either_study(
    make_bench: MakeBench, system_openssl: OpenSsl, form: Form, programs: int, null: str, name: str
) -> None:
    work = prepare_work(make_bench(system_openssl, job=Job("keygen", name, form=form)))
    assert _once(work).error is None
    assert work.check() is None
    assert (work.variant, work.processes, work.null_variant) == (form or "pair", programs, null)
    assert ("public_key" in work.output_bytes) is (programs == 2)
    assert form != "private" or work.commands[0][:2] == ("genpkey", "-algorithm")


def test_keys_of_another_size_are_found_out_after_the_train(
    make_bench: MakeBench, system_openssl: OpenSsl, wrap: Wrap
) -> None:
    fake = wrap(system_openssl, "genpkey", 'real genpkey -algorithm X25519 -out "$last"; exit')
    work = prepare_work(make_bench(fake, job=Job("keygen", "X448")))
    assert _once(work).error is None
    assert work.check() == "priv.pem holds no key of 56 bytes"


@pytest.mark.parametrize("form", ["pair", "private"])
def test_a_public_key_that_does_not_load_is_found_out_after_the_train(
    make_bench: MakeBench, system_openssl: OpenSsl, wrap: Wrap, form: Form
) -> None:
    fake = wrap(
        system_openssl, "pkey -in", 'real "$@"; sed -i s/MCowBQYDK2Vu/MCowBQYDK2Vz/ "$last" 2>/dev/null; exit 0'
    )
    work = prepare_work(make_bench(fake, job=Job("keygen", "X25519", form=form)))
    assert _once(work).error is None
    assert (work.check() or "").startswith("pkey: exit 1: ")


@pytest.mark.parametrize("operation", ["sign", "verify"])
@pytest.mark.parametrize("name", ["RSA-2048", "ECDSA-P-256"])
def test_the_published_classical_commands_are_measured_and_every_repetition_fails_in_their_own_words(
    make_bench: MakeBench, system_openssl: OpenSsl, operation: Operation, name: str
) -> None:
    work = prepare_work(make_bench(system_openssl, job=Job(operation, name, form="as-published")))
    for _ in range(2):
        assert (_once(work).error or "").startswith("pkeyutl: exit 1: Error: The ")
    assert work.check() is None
    assert work.variant == "as-published,message_bytes=19600"
    assert work.null_variant == "processes=1,reads=key+message,message_bytes=19600"
    assert "-rawin" not in work.commands[0]


@pytest.mark.openssl35
@pytest.mark.parametrize("operation", ["sign", "verify"])
def test_the_published_post_quantum_commands_succeed_and_are_verified(
    make_bench: MakeBench, openssl35: OpenSsl, operation: Operation
) -> None:
    work = prepare_work(make_bench(openssl35, job=Job(operation, "ML-DSA-44", form="as-published")))
    assert _once(work).error is None
    assert work.check() is None


@pytest.mark.openssl35
def test_a_published_command_that_succeeds_with_a_wrong_signature_fails_the_check(
    make_bench: MakeBench, openssl35: OpenSsl, wrap: Wrap
) -> None:
    fake = wrap(openssl35, "pkeyutl -sign", 'head -c 2420 /dev/zero > "$last"; exit 0')
    work = prepare_work(make_bench(fake, job=Job("sign", "ML-DSA-44", form="as-published")))
    assert _once(work).error is None
    assert (work.check() or "").startswith("the signature does not verify: ")


NULLS = {
    "processes=1": (("version",),),
    "processes=2": (("version",), ("version",)),
    "processes=1,reads=key": (("enc", "-none", "-in", "priv.pem"),),
    "processes=2,reads=key": (("version",), ("enc", "-none", "-in", "priv.pem")),
    "processes=1,reads=key+message,message_bytes=700": (("enc", "-none", "-kfile", "priv.pem", "-in", "message"),),
}


@pytest.mark.parametrize("variant", NULLS)
def test_a_null_repetition_starts_the_processes_and_reads_the_files_that_its_variant_names(
    make_bench: MakeBench, system_openssl: OpenSsl, variant: str
) -> None:
    bench = make_bench(system_openssl, job=Job("null", null_variant=variant))
    work = prepare_work(bench)
    assert _once(work).error is None
    assert work.variant == variant
    assert work.null_variant == ""
    bare = tuple(tuple(part.replace(f"{bench.folder}/", "") for part in command) for command in work.commands)
    assert bare == NULLS[variant]


@pytest.mark.parametrize("program", ["system_openssl", "openssl35"])
def test_a_null_command_hands_on_the_message_unchanged_so_it_reads_all_and_computes_nothing(
    make_bench: MakeBench, request: pytest.FixtureRequest, program: str
) -> None:
    openssl: OpenSsl = request.getfixturevalue(program)
    variant = "processes=1,reads=key+message,message_bytes=19600"
    bench = make_bench(openssl, job=Job("null", null_variant=variant))
    work = prepare_work(bench)
    message, printed = bytes(range(256)) * 76 + bytes(144), bench.folder / "printed"
    (bench.folder / "message").write_bytes(message)
    assert bench.cli.run_into(work.commands[0], printed, LIMIT_S).error is None
    assert printed.read_bytes() == message


def test_a_null_command_whose_key_file_is_missing_fails(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    bench = make_bench(system_openssl, job=Job("null", null_variant="processes=1,reads=key"))
    work = prepare_work(bench)
    (bench.folder / "priv.pem").unlink()
    assert (_once(work).error or "").startswith("enc: exit 1: ")


@pytest.mark.parametrize(
    "variant", ["", "processes=0", "processes=2,reads=all", "calls=1", "processes=1,reads=key+message"]
)
def test_a_null_variant_that_is_none_is_refused(make_bench: MakeBench, system_openssl: OpenSsl, variant: str) -> None:
    with pytest.raises(SettingsError, match=f"no null train {re.escape(repr(variant))}"):
        prepare_work(make_bench(system_openssl, job=Job("null", null_variant=variant)))


@pytest.mark.parametrize(
    "job",
    [
        Job("keygen", "X25519", form="private"),
        Job("keygen", "X25519", form="pair"),
        Job("sign", "Ed25519", message_bytes=700),
        Job("derive", "X25519"),
        Job("decrypt", "RSA-1024"),
    ],
    ids=str,
)
def test_an_operation_names_a_null_train_that_can_be_prepared(
    make_bench: MakeBench, system_openssl: OpenSsl, job: Job
) -> None:
    work = prepare_work(make_bench(system_openssl, job=job))
    null = prepare_work(make_bench(system_openssl, job=Job("null", null_variant=work.null_variant)))
    assert null.variant == work.null_variant == null_variant_of(job)
    assert null.processes == work.processes


@pytest.mark.parametrize(
    ("mask", "in_variant"),
    [("OPENSSL_armcap=0", "armcap=0"), ("OPENSSL_ia32cap=~0x200000200000000", "ia32cap=~0x200000200000000")],
)
def test_a_capability_mask_reaches_the_processes_and_the_variant(
    make_bench: MakeBench, system_openssl: OpenSsl, wrap: Wrap, tmp_path: Path, mask: str, in_variant: str
) -> None:
    fake = wrap(system_openssl, "pkeyutl -derive", f"env > {tmp_path}/seen")
    work = prepare_work(make_bench(fake, job=Job("derive", "X25519", capability_mask=mask)))
    assert _once(work).error is None
    assert mask in (tmp_path / "seen").read_text().splitlines()
    assert work.variant == in_variant


def test_without_a_mask_no_process_sees_one(
    make_bench: MakeBench, system_openssl: OpenSsl, wrap: Wrap, tmp_path: Path
) -> None:
    fake = wrap(system_openssl, "pkeyutl -derive", f"env > {tmp_path}/seen")
    assert _once(prepare_work(make_bench(fake, job=Job("derive", "X25519")))).error is None
    assert "OPENSSL_armcap" not in (tmp_path / "seen").read_text()


@pytest.mark.parametrize("mask", ["OPENSSL_armcap", "OPENSSL_armcap=", "LD_PRELOAD=x", "OPENSSL_armcap=0 x", "=1"])
def test_what_is_no_capability_mask_is_refused_in_one_line(
    tmp_path: Path, system_openssl: OpenSsl, stop: Stop, mask: str
) -> None:
    with pytest.raises(SettingsError, match=f"^{re.escape(repr(mask))} is no capability mask: write "):
        OpenSslCli(system_openssl, tmp_path, stop, mask)


def test_a_message_file_is_what_is_signed(make_bench: MakeBench, system_openssl: OpenSsl, tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(b"pay 5")
    job = Job("sign", "Ed25519", message_bytes=5)
    bench = make_bench(system_openssl, job=job, message_file=tmp_path / "note")
    work = prepare_work(bench)
    assert _once(work).error is None
    assert work.variant == "message_bytes=5,rawin"
    assert (bench.folder / "message").read_bytes() == b"pay 5"


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read: No such file or directory"), (b"pay 50", "has 6 bytes, not 5")]
)
def test_a_message_file_that_is_missing_or_has_changed_is_said_in_one_line(
    make_bench: MakeBench, system_openssl: OpenSsl, tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "note").write_bytes(content)
    job = Job("sign", "Ed25519", message_bytes=5)
    with pytest.raises(SettingsError, match=f"^the message file {tmp_path}/note {said}$"):
        prepare_work(make_bench(system_openssl, job=job, message_file=tmp_path / "note"))
