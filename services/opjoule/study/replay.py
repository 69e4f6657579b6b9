"""Plays a study through the real path: recording source, broker, aggregator, journal; as fast as they confirm."""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from bus import MqttBus, Spool, SpoolingPublisher
from bus.address import BrokerAddress
from errors import SettingsError
from meter.playlist import PlaylistEntry
from opjoule.local_broker import LocalBroker
from opjoule.processes import Services
from opjoule.study.layout import SITE, Replay
from schemas import EnergyResult, parse_topic, topic_filter

CONNECT_S = 10.0
SILENCE_S = 60.0
"""Without a new result for so long something is wrong."""
HOLD_S = 86_400.0
"""Trains are announced before their samples are played, so no deadline may pass."""
SPOOL_BYTES = 256_000_000
STEP_S = 0.02
IOTCORE_BATCHES = 80
"""It has 100 messages at most on their way to a subscriber, and when they are acknowledged it waits for seconds."""


def replay(
    plan: Replay, folder: Path, broker_kind: Literal["mosquitto", "iotcore"] | None, progress: Callable[[int], None]
) -> list[EnergyResult]:
    """One final result per event. `progress` is told how many there are. Raises SettingsError when a service fails.

    SIGTERM ends it as Ctrl-C does, so that the services stop and the caller's folder goes away.
    """
    playlist = folder / "playlist.json"
    playlist.write_bytes(TypeAdapter(list[PlaylistEntry]).dump_json(list(plan.playlist)))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, before)
        broker = stack.enter_context(LocalBroker(folder / "broker", broker_kind))
        services = stack.enter_context(Services(folder))
        bus = MqttBus(BrokerAddress.parse(broker.url), "opjoule-study")
        stack.callback(bus.disconnect)
        bus.subscribe([topic_filter("results", SITE)])
        if not bus.connect(CONNECT_S):
            raise SettingsError(f"the broker does not answer: {bus.last_error}")
        shared: dict[str, object] = {"broker_url": broker.url, "site": SITE, "state_dir": folder}
        services.start("aggregator", shared | {"journal": folder / "journal.sqlite", "hold_s": HOLD_S})
        services.wait_until_online(bus, SITE, "aggregator")
        spool = Spool(None, SPOOL_BYTES)
        stack.callback(spool.close)
        publisher = SpoolingPublisher(bus, spool, SITE, sorted({event.dut for event in plan.events}))
        for event in plan.events:
            publisher.put(event)
        player: dict[str, object] = {"source": "recording", "playlist": playlist, "speed": 0, "exit_at_end": True}
        if broker.kind == "iotcore":
            player["unconfirmed_batches"] = IOTCORE_BATCHES
        services.start("meter", shared | player)
        return _collect(plan, services, publisher, progress)


def _collect(
    plan: Replay, services: Services, publisher: SpoolingPublisher, progress: Callable[[int], None]
) -> list[EnergyResult]:
    results: dict[str, EnergyResult] = {}
    heard_s = time.monotonic()
    while len(results) < len(plan.events):
        services.must_run("aggregator")
        if services.status("meter"):
            services.must_run("meter")  # it could not play everything
        before = len(results)
        for received in publisher.step():
            address = parse_topic(received.topic)
            if address is not None and address.kind == "results":
                result = EnergyResult.model_validate_json(received.payload)
                results[str(result.event_id)] = result
        if len(results) > before:
            heard_s = time.monotonic()
            progress(len(results))
            continue
        time.sleep(STEP_S)
        if time.monotonic() - heard_s > SILENCE_S:
            raise SettingsError(f"no result for {SILENCE_S:.0f} s; the log files are in {services.folder}")
    return list(results.values())
