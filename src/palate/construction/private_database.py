"""A build's private database on disk.

SQLite opens a database without a name in a temporary file that the system takes away with the
process, so that a killed build leaves nothing; `TMPDIR` says where it lies.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

from palate.records.dates import EPOCH

CACHE_KIB = 16 * 2**10


def private_database(tables: str) -> sqlite3.Connection:
    """Return a database with these tables, in a transaction that is never written out."""
    db = sqlite3.connect("", isolation_level=None)
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    db.execute("PRAGMA journal_mode = OFF")
    db.executescript(tables)
    db.execute("BEGIN")
    return db


def microseconds(moment: datetime) -> int:
    """Return how long after 1970 a moment is."""
    return (moment - EPOCH) // timedelta(microseconds=1)
