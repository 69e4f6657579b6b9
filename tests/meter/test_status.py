"""When the meter's status goes out, and what it says."""

from meter.status import FRESH_S, REPEAT_S, Identity, StatusBoard

BOARD = Identity("m1", "0.1.0", 1_775_827_500_000_000_000, {"simulated_seed": 7.0})


def test_the_first_status_is_due_at_once_and_the_next_after_a_while() -> None:
    board = StatusBoard(BOARD)
    assert board.is_due(100.0)
    board.tell(100.0, 0, {})
    assert not board.is_due(100.0 + REPEAT_S - 0.1)
    assert board.is_due(100.0 + REPEAT_S)


def test_a_dut_is_online_only_while_its_sample_is_fresh() -> None:
    board = StatusBoard(BOARD)
    board.tell(100.0, 0, {})
    board.saw_sample("pi4", 101.0)
    assert board.is_due(101.0)
    status = board.tell(101.0, 100, {})
    assert (status.state, status.duts, status.detail) == ("online", ("pi4",), "")
    board.saw_sample("pi1", 102.0)
    assert board.tell(102.0, 200, {}).duts == ("pi1", "pi4")
    assert not board.is_due(102.9)
    assert board.is_due(101.0 + FRESH_S)
    assert board.tell(101.0 + FRESH_S, 200, {}).duts == ("pi1",)
    assert board.tell(102.0 + FRESH_S, 200, {}).detail == "no data"


def test_the_rate_is_that_since_the_last_status() -> None:
    board = StatusBoard(BOARD)
    assert board.tell(100.0, 50, {}).health["samples_per_s"] == 0.0
    assert board.tell(110.0, 1050, {}).health["samples_per_s"] == 100.0


def test_constants_stand_beside_the_counters() -> None:
    health = StatusBoard(BOARD).tell(100.0, 0, {"lost_samples": 3}).health
    assert health == {"samples_per_s": 0.0, "lost_samples": 3.0, "simulated_seed": 7.0}


def test_the_last_status_serves_no_dut() -> None:
    board = StatusBoard(BOARD)
    board.saw_sample("pi4", 100.0)
    status = board.offline({})
    assert (status.state, status.duts, status.started_time) == ("offline", (), "2026-04-10T13:25:00.000000000Z")
