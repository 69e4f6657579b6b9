"""`opjoule watch` shows what the topics say, as a picture or as lines, marks what is simulated, and ends cleanly."""

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from aggregator.clocks import Timeline
from aggregator.result import MeterView, of_train
from bus import BrokerAddress, MemoryBroker, MemoryBus, MqttBus, Received
from opjoule.__main__ import main
from opjoule.local_broker import LocalBroker, available
from opjoule.processes import dies_with_parent
from opjoule.watch import READ, watch
from opjoule.watch_view import EIGHTHS, LOAD, NO_SAMPLE, NOT_LOAD, ROWS, drawn, plain, screen
from opjoule.watched import Trace, Watched
from schemas import ClockState, HostClock, Message, SampleBatch, ServiceStatus, topic_filter
from tests.aggregator.trains import SECOND, T0, batches, event, segments, steps, trace

PARTS = segments(5, load_s=1.0, idle_s=1.0)
EVENT = event(PARTS)
SAMPLES = trace(steps(PARTS, 2.0, 3.0), 11)
BATCHES = batches(SAMPLES)
TIMELINE = Timeline("shared", None)
RESULT = of_train(EVENT, MeterView("m1", "FNB58", "simulated", TIMELINE, SAMPLES), 1, "opjoule 0")
STATUS = ServiceStatus(
    service="runner",
    instance="pi4",
    state="measuring",
    until_ns=T0 + 60 * SECOND,
    version="0",
    started_ns=T0,
    started_time="then",
    duts=("pi4",),
    detail="sign ML-DSA-65",
)


@dataclass
class Watching:
    """A lab that sends, and someone who watches it."""

    watched: Watched
    broker: MemoryBroker = field(default_factory=MemoryBroker)

    def __post_init__(self) -> None:
        self.bus, self.lab = MemoryBus(self.broker, "watch"), MemoryBus(self.broker, "lab")
        self.bus.subscribe([topic_filter(kind) for kind in READ])
        assert self.bus.connect(1) and self.lab.connect(1)

    def send(self, *batches_: SampleBatch) -> None:
        """Everything that a board is the cause of, with these samples."""
        self.lab.set_status("lab", STATUS)
        for batch in batches_:
            self.lab.publish("samples", "lab", batch, dut=batch.dut)
        self.lab.publish("operations", "lab", EVENT, dut="pi4")
        self.lab.publish("results", "lab", RESULT, dut="pi4")

    def shown(self, terminal: bool, width: int = 80) -> str:
        """What is printed in two rounds."""
        rounds = iter([True, True, False])
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=width, height=40, color_system=None)
        watch(self.bus, self.watched, console, lambda: next(rounds))
        return out.getvalue()


@pytest.fixture
def watching() -> Watching:
    """Of all boards, for the last 11 s."""
    return Watching(Watched(11 * SECOND))


def test_a_terminal_shows_the_trace_its_segments_the_last_result_and_what_the_runner_does(watching: Watching) -> None:
    watching.send(*BATCHES)
    shown = watching.shown(terminal=True)
    assert "lab/pi4  measuring until 08:01:00Z: sign ML-DSA-65" in shown
    assert "m1  2.000 W now, 2.000 to 3.000 W in 11 s  SIMULATED" in shown
    assert "keygen ML-KEM-768: 10.000 ± 0.080 mJ" in shown and "500 reps, good SIMULATED" in shown
    assert LOAD * 3 in shown and NOT_LOAD * 3 in shown


def test_elsewhere_each_piece_of_news_is_a_line(watching: Watching, capsys: pytest.CaptureFixture[str]) -> None:
    watching.send(BATCHES[0])
    assert watching.shown(terminal=False) == ""
    assert capsys.readouterr().out.splitlines() == [
        "lab/pi4 runner measuring until 08:01:00Z: sign ML-DSA-65",
        "08:00:00Z lab/pi4 m1 2.000 W (2.000 to 2.000 W, 100 samples) SIMULATED",
        f"08:00:11Z lab/pi4 result keygen ML-KEM-768: {plain('lab', RESULT).partition(': ')[2]}",
    ]


def test_power_that_was_measured_does_not_say_simulated(watching: Watching) -> None:
    measured = BATCHES[0].model_copy(update={"meter_kind": "measured"})
    assert "SIMULATED" not in plain("lab", measured)
    assert "SIMULATED" in plain("lab", BATCHES[0])


def test_the_trace_is_high_and_its_line_thick_where_the_load_was() -> None:
    made = Trace(TIMELINE, simulated=False)
    for batch in BATCHES:
        made.add(batch, 11 * SECOND)
    made.mark(EVENT)
    lines = [line.plain for line in drawn("m1", made, 110, 11 * SECOND)]
    assert len(lines) == 1 + ROWS + 1
    top, base = lines[1], lines[-1]
    loaded = [column for column in range(110) if base[column] == LOAD]
    assert len(loaded) == 50
    assert all(top[column] == EIGHTHS[-1] for column in loaded[1:9])
    assert all(top[column] == " " for column in range(110) if base[column] == NOT_LOAD and column % 10 not in (0, 9))


def test_a_gap_is_shown_as_one() -> None:
    made = Trace(TIMELINE, simulated=False)
    made.add(BATCHES[0], 11 * SECOND)
    made.add(BATCHES[-1], 11 * SECOND)
    assert drawn("m1", made, 22, 11 * SECOND)[-1].plain.count(NO_SAMPLE) >= 17


