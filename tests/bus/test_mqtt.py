"""The bus on real brokers."""

import logging
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bus import BrokerAddress, MqttBus, Received, Spool, SpoolingPublisher
from bus.mqtt import backoff_s
from errors import SettingsError
from opjoule.local_broker import Kind, LocalBroker
from schemas import Journaled, SampleBatch, ServiceStatus, topic, topic_filter
from tests.bus.support import Collect, Make, MakeBus, Until


def seqs(messages: list[bytes]) -> list[int]:
    return [SampleBatch.model_validate_json(payload).seq for payload in messages]


def test_a_message_goes_both_ways(make_bus: MakeBus, make: Make, collect: Collect) -> None:
    meter, aggregator = make_bus("meter"), make_bus("aggregator")
    aggregator.subscribe([topic_filter("samples")])
    meter.subscribe([topic_filter("journaled", "lab", dut="pi4")])
    meter_sees, aggregator_sees = make.receipt(spans=((1, 1),)), make.batch(1)
    await_subscriptions(make_bus, make, aggregator, meter)
    meter.publish("samples", "lab", aggregator_sees, dut="pi4")
    (got,) = collect(aggregator, 1)
    assert (got.topic, got.retained) == (topic("samples", "lab", dut="pi4"), False)
    assert SampleBatch.model_validate_json(got.payload) == aggregator_sees
    aggregator.publish("journaled", "lab", meter_sees, dut="pi4")
    (answer,) = collect(meter, 1)
    assert Journaled.model_validate_json(answer.payload) == meter_sees
    assert meter.flush(5.0) and aggregator.flush(5.0)


def await_subscriptions(make_bus: MakeBus, make: Make, *buses: MqttBus) -> None:
    """Return when the broker has the subscriptions of all: each sees a retained status that it subscribes last."""
    marker = make_bus("marker", connect=False)
    marker.set_status("marker", make.status())
    assert marker.connect(10.0) and marker.flush(10.0)
    for bus in buses:
        bus.subscribe([topic_filter("status", "marker")])
        seen = False
        while not seen:
            messages = bus.receive(1.0)
            bus.acknowledge(messages)
            seen = any("/marker/" in message.topic for message in messages)


def test_three_thousand_messages_arrive_in_order(make_bus: MakeBus, make: Make, collect: Collect) -> None:
    meter, aggregator = make_bus("meter"), make_bus("aggregator", persistent=True, manual_ack=True)
    aggregator.subscribe([topic_filter("samples")])
    await_subscriptions(make_bus, make, aggregator)
    batch = make.batch(0)
    for seq in range(3000):
        meter.publish("samples", "lab", batch.model_copy(update={"seq": seq}), dut="pi4")
    got: list[bytes] = []
    while len(got) < 3000:
        messages = collect(aggregator, 1) + aggregator.receive(0.0)
        aggregator.acknowledge(list(reversed(messages)))
        got += [message.payload for message in messages]
    assert seqs(got) == list(range(3000))
    assert aggregator.connected and aggregator.last_error == ""


