"""What `opjoule run` makes of the messages of boards: answers, progress, silence, and whose message it is."""

import io
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from rich.console import Console

from bus import MemoryBroker, MemoryBus, Received
from bus.settings import BrokerSettings
from configure import load
from errors import SettingsError
from opjoule.run.asked import Asked, Details, campaign_of, expand_asked
from opjoule.run.boards import SILENCE_NS, Board, Boards
from opjoule.run.boards_view import board_line, board_lines, doing, energy_table, news_line, trains
from opjoule.run.fleet import choose, listen, not_to_be_had, offer_of, tell
from schemas import DeviceDescription, EnergyResult, Message, OperationEvent, ServiceStatus, topic
from schemas.status import CampaignState, CommandAnswer
from tests.aggregator.trains import SECOND, T0, event, segments
from tests.opjoule.test_watch import RESULT

RUN = "run-7"
EVENT = event(segments(5), run_id=f"{RUN}-round-1")
OURS = RESULT.model_copy(update={"run_id": f"{RUN}-round-1"})
SETTINGS = load(BrokerSettings, "test", "", [], {})


def _status(state: str = "online", **more: object) -> ServiceStatus:
    fields = {
        "service": "runner",
        "instance": "pi4",
        "version": "0",
        "started_ns": T0,
        "started_time": "then",
        "duts": ("pi4",),
    }
    return ServiceStatus.model_validate({**fields, "state": state, **more})


def _campaign(state: str, done: int = 0, run_id: str = RUN, detail: str = "") -> CampaignState:
    fields = {"name": "x", "run_id": run_id, "state": state, "trains_done": done, "trains_planned": 3, "detail": detail}
    return CampaignState.model_validate(fields)


def _answer(accepted: bool = True, reason: str = "", command_id: str = "c1") -> CommandAnswer:
    return CommandAnswer(command_id=command_id, accepted=accepted, reason=reason)


@pytest.fixture
def board() -> Board:
    """Online, with an old campaign behind it, and asked for a new one."""
    made = Board("pi4")
    made.hear(_status(campaign=_campaign("finished", 3, "old")), T0)
    made.ask("c1", T0)
    return made


def test_a_board_that_accepts_runs_until_its_campaign_ends(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("finished", 3, "old")), T0)
    assert (board.phase, board.run_id, trains(board)) == ("running", "", "0")
    board.hear(_status(campaign=_campaign("running", 1)), T0)
    assert (board.phase, board.run_id, trains(board)) == ("running", RUN, "1 of 3")
    board.hear(_status(campaign=_campaign("finished", 3, detail="target met")), T0)
    assert board.phase == "ended"
    assert board_line(board, "finished") == "pi4, 3 of 3 trains: finished: target met"


def test_an_answer_to_somebody_else_is_none(board: Board) -> None:
    board.hear(_status(answer=_answer(command_id="theirs")), T0)
    assert board.phase == "asked"


def test_a_refusal_is_told_with_its_reason(board: Board) -> None:
    board.hear(_status(answer=_answer(accepted=False, reason="demo is under way")), T0)
    assert (board.phase, board_line(board, "finished")) == ("refused", "pi4: refused: demo is under way")


def test_a_board_in_a_train_is_waited_for_two_minutes_longer_than_it_said(board: Board) -> None:
    board.hear(_status("measuring", until_ns=T0 + 60 * SECOND), T0)
    board.give_up(T0 + 60 * SECOND + SILENCE_NS)
    assert board.phase == "asked"
    board.give_up(T0 + 61 * SECOND + SILENCE_NS)
    assert (board.phase, board.reason) == (
        "lost",
        "has not answered, 120 s after it should have: is the board running?",
    )


def test_a_clock_that_is_days_off_does_not_make_us_wait_for_days(board: Board) -> None:
    board.hear(_status("measuring", until_ns=T0 + 30 * 86_400 * SECOND), T0)
    board.give_up(T0 + SECOND + SILENCE_NS)
    assert board.phase == "lost"


