"""`opjoule meter doctor`: whether each meter works, step by step, and who must do what where one does not."""

import time
from collections.abc import Callable, Iterator, Sequence

from errors import SettingsError
from meter.readings import Reading, Source, Stream
from meter.transports.hidraw import is_node
from meter.transports.rights import file_rights_needed, hid_rights_needed
from opjoule.meter.findings import Finding, Heard, Level, of_samples
from opjoule.meter.holders import holders
from opjoule.meter.opening import Open, opener_at, source_of
from opjoule.meter.plugged import Host, Is, Plugged

LISTEN_S = 5.0
PATIENCE_S = 25.0
"""A FNIRSI meter that stays silent has then been started in every way there is, as the other family too."""
NOTHING = (
    "no USB power meter is plugged in. A FNIRSI meter (FNB58, FNB48, C1) is seen only at its micro-USB port, the one "
    "marked PC, and by a cable that carries data; a TC66C at its micro-USB port"
)
_LEVELS: dict[Is, Level] = {"meter": "ok", "maybe": "doubt", "not": "error"}
MonotonicNs = Callable[[], int]


def chosen(host: Host, node: str | None, serial: str | None) -> list[Plugged]:
    """What the flags mean; without any, all USB meters that are known, else the serial ports that could not be asked.

    A device of FNIRSI's that is no known model is sent nothing unless `node` names it.
    """
    meant = [each for each in host.plugged if each.is_meant(node, serial)]
    if node is not None or serial is not None:
        return meant
    meters = [each for each in meant if each.source == "fnirsi" or (each.source == "tc66c" and each.is_a == "meter")]
    return meters or [each for each in meant if each.source == "tc66c" and each.is_a == "maybe"]


def nothing(host: Host, is_asked: bool) -> str:
    """Why there is no meter to check, and what the operator must do. `is_asked`: flags name one."""
    there = ", ".join(each.name_and_serial for each in host.plugged)
    if is_asked:
        unknown = [f"{each.name}: {each.remark}" for each in host.plugged if each.is_unknown_model]
        return "; ".join([f"nothing that these flags mean is plugged in; there is: {there or 'no meter'}", *unknown])
    others = f". Not checked unless --node names it: {there}" if there else ""
    return "; ".join([NOTHING + others, *host.remarks])


def examine(plugged: Plugged, monotonic_ns: MonotonicNs = time.monotonic_ns) -> Iterator[Finding]:
    """One finding after the other, each as soon as it is known; an error is the last."""
    yield _device(plugged)
    if plugged.is_a == "not":
        return
    for finding in _access(plugged):
        yield finding
        if finding.level == "error":
            return
    source = source_of(plugged, opener_at(plugged))
    try:
        heard = listen(source, plugged, monotonic_ns)
    finally:
        source.close()
    yield from of_samples(heard)


def listen(source: Source, plugged: Plugged, monotonic_ns: MonotonicNs = time.monotonic_ns) -> Heard:
    """Samples of five seconds; the first is waited for as long as a meter may need to be woken.

    A FNIRSI meter's come up to a second late. One that falls silent again is left as long again after its first.
    """
    readings: list[Reading] = []
    end_ns = monotonic_ns() + round(PATIENCE_S * 1e9)
    while monotonic_ns() < end_ns and _span_s(readings) < LISTEN_S:
        said = source.read(0.2) or []
        if said and not readings:
            end_ns = monotonic_ns() + round(2 * LISTEN_S * 1e9)
        readings += said
    stream = source.stream
    good = tuple(each for each in readings if _is_plausible(stream, each))
    refused = tuple(each for each in readings if not _is_plausible(stream, each))
    return Heard(plugged.source, stream.period_ns, good, source.counts, source.health, refused)


def _span_s(readings: Sequence[Reading]) -> float:
    return (readings[-1].t_ns - readings[0].t_ns) / 1e9 if readings else 0.0


def _is_plausible(stream: Stream, reading: Reading) -> bool:
    """As the meter service decides it."""
    return stream.ranges.allow(reading.power_w, reading.voltage_v, reading.current_a)


def _device(plugged: Plugged) -> Finding:
    device = plugged.device
    ids = f"USB id {device.ids[0]:04x}:{device.ids[1]:04x}" if device.ids else ""
    where = [ids, f"port {device.port}" if device.port else "", f"serial {device.serial}" if device.serial else ""]
    text = ", ".join([plugged.model, *filter(None, where)]) + (f": {plugged.remark}" if plugged.remark else "")
    return Finding(_LEVELS[plugged.is_a], "device", text)


def _access(plugged: Plugged) -> Iterator[Finding]:
    """Rights, other programs, and whether it can really be opened."""
    if plugged.may_open is False:
        yield Finding("error", "rights", how_to_be_let_in(plugged))
        return
    if plugged.source == "hwmon":
        return
    others = holders(plugged.device.node) if plugged.files else []
    problem = _opening(opener_at(plugged))
    if problem:
        by = f" ({', '.join(others)} has it open)" if others else ""
        yield Finding("error", "opening", problem + by)
        return
    yield Finding("ok", "opening", "this user may open it" + ("" if is_node(plugged.device.node) else " by libusb"))
    if others:
        yield Finding("doubt", "others", f"{', '.join(others)} has it open too: {_harm(plugged)}")


def _harm(plugged: Plugged) -> str:
    """The kernel gives every program that opens a hidraw node all reports; bytes of a serial port go to one of them."""
    if plugged.source == "fnirsi":
        return "both get every report, and the meter hears the commands of both"
    return "each may take what was meant for the other"


def _opening(open_transport: Open) -> str:
    """Empty where it can be opened. Nothing is sent to it."""
    try:
        open_transport().close()
    except SettingsError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def how_to_be_let_in(plugged: Plugged) -> str:
    """What the operator must do so that this user may open it."""
    node = plugged.device.node
    return hid_rights_needed(node) if plugged.source == "fnirsi" else file_rights_needed(node, plugged.files[0])
