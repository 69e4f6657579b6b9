"""The journal's pools: which trains belong together, up to which result they are known, what the broker has of them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from aggregator.journal_file import JournalFile
from aggregator.pooling import MOST_TRAINS, PooledTrain, PoolKey, pool_key, pooled_train
from aggregator.uncertainty import Standard
from schemas import EnergyResult

Topic = tuple[str, str, str, str, str, str]
"""Site, DUT, backend, operation, parameter set, variant: what pools of one topic share."""
_TOPIC = "site, dut, backend, operation, parameter_set, variant"
_NEWEST = f"""
SELECT p.pool, p.key, t.event_id, (SELECT count(*) FROM pooled_trains WHERE pool=p.pool)
FROM pools p JOIN pooled_trains t ON t.pool=p.pool AND t.event_id=(
    SELECT event_id FROM pooled_trains WHERE pool=p.pool ORDER BY start_ns DESC, event_id DESC LIMIT 1)
WHERE {" AND ".join(f"p.{name}=?" for name in _TOPIC.split(", "))} ORDER BY t.start_ns DESC, t.event_id DESC
"""
"""The pools of a topic with their last train and how many they have, newest first."""


class JournalPools:
    """All but `unpublished`, `newest` and `trains` belongs into a transaction."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """For trains that are taken, with all that follows from them."""
        with self._file.transaction():
            yield

    def row(self) -> int:
        """The last row of the results that is in its pool; 0 where none ever was."""
        found = self._file.db.execute("SELECT value FROM store_progress WHERE name='pools'").fetchone()
        return 0 if found is None else int(found[0])

    def set_row(self, row: int) -> None:
        """Say up to which row the results are in their pools."""
        self._file.db.execute("INSERT OR REPLACE INTO store_progress (name, value) VALUES ('pools', ?)", (row,))

    def pool_of(self, result: EnergyResult) -> int | None:
        """The pool that a train's earlier revision at this meter is in."""
        wanted = "SELECT pool FROM pooled_trains WHERE event_id=? AND meter=?"
        row = self._file.db.execute(wanted, (str(result.event_id), result.meter or "")).fetchone()
        return None if row is None else int(row[0])

    def put(self, result: EnergyResult) -> int | None:
        """Put a result in its pool, in the place of its earlier revision; None for one that is not pooled."""
        identity = (str(result.event_id), result.meter or "")
        self._file.db.execute("DELETE FROM pooled_trains WHERE event_id=? AND meter=?", identity)
        key = pool_key(result)
        if key is None:
            return None
        pool, train = self._pool(key), pooled_train(result)
        self._file.db.execute(
            "INSERT INTO pooled_trains (event_id, meter, pool, start_ns, net_j, u_j, dof, gain_u, flags)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *identity,
                pool,
                train.start_ns,
                train.net_j,
                train.own_j.u,
                train.own_j.dof,
                train.gain_u,
                " ".join(train.flags),
            ),
        )
        return pool

    def _pool(self, key: PoolKey) -> int:
        text = key.model_dump_json()
        self._file.db.execute(
            f"INSERT OR IGNORE INTO pools ({_TOPIC}, key) VALUES (?, ?, ?, ?, ?, ?, ?)", (*_topic(key), text)
        )
        return int(self._file.db.execute("SELECT pool FROM pools WHERE key=?", (text,)).fetchone()[0])

    def key(self, pool: int) -> PoolKey:
        """What the trains of a pool have in common."""
        (text,) = self._file.db.execute("SELECT key FROM pools WHERE pool=?", (pool,)).fetchone()
        return PoolKey.model_validate_json(text)

    def trains(self, pool: int) -> list[PooledTrain]:
        """The last trains of a pool, newest first."""
        rows = self._file.db.execute(
            "SELECT event_id, start_ns, net_j, u_j, dof, gain_u, flags FROM pooled_trains WHERE pool=?"
            " ORDER BY start_ns DESC, event_id DESC LIMIT ?",
            (pool, MOST_TRAINS),
        )
        return [
            PooledTrain(event_id, start_ns, net_j, Standard(u_j, dof), gain_u, tuple(flags.split()))
            for event_id, start_ns, net_j, u_j, dof, gain_u, flags in rows
        ]

    def newest(self, topic: Topic) -> int | None:
        """The pool of a topic that has the newest train; of several meters that saw it one, always the same.

        Measured before simulated, more trains before fewer, then by the meter's name.
        """
        rows = self._file.db.execute(_NEWEST, topic).fetchall()
        found = [
            ((key := PoolKey.model_validate_json(text)).simulated, -trains, key.meter, int(pool))
            for pool, text, event_id, trains in rows
            if event_id == rows[0][2]
        ]
        return min(found)[-1] if found else None

    def mark_changed(self, pool: int) -> None:
        """The broker has another mean of this pool."""
        self._file.db.execute("UPDATE pools SET published=0 WHERE pool=?", (pool,))

    def unpublished(self) -> list[tuple[int, Topic]]:
        """The first 500 pools of which the broker has another mean, or none."""
        rows = self._file.db.execute(f"SELECT pool, {_TOPIC} FROM pools WHERE published=0 ORDER BY pool LIMIT 500")
        return [(int(pool), tuple(topic)) for pool, *topic in rows]

    def mark_published(self, pools: Iterable[int]) -> None:
        """The broker has these."""
        self._file.db.executemany("UPDATE pools SET published=1 WHERE pool=?", [(pool,) for pool in pools])


def _topic(key: PoolKey) -> Topic:
    return (key.site, key.dut, key.backend, key.operation, key.parameter_set, key.variant)
