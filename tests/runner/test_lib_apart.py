"""The `lib` backend in a process of its own: for capability masks, and for what a repetition takes beside time."""

import os
import platform
import signal
import time
from itertools import chain, count, repeat
from pathlib import Path

import pytest

from errors import SettingsError
from runner.job import Job
from runner.openssl import OpenSsl
from runner.openssl.lib.child import Child
from runner.openssl.masks import mask_environment
from runner.operations import prepare_work
from runner.operations.lib import child as served
from runner.operations.lib.case import Case
from runner.operations.lib.questions import MODULE, Opening, Prepared
from runner.operations.work import Work
from runner.segments import Preset, plan_train
from runner.stopping import Stop, Stopped
from runner.train import Repetition
from schemas import CATALOGUE
from tests.openssl_programs import libraries_of
from tests.runner.conftest import MakeBench

TINY = Preset(0.02, 0.04, 0.01)
PLAN = plan_train(1, 0.6, 1e-4, TINY)
FOR_EVER = plan_train(1, 600.0, 1e-4, Preset(10.0, 20.0, 0.01))
OF_INTEL = platform.machine() == "x86_64"
MASK = "OPENSSL_ia32cap=0" if OF_INTEL else "OPENSSL_armcap=0"
CURVE = Job("sign", "ECDSA-P-256", "lib", capability_mask=MASK)


def _opened(openssl: OpenSsl, stop: Stop) -> Child:
    """A child with ECDSA-P-256 ready to sign."""
    child = Child(openssl, MODULE, {}, stop)
    case = Case(Job("sign", "ECDSA-P-256", "lib"), CATALOGUE["ECDSA-P-256"], 1, b"message")
    assert isinstance(child.ask(Opening(libraries_of(openssl).crypto, case)), Prepared)
    return child


def test_a_masked_train_runs_apart_and_its_edges_are_of_the_clock_that_both_share(
    make_bench: MakeBench, system_openssl: OpenSsl
) -> None:
    work = prepare_work(make_bench(system_openssl, job=CURVE))
    try:
        assert work.variant == f"message_bytes=19600,digest=SHA256,{MASK.removeprefix('OPENSSL_')}"
        assert (work.null_variant, work.processes) == ("calls=1", 0)
        assert work.begin is not None and work.run_train is not None
        assert work.begin(1.0)().error is None
        before_ns = time.monotonic_ns()
        record = work.run_train(PLAN, 1, 10.0)
        assert before_ns < record.edges_ns[0] < record.edges_ns[-1] < time.monotonic_ns()
        assert (record.plan, record.failed, len(record.edges_ns)) == (PLAN, 0, len(PLAN.segments) + 1)
        assert record.times.count == sum(record.verified) > 100
        assert work.check() is None
    finally:
        work.close()


@pytest.mark.skipif(not OF_INTEL, reason="the mask is that of x86")
def test_the_mask_is_in_force_so_that_hashing_without_vector_instructions_takes_longer(
    make_bench: MakeBench, system_openssl: OpenSsl
) -> None:
    least_ns = []
    for mask in ("OPENSSL_ia32cap=~0x0", MASK):
        job = Job("verify", "RSA-1024", "lib", message_bytes=1_000_000, capability_mask=mask)
        work = prepare_work(make_bench(system_openssl, job=job))
        assert work.run_train is not None
        least_ns.append(work.run_train(PLAN, 1, 10.0).times.least_ns)
        work.close()
    assert least_ns[1] > 1.1 * least_ns[0]


def test_a_mask_that_this_machine_does_not_read_or_that_is_none_is_one_clear_line(
    make_bench: MakeBench, system_openssl: OpenSsl
) -> None:
    foreign = "OPENSSL_riscvcap=0"
    with pytest.raises(SettingsError, match=rf"^OPENSSL_riscvcap has no effect on {platform.machine()}"):
        bench = make_bench(system_openssl, job=Job("sign", "Ed25519", "lib", capability_mask=foreign))
        prepare_work(bench)
    with pytest.raises(SettingsError, match=r"^'OPENSSL_ia32cap=' is no capability mask"):
        mask_environment("OPENSSL_ia32cap=")