def test_the_status_is_retained_and_the_last_will_follows_a_kill(
    broker: LocalBroker, make_bus: MakeBus, make: Make, collect: Collect
) -> None:
    script = f"""
        import sys
        from bus import BrokerAddress, MqttBus
        from schemas import ServiceStatus
        bus = MqttBus(BrokerAddress.parse({broker.url!r}), "doomed")
        bus.set_status("lab", ServiceStatus.model_validate_json({make.status().model_dump_json()!r}))
        assert bus.connect(10.0) and bus.flush(10.0)
        print("published", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as doomed:
        assert doomed.stdout is not None and doomed.stdout.readline() == b"published\n"
        watcher = make_bus("watcher")
        watcher.subscribe([topic_filter("status", "lab")])
        (first,) = collect(watcher, 1)
        doomed.kill()
        (second,) = collect(watcher, 1)
    states = [ServiceStatus.model_validate_json(each.payload).state for each in (first, second)]
    assert states == ["online", "offline"] and first.retained
    late = make_bus("late")
    late.subscribe([topic_filter("status", "lab")])
    (third,) = collect(late, 1)
    assert third.retained and ServiceStatus.model_validate_json(third.payload).state == "offline"


def test_a_clean_disconnect_leaves_the_last_status_standing(make_bus: MakeBus, make: Make, collect: Collect) -> None:
    runner, watcher = make_bus("runner", connect=False), make_bus("watcher")
    for round_number in range(10):
        runner.set_status("lab", make.status("online", f"{round_number}"))
        assert runner.connect(10.0)
        runner.set_status("lab", make.status("measuring", f"{round_number}"))
        runner.disconnect()
    watcher.subscribe([topic_filter("status", "lab")])
    (last,) = collect(watcher, 1)
    status = ServiceStatus.model_validate_json(last.payload)
    assert (status.state, status.detail) == ("measuring", "9")
    assert watcher.receive(0.2) == []


def test_a_status_set_after_connecting_has_its_last_will(
    make_bus: MakeBus, make: Make, until: Until, collect: Collect
) -> None:
    late, thief, watcher = make_bus("late"), make_bus("late", connect=False), make_bus("watcher")
    late.set_status("lab", make.status())
    watcher.subscribe([topic_filter("status", "lab")])
    (online,) = collect(watcher, 1)
    assert ServiceStatus.model_validate_json(online.payload).state == "online"
    until(lambda: late.connected and late.flush(0.1))
    assert thief.connect(10.0)  # takes the name over, which ends the other's connection uncleanly
    states = [ServiceStatus.model_validate_json(each.payload).state for each in collect(watcher, 1)]
    while "offline" not in states:
        states += [ServiceStatus.model_validate_json(each.payload).state for each in collect(watcher, 1)]
    late.disconnect()


def test_what_was_not_acknowledged_comes_again_after_a_reconnect(
    make_bus: MakeBus, make: Make, collect: Collect
) -> None:
    aggregator = make_bus("aggregator", persistent=True, manual_ack=True)
    aggregator.subscribe([topic_filter("samples")])
    await_subscriptions(make_bus, make, aggregator)
    meter = make_bus("meter")
    for seq in range(6):
        meter.publish("samples", "lab", make.batch(seq), dut="pi4")
    first = collect(aggregator, 6)
    aggregator.acknowledge(first[:3])
    aggregator.disconnect()
    meter.publish("samples", "lab", make.batch(6), dut="pi4")
    assert meter.flush(10.0)
    assert aggregator.connect(10.0)
    again: list[Received] = []
    while len(again) < 4:  # mosquitto sends retained messages again with a repeated subscription, iotcore does not
        again += [message for message in collect(aggregator, 1) if "/marker/" not in message.topic]
    assert seqs([message.payload for message in again]) == [3, 4, 5, 6]
    aggregator.acknowledge(first)  # tokens of the earlier connection: ignored
    aggregator.acknowledge(again)
    assert not any("/samples" in message.topic for message in aggregator.receive(0.2))
    assert aggregator.connected


def test_nothing_of_the_spool_is_lost_when_the_broker_is_killed(
    broker: LocalBroker, make_bus: MakeBus, make: Make, until: Until, tmp_path: Path
) -> None:
    meter, aggregator = make_bus("meter"), make_bus("aggregator", persistent=True, manual_ack=True)
    aggregator.subscribe([topic_filter("samples"), topic_filter("operations")])
    publisher = SpoolingPublisher(meter, Spool(tmp_path / "spool.sqlite", 10**7), "lab", ["pi4"], resend_s=1.0)
    journal: dict[int, int] = {}

    def journal_what_comes() -> None:
        for message in aggregator.receive(0.01):
            seq = SampleBatch.model_validate_json(message.payload).seq
            journal[seq] = journal.get(seq, 0) + 1
            aggregator.acknowledge([message])
            aggregator.publish("journaled", "lab", make.receipt(spans=((seq, seq),)), dut="pi4")

    for seq in range(60):
        publisher.put(make.batch(seq))
        publisher.step()
        if seq == 20:
            broker.kill()
        if seq == 40:
            broker.start()
        if seq < 10:
            journal_what_comes()

    def all_is_journaled() -> bool:
        journal_what_comes()
        publisher.step()
        return publisher.pending == 0

    until(all_is_journaled)
    assert sorted(journal) == list(range(60))
    publisher.close()


@pytest.mark.parametrize("kind", [pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def test_what_has_expired_is_not_delivered_to_whoever_comes_back_later(
    make_bus: MakeBus, make: Make, collect: Collect
) -> None:
    runner, operator = make_bus("runner", persistent=True), make_bus("operator")
    runner.subscribe([topic_filter("samples")])
    await_subscriptions(make_bus, make, runner)
    runner.disconnect()
    for seq, expiry_s in ((1, 1), (2, 600), (3, None)):
        operator.publish("samples", "lab", make.batch(seq), expiry_s, dut="pi4")
    assert operator.flush(5.0)
    time.sleep(2.1)
    again = make_bus("runner", persistent=True)
    assert seqs([each.payload for each in collect(again, 2)]) == [2, 3]


def test_a_connection_that_ended_unasked_is_counted_and_one_that_was_left_is_not(
    make_bus: MakeBus, until: Until
) -> None:
    bus = make_bus("runner")
    bus.disconnect()
    assert bus.connect(5.0) and bus.lost == 0
    make_bus("runner").disconnect()  # takes its place
    until(lambda: bus.lost == 1 and bus.connected)


def test_a_refusal_is_kept_and_logged_once(
    kind: Kind, tmp_path: Path, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalBroker(tmp_path, kind, anonymous=False) as broker, caplog.at_level(logging.WARNING):
        bus = MqttBus(BrokerAddress.parse(broker.url, "somebody", "wrong"), "meter")
        assert not bus.connect(1.5)
        until(lambda: bus.last_error != "")
        bus.disconnect()
    assert "refuses the connection" in bus.last_error or "without an answer" in bus.last_error
    assert len([record for record in caplog.records if record.name.startswith("bus")]) == 1


def test_a_broker_that_is_not_there_is_named_and_stopping_is_quick(tmp_path: Path) -> None:
    bus = MqttBus(BrokerAddress.parse("mqtt://127.0.0.1:1"), "meter")
    assert not bus.connect(0.5)
    assert "refused" in bus.last_error and not bus.connected
    bus.disconnect()
    bus.disconnect()
    assert not bus.connect(0.1)
    bus.disconnect()


def test_backoff_grows_with_jitter_within_its_limits() -> None:
    assert backoff_s(1, 0.0) == 0.2 and backoff_s(1, 0.999) < 0.4
    assert backoff_s(5, 0.5) == pytest.approx(0.75 * 6.4)
    assert backoff_s(10_000, 0.999) <= 30.0 and backoff_s(10_000, 0.0) == 15.0


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("localhost", "must be mqtt://"),
        ("http://hub", "must be mqtt://"),
        ("mqtt://", "must be mqtt://"),
        ("mqtt://hub:notaport", "Port could not be cast"),
        ("mqtt://hub:99999", "out of range"),
        ("mqtt://me:secret@hub", "their own settings"),
        ("mqtt://hub/path", "host and port only"),
        ("mqtt://" + "a" * 80, "label"),
    ],
)
def test_a_bad_url_gets_one_clear_line(url: str, what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BrokerAddress.parse(url)
    assert what in str(caught.value) and "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_an_address_is_parsed_and_never_shows_its_password(tmp_path: Path) -> None:
    address = BrokerAddress.parse("mqtts://hub", "me", "secret", tmp_path / "ca.pem")
    assert (address.host, address.port, address.tls) == ("hub", 8883, True)
    assert BrokerAddress.parse("mqtt://[::1]:1884").port == 1884
    assert str(BrokerAddress.parse("mqtt://[::1]:1884")) == "mqtt://[::1]:1884"
    assert "secret" not in f"{address} {address!r}"
    with pytest.raises(SettingsError, match=r"CA file .* cannot be used: No such file"):
        MqttBus(address, "meter")
    with pytest.raises(SettingsError, match="needs a broker user name"):
        BrokerAddress.parse("mqtt://hub", None, "secret")
    with pytest.raises(SettingsError, match="mqtts://"):
        BrokerAddress.parse("mqtt://hub", ca_file=tmp_path)
