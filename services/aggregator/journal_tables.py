"""The tables of the journal, and how results are looked for."""

from dataclasses import dataclass

VERSION = 1

TABLES = """
CREATE TABLE IF NOT EXISTS streams (
    stream INTEGER PRIMARY KEY, site TEXT NOT NULL, dut TEXT NOT NULL, meter TEXT NOT NULL, timeline_id TEXT NOT NULL,
    boot_id TEXT, wall_minus_monotonic_ns INTEGER, model TEXT NOT NULL, kind TEXT NOT NULL, period_ns INTEGER NOT NULL,
    first_ns INTEGER NOT NULL, watermark_ns INTEGER NOT NULL, next_seq INTEGER NOT NULL,
    forgotten_ns INTEGER NOT NULL DEFAULT 0,
    UNIQUE (site, dut, meter, timeline_id)
);
CREATE TABLE IF NOT EXISTS batches (
    batch INTEGER PRIMARY KEY, stream INTEGER NOT NULL, seq INTEGER NOT NULL, start_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL, arrived_ns INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE (stream, seq)
);
CREATE INDEX IF NOT EXISTS batches_by_time ON batches (stream, until_ns);
CREATE TABLE IF NOT EXISTS events (
    arrival INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, site TEXT NOT NULL, dut TEXT NOT NULL,
    run_id TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, timeline_id TEXT NOT NULL,
    boot_id TEXT, wall_minus_monotonic_ns INTEGER, arrived_ns INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0, overdue INTEGER NOT NULL DEFAULT 0, payload BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS events_held ON events (done) WHERE done=0;
CREATE INDEX IF NOT EXISTS events_by_time ON events (site, dut, end_ns);
CREATE TABLE IF NOT EXISTS results (
    result INTEGER PRIMARY KEY, event_id TEXT NOT NULL, meter TEXT NOT NULL, revision INTEGER NOT NULL,
    site TEXT NOT NULL, dut TEXT NOT NULL, run_id TEXT NOT NULL, operation TEXT NOT NULL, parameter_set TEXT NOT NULL,
    backend TEXT NOT NULL, start_ns INTEGER NOT NULL, quality TEXT NOT NULL,
    published INTEGER NOT NULL DEFAULT 0, payload TEXT NOT NULL,
    UNIQUE (event_id, meter, revision)
);
CREATE INDEX IF NOT EXISTS results_unpublished ON results (published) WHERE published=0;
CREATE INDEX IF NOT EXISTS results_by_time ON results (site, dut, operation, parameter_set, start_ns);
CREATE TABLE IF NOT EXISTS outbox (
    line_id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, made_ns INTEGER NOT NULL, line TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS outbox_droppable ON outbox (line_id) WHERE kind<>'energy';
CREATE TABLE IF NOT EXISTS outbox_totals (
    kind TEXT PRIMARY KEY, lines INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0
);
CREATE TRIGGER IF NOT EXISTS outbox_grows AFTER INSERT ON outbox BEGIN
    INSERT INTO outbox_totals (kind, lines, bytes) VALUES (new.kind, 1, length(CAST(new.line AS BLOB)))
    ON CONFLICT (kind) DO UPDATE SET lines=lines+1, bytes=bytes+excluded.bytes;
END;
CREATE TRIGGER IF NOT EXISTS outbox_shrinks AFTER DELETE ON outbox BEGIN
    UPDATE outbox_totals SET lines=lines-1, bytes=bytes-length(CAST(old.line AS BLOB)) WHERE kind=old.kind;
END;
CREATE TABLE IF NOT EXISTS dead_letters (
    letter INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, line TEXT NOT NULL, reason TEXT NOT NULL,
    buried_ns INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS store_progress (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS pools (
    pool INTEGER PRIMARY KEY, site TEXT NOT NULL, dut TEXT NOT NULL, backend TEXT NOT NULL, operation TEXT NOT NULL,
    parameter_set TEXT NOT NULL, variant TEXT NOT NULL, key TEXT NOT NULL UNIQUE, published INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS pools_by_topic ON pools (site, dut, backend, operation, parameter_set, variant);
CREATE INDEX IF NOT EXISTS pools_unpublished ON pools (published) WHERE published=0;
CREATE TABLE IF NOT EXISTS pooled_trains (
    event_id TEXT NOT NULL, meter TEXT NOT NULL, pool INTEGER NOT NULL, start_ns INTEGER NOT NULL,
    net_j REAL NOT NULL, u_j REAL NOT NULL, dof REAL, gain_u REAL NOT NULL, flags TEXT NOT NULL,
    PRIMARY KEY (event_id, meter)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pooled_trains_by_time ON pooled_trains (pool, start_ns, event_id);
CREATE TABLE IF NOT EXISTS power_done (stream INTEGER PRIMARY KEY, done_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS power_late (stream INTEGER NOT NULL, start_ns INTEGER NOT NULL, until_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS clocks (
    clock INTEGER PRIMARY KEY, asker TEXT NOT NULL, site TEXT NOT NULL, service TEXT NOT NULL,
    timeline_id TEXT NOT NULL, UNIQUE (site, service, timeline_id, asker)
);
CREATE TABLE IF NOT EXISTS exchanges (
    exchange INTEGER PRIMARY KEY, clock INTEGER NOT NULL, t1_ns INTEGER NOT NULL, t2_ns INTEGER NOT NULL,
    t3_ns INTEGER NOT NULL, t4_ns INTEGER NOT NULL, arrived_ns INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS exchanges_by_publisher ON exchanges (clock, t2_ns);
CREATE INDEX IF NOT EXISTS exchanges_by_asker ON exchanges (clock, t1_ns);
CREATE TABLE IF NOT EXISTS clock_limits (event_id TEXT PRIMARY KEY, last_exchange INTEGER NOT NULL) WITHOUT ROWID;
"""

