"""What others do to the processors, and the core that is ours."""

import os
import sys
import time
from pathlib import Path

import pytest

from errors import SettingsError
from runner import quiet
from runner.quiet import OthersLoad, pin_to

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
"""Of a line of /proc/stat (proc(5)); the guests' time is in user and nice already."""


class Machine:
    """A clock, a /proc/stat and our own CPU time, moved by hand."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.now_s = 100.0
        self.own_s = 7.0
        (root / "proc").mkdir()
        self.spend(0.0)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(quiet, "_own_s", lambda: self.own_s)

    def spend(self, busy_s: float) -> None:
        """Since the beginning: half in user space, the rest in interrupts; and much idling and waiting."""
        half = round(busy_s * TICKS_PER_S / 2)
        text = f"cpu  {1000 + half} 10 500 999999 8888 {half} 3 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n"
        (self.root / "proc/stat").write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_others_spent_is_that_of_the_machine_without_our_own(machine: Machine) -> None:
    load = OthersLoad(machine.root)
    machine.now_s += 2.0
    machine.own_s += 0.5
    machine.spend(1.5)
    assert load.cores() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("field", "counts"),
    [(name, name not in ("idle", "iowait", "guest", "guest_nice")) for name in FIELDS],
)
def test_all_that_keeps_a_processor_from_us_counts_and_what_waits_does_not(
    machine: Machine, field: str, counts: bool
) -> None:
    load = OthersLoad(machine.root)
    machine.now_s += 1.0
    ticks = dict.fromkeys(FIELDS, 0) | {
        "user": 1000,
        "nice": 10,
        "system": 500,
        "idle": 999_999,
        "iowait": 8888,
        "softirq": 3,
    }
    ticks[field] += TICKS_PER_S
    (machine.root / "proc/stat").write_text(f"cpu  {' '.join(str(each) for each in ticks.values())}\n")
    assert load.cores() == pytest.approx(1.0 if counts else 0.0)


def test_a_machine_that_only_works_for_us_is_not_busy(machine: Machine) -> None:
    load = OthersLoad(machine.root)
    machine.now_s += 1.0
    machine.own_s += 1.02
    machine.spend(1.0)
    assert load.cores() == 0.0


def test_too_short_a_window_says_nothing(machine: Machine) -> None:
    load = OthersLoad(machine.root)
    machine.now_s += quiet.LEAST_WINDOW_S / 2
    assert load.cores() is None


@pytest.mark.parametrize("text", ["", "cpu  1 2\n", "cpu  a b c d e f g h i\n"])
def test_a_machine_that_does_not_count_says_nothing(tmp_path: Path, machine: Machine, text: str) -> None:
    (tmp_path / "proc/stat").write_text(text)
    load = OthersLoad(tmp_path)
    machine.now_s += 2.0
    assert load.cores() is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_pinned_runner_and_its_children_stay_on_their_core() -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    try:
        pin_to(core)
        assert os.sched_getaffinity(0) == {core}
        with os.popen(f"{sys.executable} -c 'import os; print(os.sched_getaffinity(0))'") as child:
            assert child.read().strip() == str({core})
        with pytest.raises(SettingsError, match=f"no processor 4095; usable here are {core}$"):
            pin_to(4095)
    finally:
        os.sched_setaffinity(0, before)
