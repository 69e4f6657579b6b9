"""Operations on real OpenSSLs: what counts as done was done."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from errors import SettingsError
from runner.openssl import OpenSsl, try_published_command
from runner.openssl.commands import KeyOperation
from runner.operations import OPERATIONS, Bench, Work
from runner.stopping import Stop, Stopped
from runner.train import Repetition
from schemas import Operation

MakeBench = Callable[..., Bench]
MakeFake = Callable[[str], OpenSsl]
CLASSICAL = ["RSA-2048", "ECDSA-P-256", "ECDSA-P-384", "ECDSA-P-521", "Ed25519", "Ed448"]
POST_QUANTUM = ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "SLH-DSA-SHA2-128f", "SLH-DSA-SHAKE-192f"]
LIMIT_S = 60.0


def _once(bench: Bench, work: Work, limit_s: float = LIMIT_S) -> Repetition:
    assert work.begin is not None
    return work.begin(limit_s)()


def _holds(bench: Bench, operation: Operation, processes: int) -> Work:
    work = OPERATIONS["cli"][operation](bench)
    repetition = _once(bench, work)
    assert repetition.error is None
    assert repetition.cpu_time_s > 0
    assert work.check() is None
    assert len(work.commands) == processes
    return work


@pytest.mark.parametrize("parameter_set", [*CLASSICAL, "ECDH-P-384", "X25519", "X448"])
def test_a_classical_key_pair_has_the_standard_s_sizes_and_loads(
    make_bench: MakeBench, system_openssl: OpenSsl, parameter_set: str
) -> None:
    _holds(make_bench(system_openssl, parameter_set), "keygen", processes=2)


@pytest.mark.parametrize("parameter_set", CLASSICAL)
@pytest.mark.parametrize("operation", ["sign", "verify"])
def test_a_classical_signature_verifies_and_one_with_a_flipped_bit_does_not(
    make_bench: MakeBench, system_openssl: OpenSsl, parameter_set: str, operation: Operation
) -> None:
    work = _holds(make_bench(system_openssl, parameter_set), operation, processes=1)
    assert work.variant == "message_bytes=19600,rawin"


@pytest.mark.openssl35
@pytest.mark.parametrize("parameter_set", [*POST_QUANTUM, "ML-KEM-512", "ML-KEM-768", "ML-KEM-1024", "RSA-2048"])
def test_a_post_quantum_key_pair_has_the_standard_s_sizes_and_loads(
    make_bench: MakeBench, openssl35: OpenSsl, parameter_set: str
) -> None:
    bench = make_bench(openssl35, parameter_set)
    work = _holds(bench, "keygen", processes=2)
    assert work.output_bytes["public_key"] == bench.parameter_set.public_key_bytes


@pytest.mark.openssl35
@pytest.mark.parametrize("parameter_set", [*POST_QUANTUM, "ECDSA-P-256", "Ed25519"])
@pytest.mark.parametrize("operation", ["sign", "verify"])
def test_openssl_3_5_signs_and_verifies_post_quantum_as_published_and_classical_with_rawin(
    make_bench: MakeBench, openssl35: OpenSsl, parameter_set: str, operation: Operation
) -> None:
    bench = make_bench(openssl35, parameter_set)
    work = _holds(bench, operation, processes=1)
    assert ("-rawin" in work.commands[0]) is not bench.parameter_set.post_quantum


@pytest.mark.parametrize("processes", [1, 2])
def test_a_null_repetition_starts_as_many_processes_and_does_nothing(
    make_bench: MakeBench, system_openssl: OpenSsl, processes: int
) -> None:
    work = _holds(make_bench(system_openssl, processes=processes), "null", processes)
    assert work.variant == f"processes={processes}"


def test_a_sham_has_nothing_to_run(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    assert OPERATIONS["cli"]["sham"](make_bench(system_openssl)).commands == ()


def test_peak_memory_is_that_of_the_program_and_not_of_the_runner(
    make_bench: MakeBench, system_openssl: OpenSsl
) -> None:
    bench = make_bench(system_openssl, "RSA-2048")
    peak_bytes = bench.cli.peak_memory_bytes(("genrsa", "-out", str(bench.folder / "big.pem"), "4096"))
    assert peak_bytes is not None
    assert 2_000_000 < peak_bytes < 20_000_000


def test_every_third_failure_is_counted_and_never_done(make_bench: MakeBench, make_fake: MakeFake) -> None:
    bench = make_bench(make_fake('if [ $((count % 3)) = 2 ]; then echo "no luck" >&2; exit 4; fi'), "ECDSA-P-256")
    work = OPERATIONS["cli"]["sign"](bench)
    errors = [_once(bench, work).error for _ in range(6)]
    assert errors == [None, "pkeyutl: exit 4: no luck", None, None, "pkeyutl: exit 4: no luck", None]
    assert work.check() is None


def test_a_signature_of_the_wrong_size_is_failed(make_bench: MakeBench, make_fake: MakeFake) -> None:
    bench = make_bench(make_fake('if [ $count -gt 0 ]; then printf 12345 > "$8"; exit 0; fi'), "Ed25519")
    assert _once(bench, OPERATIONS["cli"]["sign"](bench)).error == "signature of 5 bytes"


def test_an_exit_status_of_0_without_a_signature_is_failed_though_an_older_signature_lay_there(
    make_bench: MakeBench, make_fake: MakeFake
) -> None:
    bench = make_bench(make_fake("if [ $count -gt 0 ]; then exit 0; fi"), "Ed25519")
    assert _once(bench, OPERATIONS["cli"]["sign"](bench)).error == "signature of 0 bytes"


def _running(group: int) -> list[int]:
    """Processes of a group that are not dead."""
    running = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            running.append(int(status.parent.name))
    return running


def test_a_repetition_that_hangs_is_killed_with_its_children_and_failed(
    make_bench: MakeBench, make_fake: MakeFake, tmp_path: Path
) -> None:
    bench = make_bench(make_fake(f"if [ $count -gt 0 ]; then echo $$ > {tmp_path}/pid; sleep 1000; fi"), "Ed25519")
    work = OPERATIONS["cli"]["sign"](bench)
    assert _once(bench, work, limit_s=0.5).error == "pkeyutl: killed, no end after 0.5 s"
    group = int((tmp_path / "pid").read_text())
    end_s = time.monotonic() + 5
    while _running(group) and time.monotonic() < end_s:
        os.sched_yield()
    assert _running(group) == []


def test_a_signature_that_is_right_in_size_only_fails_the_check(make_bench: MakeBench, make_fake: MakeFake) -> None:
    bench = make_bench(make_fake('if [ $count -gt 0 ]; then head -c 64 /dev/zero > "$8"; exit 0; fi'), "Ed25519")
    work = OPERATIONS["cli"]["sign"](bench)
    assert _once(bench, work).error is None
    error = work.check()
    assert error is not None
    assert error.startswith("the signature does not verify: pkeyutl: exit 1")


def test_a_program_that_cannot_do_it_is_named_with_its_own_words(make_bench: MakeBench, make_fake: MakeFake) -> None:
    bench = make_bench(make_fake("echo out of order >&2; exit 1"), "Ed448")
    with pytest.raises(SettingsError, match=r"^sign Ed448 with OpenSSL .*: pkeyutl: exit 1: out of order$"):
        OPERATIONS["cli"]["sign"](bench)


def test_a_program_that_vanishes_is_a_failed_repetition(make_bench: MakeBench, make_fake: MakeFake) -> None:
    openssl = make_fake("")
    bench = make_bench(openssl, "Ed25519")
    work = OPERATIONS["cli"]["sign"](bench)
    bench.cli.folder.parent.joinpath("openssl").unlink()
    assert _once(bench, work).error == f"{openssl.program} cannot be started: No such file or directory"


def test_a_request_to_end_kills_the_child_at_once(make_bench: MakeBench, make_fake: MakeFake, stop: Stop) -> None:
    bench = make_bench(make_fake("if [ $count -gt 0 ]; then sleep 1000; fi"), "Ed25519")
    work = OPERATIONS["cli"]["sign"](bench)
    stop.request()
    with pytest.raises(Stopped):
        _once(bench, work)


@pytest.mark.parametrize("parameter_set", ["RSA-2048", "ECDSA-P-256"])
@pytest.mark.parametrize("operation", ["sign", "verify"])
def test_the_published_classical_command_fails_and_writes_nothing(
    system_openssl: OpenSsl, parameter_set: str, operation: KeyOperation
) -> None:
    outcome = try_published_command(system_openssl, operation, parameter_set)
    assert (outcome.exit_status, outcome.output_bytes) == (1, 0)
    assert outcome.first_error_line.startswith("Error: The ")


def test_the_published_key_generation_succeeds(system_openssl: OpenSsl) -> None:
    outcome = try_published_command(system_openssl, "keygen", "X25519")
    assert (outcome.exit_status, outcome.first_error_line) == (0, "")
    assert outcome.output_bytes == 232


@pytest.mark.openssl35
@pytest.mark.parametrize(
    ("operation", "parameter_set", "status", "size"),
    [
        ("sign", "RSA-2048", 1, 0),
        ("verify", "ECDSA-P-256", 1, 0),
        ("sign", "ML-DSA-65", 0, 3309),
        ("sign", "SLH-DSA-SHA2-128f", 0, 17088),
        ("verify", "ML-DSA-65", 0, len("Signature Verified Successfully\n")),
    ],
)
def test_openssl_3_5_runs_the_published_commands_as_3_0_does(
    openssl35: OpenSsl, operation: KeyOperation, parameter_set: str, status: int, size: int
) -> None:
    outcome = try_published_command(openssl35, operation, parameter_set)
    assert (outcome.exit_status, outcome.output_bytes) == (status, size)


def test_a_published_command_that_the_openssl_lacks_is_named(make_fake: MakeFake) -> None:
    openssl = make_fake("")
    if openssl.has_pqc:
        pytest.skip("this OpenSSL lacks nothing")
    with pytest.raises(SettingsError, match=r"^this OpenSSL lacks ML-DSA-44$"):
        try_published_command(openssl, "sign", "ML-DSA-44")
