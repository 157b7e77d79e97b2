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
from palate.study.store.sessions import add_entries, session_of, state_of


def hashed(token: str) -> str:
    """Return all that is kept of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def arrival_token(db: sqlite3.Connection, arrival: str) -> str:
    """Return the token of who arrives under this id, always the same."""
    secret = bytes.fromhex(value_of(db, "secret") or "")
    given = hmac.digest(secret, arrival.encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(given[:24]).decode()


def rater_name(study: Study, place: int) -> str:
    """Return the name of who first takes a place."""
    return f"r{place + 1:0{max(2, len(str(study.plan.raters)))}d}"


def planned_list(study: Study, place: int) -> Sequence[ListEntry]:
    """Return what a place is asked, less what was forgotten; nothing of a collection."""
    planned = study.plan.lists[place] if study.plan.mode == "judge" else ()
    return [entry for entry in planned if entry.item in study.items]


def free_places(db: sqlite3.Connection, study: Study) -> dict[str, int]:
    """Return the places that nobody ever took, by the name of who will."""
    taken = {name for (name,) in db.execute("SELECT rater FROM raters")}
    names = {rater_name(study, place): place for place in range(study.plan.raters)}
    return {name: place for name, place in names.items() if name not in taken}


def issue_links(db: sqlite3.Connection, study: Study) -> dict[str, str]:
    """Give every place that is free a token; once."""
    tokens: dict[str, str] = {}
    if not value_of(db, "links"):
        db.execute("INSERT INTO study VALUES ('links', 'issued')")
        for name, place in free_places(db, study).items():
            tokens[name] = secrets.token_urlsafe(24)
            _seat(db, name, place, planned_list(study, place), tokens[name])
    return tokens


def take_place(
    db: sqlite3.Connection, study: Study, token: str, now: float, stale: float
) -> str | None:
    """Give who arrives the next place and return the new rater; None where none is free.

    When every place was taken once, what is open of one goes to a new rater: what a closed or
    deleted rater did not answer, and one who was last seen before `stale`, who is closed by it.
    """
    for name, place in free_places(db, study).items():
        return _seat(db, name, place, planned_list(study, place), token, now)
    for place in range(study.plan.raters):
        live: list[str] = []
        taken: set[str] = set()
        for name, arrived, seen, closed in db.execute(
            "SELECT rater, arrived, seen, closed FROM raters WHERE place = ?", (place,)
        ).fetchall():
            # A personal link is never given away while it is open.
            at_work = not closed and (not arrived or seen >= stale)
            if at_work or state_of(db, study, name).finished:
                live.append(name)
            session = session_of(db, name)
            taken |= {entry.item for entry, given in session if given or name in live}
        entries = [entry for entry in planned_list(study, place) if entry.item not in taken]
        if entries if study.plan.mode == "judge" else not live:
            marks = ", ".join("?" * len(live))
            left = f"place = ? AND rater NOT IN ({marks})"
            db.execute(f"UPDATE raters SET closed = 1 WHERE {left}", (place, *live))
            names = [int(name[1:]) for (name,) in db.execute("SELECT rater FROM raters")]
            return _seat(db, rater_name(study, max(names)), place, entries, token, now)
    return None


def seat_known(db: sqlite3.Connection, study: Study, name: str) -> bool:
    """Let a planned rater take a free place without a link; tell whether there was one."""
    place = free_places(db, study).get(name)
    if place is not None:
        _seat(db, name, place, planned_list(study, place))
    return place is not None


def _seat(
    db: sqlite3.Connection, name: str, place: int, entries: Sequence[ListEntry],
    token: str | None = None, arrived: float | None = None,
) -> str:  # fmt: skip
    db.execute(
        "INSERT INTO raters (rater, place, token, arrived, seen) VALUES (?, ?, ?, ?, ?)",
        (name, place, token and hashed(token), arrived is not None, arrived or 0),
    )
    add_entries(db, name, entries)
    return name
