"""Small studies made by hand: recordings in every form, and the table that was published with them."""

import csv
import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from opjoule.__main__ import main

HEADER = (
    "machine,method,submethod,algorithm,iterations,start time (unix),stop time (unix),total time,time per iteration,"
    "baseline power,on-load power,total power used,joules per iteration,iterations per joule"
)
METHODS = {
    "keygen": ("key generation", ""),
    "sign": ("signatures", "signing"),
    "verify": ("signatures", "verification"),
}
RATE_HZ = 50.0
NOBODY = 65_534


def power_around(mean_w: float, samples: int = 500, seed: int = 1) -> list[float]:
    """Power in W with noise of 20 mW, in steps of 1e-8 W so that a CSV file holds it exactly."""
    noise = Random(seed)
    return [round(mean_w + noise.gauss(0, 0.02), 8) for _ in range(samples)]


def cfn(power_w: Sequence[float], rate_hz: float = RATE_HZ) -> bytes:
    """A .cfn file with one power channel and its extremes (METERS.md 4.1)."""
    extremes = (max(power_w, default=0.0), min(power_w, default=0.0))
    head = struct.pack("<diiih", rate_hz, 50, 0, 5, 1) + struct.pack("<h4sBdd", 4, b"\xff\x55\xff\xff", 1, *extremes)
    rows = b"".join(struct.pack("<dd", row / rate_hz, power) for row, power in enumerate(power_w))
    return head + struct.pack("<i", len(power_w)) + rows


def converter_csv(power_w: Sequence[float]) -> bytes:
    """What the converter makes of it (form a of METERS.md 4.5)."""
    lines = [
        f"# {RATE_HZ} sps, start/stop: 50/0 mA (5 s), channels: 1",
        f"# P min: {min(power_w)}, P max: {max(power_w)}",
        "Time,Power",
        *(f"{row / RATE_HZ:.8f},{power:.8f}" for row, power in enumerate(power_w)),
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def spreadsheet_csv(power_w: Sequence[float]) -> bytes:
    """What a spreadsheet makes of that (form b): commas at the ends, zeros trimmed, the mean in a last row."""
    lines = [
        f"# {RATE_HZ} sps, start/stop: 50/0 mA (360 s), channels: 1,",
        f"# P min: {min(power_w)}, P max: {max(power_w)},",
        "Time,Power,",
        *(f"{row / RATE_HZ:.10g},{power:.10g}," for row, power in enumerate(power_w)),
        f",{fmean(power_w):.10g},",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def published_line(
    machine: str,
    operation: str,
    algorithm: str,
    s_per_op: float,
    idle_w: float | None = None,
    load_w: float | None = None,
    j_per_op: float | None = None,
) -> str:
    """One line of the published table; the energy by the study's equation 1 where none is given."""
    if j_per_op is None and idle_w is not None and load_w is not None:
        j_per_op = (load_w - idle_w) * s_per_op
    powers = ("", "", "", "", "")
    if j_per_op is not None:
        powers = (f"{idle_w:.6f}", f"{load_w:.6f}", "", f"{j_per_op:.9f}", "")
    method = METHODS.get(operation, (operation, ""))
    times = ("100", "1775827500", "1775827900", f"{100 * s_per_op}", f"{s_per_op}")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow((machine, *method, algorithm, *times, *powers))
    return line.getvalue()


IDLE_W = power_around(0.5, 1000, seed=1)
SIGN_W = power_around(1.5, 500, seed=2)
VERIFY_W = power_around(1.25, 500, seed=3)
SIGN_S, VERIFY_S = 0.2, 0.01
SIGN_J = (fmean(SIGN_W) - fmean(IDLE_W)) * SIGN_S
VERIFY_J = (fmean(VERIFY_W) - fmean(IDLE_W)) * VERIFY_S


def sign_line(machine: str, algorithm: str = "ML-DSA-44") -> str:
    """The published row of a board that is recorded with `IDLE_W` and this operation's power."""
    return published_line(machine, "sign", algorithm, SIGN_S, fmean(IDLE_W), fmean(SIGN_W))


def verify_line(machine: str, algorithm: str = "ML-DSA-44") -> str:
    """The published row of a board that is recorded with `IDLE_W` and this operation's power."""
    return published_line(machine, "verify", algorithm, VERIFY_S, fmean(IDLE_W), fmean(VERIFY_W))


@dataclass
class Study:
    """A folder of recordings and a published table."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    @property
    def recordings(self) -> Path:
        """The folder with the recordings."""
        return self.folder / "recordings"

    @property
    def table(self) -> Path:
        """The published table."""
        return self.folder / "published.csv"

    @property
    def out(self) -> Path:
        """Where results go."""
        return self.folder / "out"

    def record(self, name: str, data: bytes) -> Path:
        """A file below the recordings."""
        path = self.recordings / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def write_table(self) -> Path:
        """The table as published: byte order mark, CRLF, blank lines among the rows."""
        self.table.write_bytes("\r\n".join(["\ufeff" + HEADER, *self.lines, "," * 13, ""]).encode())
        return self.table


@dataclass(frozen=True)
class Outcome:
    """What a user sees of a run of `opjoule study`."""

    status: int
    out: str
    err: str
    rows: list[dict[str, str]]

    def row(self, board: str, operation: str = "", parameter_set: str = "") -> dict[str, str]:
        """The only row of this subject."""
        wanted = (board, operation, parameter_set)
        (found,) = [row for row in self.rows if (row["board"], row["operation"], row["parameter_set"]) == wanted]
        return found

    def said(self, *words: str) -> list[str]:
        """The lines on standard error with all of these words."""
        return [line for line in self.err.splitlines() if all(word in line for word in words)]


def run_study(study: Study, capsys: pytest.CaptureFixture[str], *more: str) -> Outcome:
    """Run the command in this process, with `--out`; CSV and JSON hold the same rows."""
    arguments = ["study", str(study.recordings), "--published", str(study.write_table()), "--out", str(study.out)]
    status = main([*arguments, *more])
    said = capsys.readouterr()
    rows: list[dict[str, str]] = []
    if (study.out / "study.csv").is_file():
        rows = list(csv.DictReader((study.out / "study.csv").read_text("utf-8").splitlines()))
        objects = json.loads((study.out / "study.json").read_text("utf-8"))
        as_text = [{key: "" if value is None else str(value) for key, value in each.items()} for each in objects]
        assert as_text == rows
    return Outcome(status, said.out, said.err, rows)


@contextmanager
def without_privileges(folder: Path, mode: int = 0o555) -> Iterator[None]:
    """With this mode of the folder, and where the test is run by root, as another user."""
    was = os.geteuid()
    folder.chmod(mode)
    try:
        if was == 0:
            os.seteuid(NOBODY)
        yield
    finally:
        os.seteuid(was)
        folder.chmod(0o755)
