"""Places: who is asked which list, and who goes on with a list that somebody left."""

from __future__ import annotations

import base64
import hmac
import secrets
import sqlite3
from collections.abc import Sequence
from hashlib import sha256

from palate.study.folder import Study
from palate.study.records import ListEntry
from palate.study.store.database import value_of
from palate.study.store.sessions import add_entries, state_of


def hashed(token: str) -> str:
    """Return all that is kept of a token."""
    return sha256(token.encode()).hexdigest()


def arrival_token(db: sqlite3.Connection, arrival: str) -> str:
    """Return the token of who arrives under this id, always the same."""
    secret = bytes.fromhex(value_of(db, "secret") or "")
    given = hmac.digest(secret, arrival.encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(given[:24]).decode()


def rater_names(study: Study) -> list[str]:
    """Return the names of the planned raters, in the order of their places."""
    return [_name(study, number) for number in range(1, study.plan.raters + 1)]


def planned_list(study: Study, place: int) -> Sequence[ListEntry]:
    """Return what a place is asked, less what was forgotten; nothing of a collection."""
    if study.plan.mode == "collect":
        return ()
    return [entry for entry in study.plan.lists[place] if entry.item in study.items]


def issue_links(db: sqlite3.Connection, study: Study, now: float) -> dict[str, str]:
    """Give every place that is free a token; once."""
    if value_of(db, "links"):
        return {}
    db.execute("INSERT INTO study VALUES ('links', 'issued')")
    tokens = {}
    for place, name in enumerate(rater_names(study)):
        if not _given(db, name):
            tokens[name] = secrets.token_urlsafe(24)
            add_rater(db, study, name, place, now, token=tokens[name])
    return tokens


def take_place(
    db: sqlite3.Connection, study: Study, token: str, now: float, stale: float
) -> str | None:
    """Give who arrives the next place; None where none is free.

    When every place was given once, what is open of one goes to a new rater: what a closed or
    deleted rater did not answer, and one who was last seen before `stale`, who is closed by it.
    """
    names = rater_names(study)
    for place, name in enumerate(names):
        if not _given(db, name):
            add_rater(db, study, name, place, now, token=token, arrived=True)
            return name
    for place in range(len(names)):
        live = [name for name, *_ in _raters_at(db, place) if _holds(db, study, name, stale)]
        if (entries := _open_entries(db, study, place, live)) is None:
            continue
        for (name,) in db.execute(
            "SELECT rater FROM raters WHERE place = ? AND closed = 0", (place,)
        ).fetchall():
            if name not in live:
                db.execute("UPDATE raters SET closed = 1 WHERE rater = ?", (name,))
        numbers = [int(name[1:]) for (name,) in db.execute("SELECT rater FROM names")]
        name = _name(study, max(numbers) + 1)
        add_rater(db, study, name, place, now, token=token, arrived=True, entries=entries)
        return name
    return None


def add_rater(
    db: sqlite3.Connection,
    study: Study,
    name: str,
    place: int,
    now: float,
    *,
    token: str | None = None,
    arrived: bool = False,
    entries: Sequence[ListEntry] | None = None,
) -> None:
    """Let a rater take a place, with its list or what is open of it."""
    db.execute("INSERT INTO names VALUES (?)", (name,))
    db.execute(
        "INSERT INTO raters (rater, place, token, arrived, seen) VALUES (?, ?, ?, ?, ?)",
        (name, place, None if token is None else hashed(token), arrived, now),
    )
    add_entries(db, study, name, planned_list(study, place) if entries is None else entries)


def _open_entries(
    db: sqlite3.Connection, study: Study, place: int, live: Sequence[str]
) -> Sequence[ListEntry] | None:
    """Return what nobody answered and nobody is about to; None where the place is taken."""
    if study.plan.mode == "collect":
        return None if live else ()
    taken = {
        item
        for name, *_ in _raters_at(db, place)
        for item, answered in db.execute(
            "SELECT item, choice IS NOT NULL FROM entries "
            "LEFT JOIN answers USING (rater, position) WHERE rater = ?",
            (name,),
        )
        if answered or name in live
    }
    return [entry for entry in planned_list(study, place) if entry.item not in taken] or None


def _holds(db: sqlite3.Connection, study: Study, rater: str, stale: float) -> bool:
    """Tell whether a rater is at work, or done; a personal link is never given away."""
    arrived, seen, closed = db.execute(
        "SELECT arrived, seen, closed FROM raters WHERE rater = ?", (rater,)
    ).fetchone()
    at_work = not closed and (not arrived or seen >= stale)
    return at_work or state_of(db, study, rater).finished


def _raters_at(db: sqlite3.Connection, place: int) -> list[tuple[str]]:
    return db.execute("SELECT rater FROM raters WHERE place = ?", (place,)).fetchall()


def _given(db: sqlite3.Connection, name: str) -> bool:
    return db.execute("SELECT 1 FROM names WHERE rater = ?", (name,)).fetchone() is not None


def _name(study: Study, number: int) -> str:
    return f"r{number:0{max(2, len(str(study.plan.raters)))}d}"
