"""What a receipt names: event ids, and ranges of `seq` per meter and timeline. Pure."""

from collections.abc import Iterable

from schemas import Journaled, OperationEvent, SampleBatch, SeqRange


def receipts(messages: Iterable[SampleBatch | OperationEvent]) -> list[Journaled]:
    """One receipt per DUT for messages that are in the journal, in order of site and DUT."""
    events: dict[tuple[str, str], list[OperationEvent]] = {}
    seqs: dict[tuple[str, str], dict[tuple[str, str], list[int]]] = {}
    for message in messages:
        dut = (message.site, message.dut)
        if isinstance(message, SampleBatch):
            seqs.setdefault(dut, {}).setdefault((message.meter, message.timeline_id), []).append(message.seq)
        else:
            events.setdefault(dut, []).append(message)
    return [
        Journaled(
            site=dut[0],
            dut=dut[1],
            event_ids=tuple(event.event_id for event in events.get(dut, [])),
            ranges=tuple(
                SeqRange(meter=meter, timeline_id=timeline_id, first=first, last=last)
                for (meter, timeline_id), numbers in seqs.get(dut, {}).items()
                for first, last in ranges(numbers)
            ),
        )
        for dut in sorted(events.keys() | seqs.keys())
    ]


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as ranges, first and last included: [3, 1, 2, 7] is [(1, 3), (7, 7)]."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
