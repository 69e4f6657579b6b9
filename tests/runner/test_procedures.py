"""The procedures of the published studies, step by step."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from errors import SettingsError
from runner.job import Job
from runner.openssl import OpenSsl
from runner.operations import Bench
from runner.operations.sleeping import prepare_sleep
from runner.procedures import Procedure, Step, procedure_of, study_nulls, timing_repetitions

MakeBench = Callable[..., Bench]


def _procedure(study: int, job: Job, repetition_s: float = 0.1) -> Procedure:
    procedure = procedure_of(1 if study == 1 else 2, job, repetition_s)
    assert procedure is not None
    return procedure


def test_the_first_study_warms_up_idles_300_s_loads_30_s_and_times_100_other_repetitions() -> None:
    procedure = _procedure(1, Job("keygen", "ML-KEM-768"))
    assert procedure.steps == (
        Step("warm_up", duration_s=30.0),
        Step("idle", duration_s=300.0),
        Step("load", duration_s=30.0),
        Step("timing", repetitions=100),
    )
    assert procedure.expected_s(0.1) == pytest.approx(30 + 300 + 30 + 10)


@pytest.mark.parametrize(
    ("job", "repetition_s", "repetitions"),
    [
        (Job("sign", "SLH-DSA-SHAKE-192s"), 95.5, 10),
        (Job("sign", "SLH-DSA-SHAKE-192s"), 4.4, 100),
        (Job("keygen", "SLH-DSA-SHAKE-192s"), 10.5, 100),
        (Job("sign", "RSA-4096"), 5.0, 100),
        (Job("sign", "falcon512"), 5.0, 100),
    ],
)
def test_only_slow_signatures_of_slh_dsa_are_timed_10_times(job: Job, repetition_s: float, repetitions: int) -> None:
    assert timing_repetitions(job, repetition_s) == repetitions


def test_the_slowest_signature_of_the_first_study_takes_22_minutes() -> None:
    assert _procedure(1, Job("sign", "SLH-DSA-SHAKE-192s"), 95.5).expected_s(95.5) == pytest.approx(360 + 955)


@pytest.mark.parametrize(
    ("name", "repetitions"), [("ML-KEM-768", 10_000), ("RSA-1024", 1000), ("RSA-2048", 200), ("RSA-4096", 20)]
)
def test_the_second_study_counts_repetitions(name: str, repetitions: int) -> None:
    steps = _procedure(2, Job("keygen", name, form="private")).steps
    assert steps == (Step("idle", duration_s=15.0), Step("load", repetitions=repetitions))


def test_a_null_run_of_the_second_study_is_10000_repetitions_of_5_ms() -> None:
    (null,) = study_nulls(2)
    assert _procedure(2, null).expected_s(0.005) == pytest.approx(15 + 50)
    assert study_nulls(1) == ()


def test_a_sham_is_a_train_in_a_campaign_as_published_too() -> None:
    assert procedure_of(1, Job("sham"), 0.0) is None
    assert procedure_of(2, Job("sham"), 0.0) is None


def test_a_null_run_starts_no_process(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    bench = replace(make_bench(system_openssl), job=study_nulls(2)[0])
    work = prepare_sleep(bench)
    assert work.processes == 0
    assert work.variant == bench.job.null_variant
    assert work.begin is not None
    before_ns = time.monotonic_ns()
    assert work.begin(1.0)().error is None
    assert time.monotonic_ns() - before_ns >= 5_000_000


def test_another_null_variant_without_processes_is_refused(make_bench: MakeBench, system_openssl: OpenSsl) -> None:
    bench = replace(make_bench(system_openssl), job=Job("null", backend="none", null_variant="processes=1"))
    with pytest.raises(SettingsError, match="no null run 'processes=1' without processes"):
        prepare_sleep(bench)