def test_what_cannot_be_done_is_said_by_the_child_in_one_line(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    job = Job("encaps", "Ed25519", "lib", capability_mask=MASK)
    with pytest.raises(SettingsError, match=r"^libcrypto \S+: encaps Ed25519: "):
        prepare_work(make_bench(system_openssl, job=job))


def test_a_child_that_is_killed_is_one_line_and_no_hang(system_openssl: OpenSsl, stop: Stop) -> None:
    child = _opened(system_openssl, stop)
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(SettingsError, match="the process for libcrypto ended: exit -9"):
        child.ask(("check", ()))
    child.close()


def test_a_train_apart_keeps_as_many_times_as_it_can_hold_by_the_time_of_a_repetition_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []
    monkeypatch.setattr(served, "run_train", lambda plan, repeat, every, *_: kept.append(every))
    work = served.Served(Work("", None), lambda: Repetition(None, 0.0))
    hour = plan_train(1, 3600.0, 1e-4, TINY)
    for every in (1, 10**9):
        work.train(hour, every)
    assert 10**9 > kept[0] > 1 and kept[1] == 10**9


def test_a_first_call_that_others_kept_waiting_is_not_taken_for_a_slow_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu_s, wall_s, growths = count(), count(), chain([9_000_000], repeat(4096))
    monkeypatch.setattr(time, "process_time", lambda: next(cpu_s) / 100)
    monkeypatch.setattr(time, "monotonic", lambda: next(wall_s) * 10.0)
    monkeypatch.setattr(served, "growth_bytes", lambda _: next(growths))
    usage = served.Served(Work("", None), lambda: Repetition(None, 0.0)).usage()
    assert usage.peak_memory_bytes == 4096
    assert usage.cpu_time_s == pytest.approx(0.01, rel=0.2)


def test_memory_is_the_most_of_many_calls_where_the_kernel_shows_nothing_in_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    growths, cpu_s = chain([None] * 20, [151_552], repeat(None)), count()
    monkeypatch.setattr(served, "growth_bytes", lambda _: next(growths))
    monkeypatch.setattr(served, "USAGE_S", 60.0)
    monkeypatch.setattr(time, "process_time", lambda: float(next(cpu_s)))
    assert served.Served(Work("", None), lambda: Repetition(None, 0.0)).usage().peak_memory_bytes == 151_552


def test_a_child_ends_with_its_questions_even_inside_a_train(system_openssl: OpenSsl, stop: Stop) -> None:
    child = _opened(system_openssl, stop)
    child.put(("train", (FOR_EVER, 1)))
    assert child.close() == 1


def test_the_request_to_end_is_heeded_while_a_train_runs_apart(system_openssl: OpenSsl, stop: Stop) -> None:
    child = _opened(system_openssl, stop)
    stop.request()
    with pytest.raises(Stopped):
        child.ask(("train", (FOR_EVER, 1)))
    assert child.close() == -signal.SIGKILL


@pytest.mark.not_emulated
@pytest.mark.openssl35
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel keeps no high-water mark")
def test_usage_is_the_memory_of_the_operation_and_the_time_of_the_processor(
    make_bench: MakeBench, built35: OpenSsl
) -> None:
    benches = [
        make_bench(built35, job=Job("sign", "ML-DSA-87", "lib")),
        make_bench(built35, job=Job("derive", "X25519", "lib")),
    ]
    signing, deriving = (prepare_work(each).usage() for each in benches)
    assert deriving.cpu_time_s is not None
    assert signing.peak_memory_bytes is not None and signing.cpu_time_s is not None
    assert 80_000 < signing.peak_memory_bytes < 1_000_000
    assert (deriving.peak_memory_bytes or 0) < signing.peak_memory_bytes
    assert deriving.cpu_time_s > 0 and 0 < signing.cpu_time_s < 1.0