def test_segments_of_a_runner_on_the_same_host_are_shifted_to_the_timeline_of_the_meter() -> None:
    made = Trace(Timeline("meter", HostClock(boot_id="b", wall_minus_monotonic_ns=5 * SECOND)), simulated=False)
    runner = EVENT.model_copy(
        update={"timeline_id": "runner", "host_clock": HostClock(boot_id="b", wall_minus_monotonic_ns=2 * SECOND)}
    )
    made.mark(runner)
    assert made.loads[0] == (PARTS[1].start_ns + 3 * SECOND, PARTS[1].end_ns + 3 * SECOND)


def test_segments_of_another_host_are_marked_when_the_result_tells_how_its_clock_goes(watching: Watching) -> None:
    other = EVENT.model_copy(update={"timeline_id": "runner"})
    watching.lab.publish("samples", "lab", BATCHES[0], dut="pi4")
    watching.lab.publish("operations", "lab", other, dut="pi4")
    watching.shown(terminal=True)
    loads = watching.watched.traces["lab", "pi4"]["m1"].loads
    assert not loads
    assumed = ClockState(method="assumed", offset_ns=0)
    exchange = ClockState(method="exchange", offset_ns=-7 * SECOND, bound_s=0.002)
    for clock, marked in ((assumed, 0), (exchange, 5)):
        watching.lab.publish("results", "lab", RESULT.model_copy(update={"clock": clock}), dut="pi4")
        watching.shown(terminal=True)
        assert len(loads) == marked
    assert loads[0] == (PARTS[1].start_ns - 7 * SECOND, PARTS[1].end_ns - 7 * SECOND)


def test_what_has_left_the_window_is_forgotten() -> None:
    made = Trace(TIMELINE, simulated=False)
    made.mark(EVENT)
    for batch in BATCHES:
        made.add(batch, 2 * SECOND)
    assert len(made.samples) <= 201 and len(made.loads) == 1


def test_only_the_board_that_was_asked_for_is_shown(watching: Watching) -> None:
    watching.watched.dut = "pi3"
    watching.send(*BATCHES)
    assert "nothing yet" in watching.shown(terminal=True)


@pytest.mark.parametrize(
    ("where", "forged"),
    [
        ("lab/pi4/samples", BATCHES[0].model_copy(update={"dut": "pi3"})),
        ("lab/pi4/samples", BATCHES[0].model_copy(update={"site": "other"})),
        ("lab/pi4/operations", EVENT.model_copy(update={"dut": "pi3"})),
        ("lab/pi4/results", RESULT.model_copy(update={"dut": "pi3"})),
        ("lab/services/runner/pi3/status", STATUS),
        ("lab/services/meter/pi4/status", STATUS),
    ],
)
def test_a_sender_cannot_speak_for_another_than_its_topic(where: str, forged: Message) -> None:
    watched = Watched(11 * SECOND)
    message = Received(f"opjoule/v1/{where}", forged.model_dump_json().encode(), False, 0)
    assert watched.take([message]) == [] and watched.boards == []


def test_a_meter_that_starts_again_gets_a_new_trace(watching: Watching) -> None:
    restarted = BATCHES[1].model_copy(update={"timeline_id": "other"})
    watching.send(BATCHES[0], restarted)
    watching.shown(terminal=False)
    assert len(watching.watched.traces["lab", "pi4"]["m1"].samples) == 100


def test_messages_that_are_none_are_passed_over(watching: Watching) -> None:
    watching.send(BATCHES[0])
    for message in list(watching.broker.published):
        watching.broker.route(type(message)(message.topic, b"{", 1, False))
    assert "SIMULATED" in watching.shown(terminal=True)


@pytest.mark.parametrize("width", [1, 20, 200])
def test_any_width_can_be_drawn(watching: Watching, width: int) -> None:
    watching.send(*BATCHES)
    watching.watched.take(watching.bus.receive(0, 1000))
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(screen(watching.watched, width))
    assert "lab" in out.getvalue() or width == 1


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--seconds", "0"], "opjoule watch: --seconds 0 is not between 1 and 3600"),
        (["--broker-url", "nonsense"], "opjoule watch: broker URL 'nonsense' must be mqtt://HOST[:PORT]"),
        (["--broker-password-file", "/nowhere"], "opjoule watch: broker password file /nowhere cannot be read"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    flags: list[str], line: str, capsys: pytest.CaptureFixture[str], restored_signals: None
) -> None:
    assert main(["watch", *flags]) == 2
    assert capsys.readouterr().err.startswith(line)


@pytest.fixture
def restored_signals() -> Iterator[None]:
    """SIGTERM as it was: the command runs in this process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.processes
@pytest.mark.mosquitto
@pytest.mark.skipif(not available("mosquitto"), reason="mosquitto is not installed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    with LocalBroker(tmp_path, "mosquitto") as broker:
        lab = MqttBus(BrokerAddress.parse(broker.url), "lab")
        assert lab.connect(5)
        command = [sys.executable, "-m", "opjoule", "watch", "pi4", "--broker-url", broker.url]
        process = subprocess.Popen(dies_with_parent(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lab.set_status("lab", STATUS)  # retained: it comes however late the subscription is
        assert process.stdout is not None
        assert process.stdout.readline() == "lab/pi4 runner measuring until 08:01:00Z: sign ML-DSA-65\n"
        process.send_signal(number)
        _, complaints = process.communicate(timeout=20)
        lab.disconnect()
    assert (process.returncode, complaints) == (0, "")
