"""Exchanges in the journal: read back by the time of a train, up to a row that is fixed once."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from aggregator.journal import Journal
from aggregator.journal_exchanges import AFTER, BEFORE_NS, Heard
from schemas.status import Service
from tests.aggregator.exchanges import Pair
from tests.aggregator.trains import SECOND, T0

PAIR = Pair(T0)
EVENT = UUID(int=7)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


def _put(journal: Journal, *at_s: float, service: Service = "runner", arrived_ns: int = T0) -> None:
    heard = [Heard("boot", "lab", service, "t1", each) for each in PAIR.exchanges(at_s)]
    journal.commit([], arrived_ns, heard)


def test_what_lies_around_a_train_is_read_back_in_order_of_time(journal: Journal) -> None:
    _put(journal, *range(100, 130), 0, 50)
    (clock,) = journal.exchanges.clocks("lab", "runner", "t1").values()
    start_ns, end_ns = PAIR.publisher_ns(40 * SECOND), PAIR.publisher_ns(100 * SECOND - 1)
    around = journal.exchanges.around(clock, start_ns, end_ns, None)
    assert [each.t1_ns // SECOND for each in around.before] == [0, 50]
    assert [each.t1_ns // SECOND for each in around.after] == [100 + i for i in range(AFTER)]
    asked = journal.exchanges.around(clock, 40 * SECOND, 100 * SECOND - 1, None, asked=True)
    assert asked == around
    later = journal.exchanges.around(clock, start_ns + BEFORE_NS, end_ns + BEFORE_NS, None)
    assert [each.t1_ns // SECOND for each in later.before][:2] == [50, 100]


def test_the_services_of_a_timeline_and_its_askers_are_kept_apart(journal: Journal) -> None:
    _put(journal, 1)
    assert journal.exchanges.clocks("lab", "meter", "t1") == {}
    assert journal.exchanges.clocks("elsewhere", "runner", "t1") == {}
    journal.commit([], T0, [Heard("other", "lab", "runner", "t1", PAIR.exchanges([2])[0])])
    assert sorted(journal.exchanges.clocks("lab", "runner", "t1")) == ["boot", "other"]


def test_what_comes_after_a_train_was_computed_first_is_not_used_for_it(journal: Journal) -> None:
    _put(journal, 1, 2)
    last = journal.exchanges.fixed(EVENT)
    _put(journal, 3)
    assert journal.exchanges.fixed(EVENT) == last
    (clock,) = journal.exchanges.clocks("lab", "runner", "t1").values()
    assert len(journal.exchanges.around(clock, T0, T0 + 10 * SECOND, last).before) == 2
    assert len(journal.exchanges.around(clock, T0, T0 + 10 * SECOND, None).before) == 3


def test_exchanges_are_forgotten_as_samples_are(journal: Journal) -> None:
    _put(journal, 1, 2, arrived_ns=T0)
    _put(journal, 3, service="meter", arrived_ns=T0 + 10)
    last = journal.exchanges.fixed(EVENT)
    assert journal.exchanges.forget(T0 + 5) == 2
    assert journal.exchanges.clocks("lab", "runner", "t1") == {}
    assert len(journal.exchanges.clocks("lab", "meter", "t1")) == 1
    assert journal.exchanges.forget(T0 + 99) == 0  # rows are numbered on from the newest
    assert journal.exchanges.fixed(EVENT) == last
