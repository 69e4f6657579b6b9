"""Until it is known: what the aggregator pools decides when a job is done."""

import pytest

from bus import Received
from runner.job import Job
from runner.target import PooledBook, Target
from schemas import OperationEvent, PooledEnergy, topic
from schemas.base import Quantity
from tests.aggregator.trains import event as make_event
from tests.aggregator.trains import segments

SIGN, KEYGEN, SHAM = Job("sign", "ML-DSA-65"), Job("keygen", "ML-KEM-768"), Job("sham")


def _event(job: Job) -> OperationEvent:
    return make_event(
        segments(5), dut="pi4", operation=job.operation, parameter_set=job.parameter_set, variant="v", backend="cli"
    )


def _pooled(job: Job, value_j: float, u95_j: float, last_ns: int = 1) -> PooledEnergy:
    return PooledEnergy.model_validate(
        {
            "site": "lab",
            "dut": "pi4",
            "operation": job.operation,
            "parameter_set": job.parameter_set,
            "variant": "v",
            "backend": "cli",
            "net_j_per_op": Quantity(value=value_j, u=u95_j / 2, u95=u95_j, dof=9.0),
            "between_trains_j": 0.0,
            "trains": 10,
            "simulated": False,
            "last_ns": last_ns,
        }
    )


class Lab:
    """A target of 2 %, and the aggregator's side of it."""

    def __init__(self, most_trains: int | None = 20) -> None:
        self.book = PooledBook("lab", "pi4")
        self.target = Target(0.02, 10, most_trains, self.book, (SIGN, KEYGEN))

    def tell(self, pooled: PooledEnergy, dut: str = "pi4") -> None:
        levels = {"backend": "cli", "operation": pooled.operation, "slug": "x", "variant": "v"}
        self.book.hear(Received(topic("pooled", "lab", dut=dut, **levels), pooled.model_dump_json().encode(), True, 0))

    def measure(self, job: Job, times: int) -> None:
        for _ in range(times):
            self.target.tried(job, _event(job))


def test_a_job_is_done_with_ten_trains_and_its_target_met_and_not_before() -> None:
    lab = Lab()
    lab.measure(SIGN, 9)
    lab.tell(_pooled(SIGN, 1.0, 0.01))
    assert lab.target.wants(SIGN)
    lab.measure(SIGN, 1)
    assert not lab.target.wants(SIGN)
    assert lab.target.wants(KEYGEN)


def test_a_job_that_misses_its_target_goes_on_to_the_maximum() -> None:
    lab = Lab(most_trains=12)
    lab.tell(_pooled(SIGN, 1.0, 0.021, last_ns=1))
    lab.measure(SIGN, 11)
    lab.tell(_pooled(SIGN, 1.0, 0.021, last_ns=2))
    assert lab.target.wants(SIGN)
    lab.measure(SIGN, 1)
    assert not lab.target.wants(SIGN)


def test_sham_and_null_trains_go_on_as_long_as_an_operation_needs_them() -> None:
    lab = Lab(most_trains=None)
    null = Job("null", null_variant="processes=1")
    for job in (SIGN, KEYGEN):
        assert lab.target.wants(SHAM) and lab.target.wants(null) and not lab.target.is_done
        lab.measure(job, 10)
        lab.tell(_pooled(job, -1.0, 0.02))
    assert not lab.target.wants(SHAM) and not lab.target.wants(null) and lab.target.is_done


def test_a_figure_of_an_earlier_campaign_proves_nothing_until_it_changes() -> None:
    lab = Lab()
    lab.tell(_pooled(SIGN, 1.0, 0.001, last_ns=1))
    lab.measure(SIGN, 10)
    lab.tell(_pooled(SIGN, 1.0, 0.001, last_ns=1))
    assert lab.target.wants(SIGN) and lab.target.unanswered
    lab.tell(_pooled(SIGN, 1.0, 0.001, last_ns=2))
    assert not lab.target.wants(SIGN) and not lab.target.unanswered


def test_an_aggregator_is_asked_for_nothing_before_the_least_number_of_trains() -> None:
    lab = Lab()
    lab.measure(SIGN, 9)
    assert not lab.target.unanswered
    lab.measure(SIGN, 1)
    assert lab.target.unanswered


def test_trains_that_were_left_out_spend_the_maximum_and_prove_nothing() -> None:
    lab = Lab(most_trains=10)
    for _ in range(10):
        lab.target.tried(SIGN, None)
    assert not lab.target.wants(SIGN)
    assert "sign ML-DSA-65 (no pooled figure after 0 trains)" in lab.target.summary()


def test_the_summary_says_how_many_met_the_target_and_what_is_known_of_the_others() -> None:
    lab = Lab()
    for job, u95_j in ((SIGN, 0.01), (KEYGEN, 0.05)):
        lab.measure(job, 10)
        lab.tell(_pooled(job, 1.0, u95_j))
    assert lab.target.summary() == "1 of 2 met u95 <= 2 %; not: keygen ML-KEM-768 (5 % after 10 trains)"
    lab.tell(_pooled(KEYGEN, 1.0, 0.02, last_ns=2))
    assert lab.target.summary() == "2 of 2 met u95 <= 2 %"


def test_an_energy_of_zero_meets_no_relative_target() -> None:
    lab = Lab()
    lab.measure(SIGN, 10)
    lab.tell(_pooled(SIGN, 0.0, 0.0))
    assert lab.target.wants(SIGN)


def test_figures_of_other_boards_and_unreadable_ones_are_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    lab.measure(SIGN, 10)
    lab.tell(_pooled(SIGN, 1.0, 0.001), dut="pi5")
    lab.book.hear(Received("opjoule/v1/lab/pi4/pooled/cli/sign/ml-dsa-65/v", b"{}", True, 0))
    assert lab.target.wants(SIGN)
    assert "cannot be read" in caplog.text