VARIANT = "CASE WHEN json_valid(payload) THEN json_extract(payload, '$.variant') END"
"""The variant of a result in SQL; null where the row is damaged."""
_COLUMNS = {
    name: name for name in ("event_id", "site", "dut", "run_id", "operation", "parameter_set", "backend", "quality")
} | {"variant": VARIANT}

NEAR = 16
"""How many results the question for the nearest ones gives."""


@dataclass(frozen=True, slots=True)
class ResultFilter:
    """Which results are wanted: those that have every value that is given here; start in [after_ns, before_ns]."""

    event_id: str | None = None
    site: str | None = None
    dut: str | None = None
    run_id: str | None = None
    operation: str | None = None
    parameter_set: str | None = None
    backend: str | None = None
    variant: str | None = None
    quality: str | None = None
    after_ns: int | None = None
    before_ns: int | None = None

    def sql(self, near_ns: int | None = None) -> tuple[str, list[str | int]]:
        """The query for the last revisions, and its values.

        A result without a meter (no samples came in time) counts only while no meter has one for the same train.
        """
        conditions = {f"{sql}=?": getattr(self, name) for name, sql in _COLUMNS.items()}
        conditions |= {"start_ns>=?": self.after_ns, "start_ns<=?": self.before_ns}
        given = {condition: value for condition, value in conditions.items() if value is not None}
        order = (
            "start_ns, event_id, meter" if near_ns is None else f"abs(start_ns-{int(near_ns)}), start_ns LIMIT {NEAR}"
        )
        sql = (
            "SELECT payload FROM results r WHERE revision="
            "(SELECT max(revision) FROM results WHERE event_id=r.event_id AND meter=r.meter)"
            " AND (meter<>'' OR NOT EXISTS (SELECT 1 FROM results WHERE event_id=r.event_id AND meter<>''))"
            f"{''.join(f' AND {condition}' for condition in given)} ORDER BY {order}"
        )
        return sql, list(given.values())