def test_a_running_board_may_be_online_and_silent_for_long_but_not_in_a_train(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    board.give_up(T0 + 3600 * SECOND)
    assert board.phase == "running"
    board.hear(_status("measuring", campaign=_campaign("running"), until_ns=T0 + SECOND), T0)
    board.give_up(T0 + 2 * SECOND + SILENCE_NS)
    assert (board.phase, doing(board).partition(",")[0]) == ("lost", "lost: has not come back from a train")


def test_a_runner_that_goes_offline_in_between_is_lost(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    board.hear(_status("offline", campaign=_campaign("running"), detail="stopped"), T0)
    assert board_line(board, "finished") == "pi4, 0 of 3 trains: lost: its runner went offline: stopped"


def test_only_trains_and_results_of_the_campaign_count(board: Board) -> None:
    assert not board.note(EVENT) and not board.note_result(OURS)
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    other = EVENT.model_copy(update={"event_id": UUID(int=1), "run_id": "other"})
    assert board.note(EVENT) and not board.note(other) and not board.note_result(RESULT)
    assert (len(board.rows()), board.rows()[0].result, board.missing) == (1, None, 1)
    assert board.note_result(OURS.model_copy(update={"meter": None})) and board.note_result(OURS)
    assert (len(board.rows()), board.rows()[0].result, board.missing) == (1, OURS, 0)


def test_trains_without_a_result_are_told_at_the_end(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    board.note(EVENT)
    board.hear(_status(campaign=_campaign("finished", 1)), T0)
    assert board_line(board, "finished").endswith("finished; 1 trains have no result")


def test_a_campaign_that_somebody_else_stopped_is_not_called_finished(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    board.hear(_status(campaign=_campaign("stopped", 2)), T0)
    assert (board_line(board, "finished"), board.well) == ("pi4, 2 of 3 trains: stopped by a command", False)


def test_a_train_that_the_board_left_out_is_told_with_its_reason(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    whole = _campaign("finished", 3)
    board.hear(_status(campaign=whole), T0)
    assert board.well
    less = whole.model_copy(update={"trains_done": 2, "left_out": 1, "left_out_reason": "sign X: no key"})
    board.hear(_status(campaign=less), T0)
    assert board_line(board, "finished") == "pi4, 2 of 3 trains: finished; left out: sign X: no key"
    assert not board.well


def _described(**changes: object) -> DeviceDescription:
    texts = ("site", "dut", "model", "architecture", "cpu", "operating_system", "kernel", "python", "openssl_program")
    fields = {**dict.fromkeys(texts, "x"), "bits": 64, "cores": 4, "memory_bytes": 2**30, "opjoule": "0"}
    sets = {"parameter_sets": ("Ed25519", "opj-sig"), "added_by_providers": {"opj-sig": ("keygen", "sign")}}
    return DeviceDescription.model_validate({**fields, "openssl": "3.5.0", "backends": ("cli",), **sets, **changes})


def _asked(*words: str) -> Asked:
    return campaign_of(words, Details(), pytest.fail)


def test_what_was_asked_for_by_name_and_the_board_cannot_do_is_told_in_the_end(board: Board) -> None:
    board.device = _described()
    assert not_to_be_had(_asked("sign", "Ed25519", "ML-DSA-65"), board) == [
        "pi4: left out: sign ML-DSA-65: OpenSSL 3.5.0 lacks ML-DSA-65"
    ]
    assert not_to_be_had(_asked("sign", "E*", "ML-*"), board) == []
    assert not_to_be_had(_asked("sign", "opj-sig"), board) == []
    board.device = _described(added_by_providers={})
    assert not_to_be_had(_asked("sign", "opj-sig"), board) == []


def test_what_a_provider_of_the_board_adds_can_be_planned_from_here(board: Board) -> None:
    board.device = _described()
    plan = expand_asked(_asked("sign", "opj-sig"), offer_of(board))
    assert [str(job) for job in plan.operations] == ["sign opj-sig"]


@pytest.mark.parametrize(
    "forge",
    [
        lambda: ("lab/pi3/operations", EVENT),
        lambda: ("other/pi4/operations", EVENT),
        lambda: ("lab/pi3/results", OURS),
        lambda: ("lab/services/runner/pi3/status", _status()),
        lambda: ("lab/pi4/samples", EVENT),
    ],
)
def test_a_message_of_another_than_its_topic_is_not_heard(forge: Callable[[], tuple[str, Message]]) -> None:
    where, message = forge()
    boards = Boards("lab")
    payload = message.model_dump_json().encode()
    assert boards.take([Received(f"opjoule/v1/{where}", payload, False, 0)], T0) == []
    assert boards.by_dut == {}


def test_what_cannot_be_read_is_passed_over() -> None:
    boards = Boards("lab")
    where = topic("results", "lab", dut="pi4")
    assert boards.take([Received(where, b"{", False, 0), Received("elsewhere", b"", False, 0)], T0) == []


def test_results_that_come_are_handed_out_as_they_come(board: Board) -> None:
    boards = Boards("lab", {"pi4": board})
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    sent: list[OperationEvent | EnergyResult] = [EVENT, OURS]
    kinds = ("operations", "results")
    received = [
        Received(topic(kind, "lab", dut="pi4"), each.model_dump_json().encode(), False, 0)  # type: ignore[arg-type]
        for kind, each in zip(kinds, sent, strict=True)
    ]
    assert boards.take(received, T0) == [OURS]
    assert news_line(OURS).startswith("pi4: keygen ML-KEM-768 by cli: 10.000 ± 0.080 mJ, 500 reps, good SIMULATED")


def test_the_table_of_joules_tells_cli_from_lib_and_fits_80_columns(board: Board) -> None:
    board.hear(_status(answer=_answer(), campaign=_campaign("running")), T0)
    board.note(EVENT)
    without = energy_table(board.rows())
    board.note_result(OURS.model_copy(update={"flags": ("simulated", "busy"), "quality": "degraded"}))
    long = replace(board.rows()[0], operation="handshake", parameter_set="SecP384r1MLKEM1024", backend="lib")
    out = io.StringIO()
    console = Console(file=out, width=80, color_system=None)
    console.print(without, energy_table([*board.rows(), long]))
    shown = out.getvalue()
    assert "–  no result" in shown and "keygen     ML-KEM-768          cli  10.000 ± 0.080 mJ  degraded" in shown
    assert "handshake  SecP384r1MLKEM1024  lib  10.000 ± 0.080 mJ" in shown and "(busy)" in shown


def test_what_a_board_does_is_one_line(board: Board) -> None:
    assert board_lines([board]) == ["pi4: 0 trains; asked; waiting for its answer"]
    board.hear(_status("measuring", answer=_answer(), until_ns=T0 + 60 * SECOND, detail="sign X"), T0)
    assert doing(board) == "in a train until 08:01:00Z: sign X"


@pytest.fixture
def lab() -> MemoryBus:
    """Where `pi4` is online and `pi3` was."""
    broker = MemoryBroker()
    sender = MemoryBus(broker, "lab")
    assert sender.connect(1)
    sender.set_status("lab", _status())
    sender.set_status("lab", _status("offline", instance="pi3", duts=("pi3",)))
    bus = MemoryBus(broker, "run")
    assert bus.connect(1)
    return bus


def test_all_means_the_boards_that_are_online(lab: MemoryBus) -> None:
    boards = listen(lab, "lab")
    assert [board.dut for board in choose(boards, None, SETTINGS)] == ["pi4"]
    assert [board.dut for board in choose(boards, "ALL", SETTINGS)] == ["pi4"]
    assert [board.dut for board in choose(boards, "PI4,pi4", SETTINGS)] == ["pi4"]


@pytest.mark.parametrize(
    ("dut", "line"),
    [
        ("pi5", "no board is called pi5; online at site lab: pi4"),
        ("pi4,pi3", "the runner of pi3 is offline; online at site lab: pi4"),
    ],
)
def test_a_board_that_is_not_there_is_refused_with_those_that_are(lab: MemoryBus, dut: str, line: str) -> None:
    with pytest.raises(SettingsError, match=f"^{line}$"):
        choose(listen(lab, "lab"), dut, SETTINGS)


def test_where_no_board_is_online_that_is_said() -> None:
    with pytest.raises(SettingsError, match=r"^no runner is online at site lab of mqtt://127.0.0.1:1883$"):
        choose(Boards("lab"), None, SETTINGS)


def test_a_command_is_dropped_by_the_broker_once_its_sender_has_given_the_board_up() -> None:
    broker = MemoryBroker()
    bus, boards, board = MemoryBus(broker, "operator"), Boards("lab"), Board("pi4")
    bus.connect(0.0)
    tell(bus, boards, [board], "stop")
    assert broker.published[-1].expiry_s == SILENCE_NS // SECOND
    board.hear(_status("measuring", until_ns=time.time_ns() + 3600 * SECOND), time.time_ns())
    tell(bus, boards, [board], "stop")
    assert broker.published[-1].expiry_s == pytest.approx(3600 + SILENCE_NS // SECOND, abs=2)
