"""Counts of what a reader would not expect in rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from palate.data.account import KEPT, Account
from palate.data.columns import PEOPLE, plain_form
from palate.data.rows import KNOWN, REMOVED
from palate.data.types import IDENTIFIERS, WHOLE, is_missing, lost_zeros
from palate.records import PreferencePair, Question, is_nobody, normal_form

IN_BRACKETS = re.compile(
    r"""\s*(?:\[\s*(['"]).*\1\s*\]|\(\s*(['"]).*\2\s*,?\s*\)|\[\s*\{.*\}\s*\]|"""
    r"""\{\s*['"](?:role|content|from|value|text)['"]\s*:.*\})\s*\Z""",
    re.DOTALL,
)
"""A text that is a list of texts, a tuple of them, or one message or more."""
GONE = "were removed by their author or a moderator"
WRAPPED = 0.3
"""Share of the rows from which on such a form is told."""
TELLING = 12  # letters from which on a response within a question is no chance
PERSON = re.compile(
    rf"(?!chosen_|rejected_)(?:.*[_:.])?(?:{'|'.join(PEOPLE)}|persona|coder|turker|grader|author"
    r"|performer|subject|user_?name|e_?mail|(?:created|completed|annotated|rated|submitted)_by)"
    r"(?:_(?:id|name|code|hash|e?mail|add?resse?|pid|index|no|number|key))*"
)
"""Names of columns, in plain form, that may say who chose."""
STATE = re.compile(
    r"(?:.*[_:.])?(?:status|state|finished|done|completed|submitted|approved|rejected|accepted"
    r"|valid|spam|tainted|trusted|flagged|deleted|skipped|discarded|cancelled|preview|passed"
    r"|(?:golden|attention)(?:[_:.].*)?|criteri(?:on|a)|aspect|dimension|attribute|metric|principle"
    r"|(?:question|task|rating)_type)"
)
"""Names of columns that may say that a row does not count, or by what it compares."""
PLACE = re.compile(
    r"(?:.*[_:.])?(?:left|right|swap(?:ped)?|flip(?:ped)?|shuffled?|reversed?|shown_first"
    r"|first_shown)(?:_(?:model|system|response))?|(?:(?:display|presentation|screen)_)?order"
)
"""Names of columns that may say which response stood on which side."""
TURN = re.compile(r"(?:turn|round)(?:_(?:id|index|idx|no|number))?")  # of how many before
STATES = 8  # values that such a column has at most


class RowNotes:
    """Counts of what stands in the rows; none of them is kept."""

    def __init__(self) -> None:
        self.rows, self.unnamed, self.pointed, self.partly_dated = 0, 0, 0, 0
        self.wrapped, self.judged, self.followed = [0, 0], 0, False
        self.columns: set[str] = set()
        self.holding: Counter[str] = Counter()
        self.unknown: dict[str, Counter[str] | None] = {}
        """Columns that nothing is read from, and what those hold that may say what a row is."""
        self.users: set[str] = set()
        self.traits: set[tuple[str, str]] = set()
        self.left_out: dict[str, list[str]] = {}
        self.votes: set[int] = set()
        self.against_nobody = 0
        self.equal: list[str] = []
        self.opposite: list[str] = []

    def take(
        self, row: Mapping[str, Any], question: Question, left_out: Sequence[str], place: str
    ) -> None:
        """Count a row, what it was read as, and the fields of the posts it lost."""
        self.rows += 1
        self.followed |= bool(question.turns)
        ids = [row.get(name) for name in IDENTIFIERS]
        self.pointed += any(isinstance(name, str) and bool(WHOLE.fullmatch(name)) for name in ids)
        self.partly_dated += len({post.date is None for post in question.profile}) > 1
        self.columns.update(row)
        self.traits.update(question.traits.items())
        for name, value in question.extra.items():
            if name not in self.unknown:
                form = plain_form(name)
                telling = any(names.fullmatch(form) for names in (PERSON, STATE, PLACE, TURN))
                self.unknown[name] = Counter() if telling else None
            if (counted := self.unknown[name]) is not None and value != "":
                counted[str(value)] += 1
            if isinstance(question, PreferencePair) and isinstance(value, str):
                asked, answer = question.text, question.chosen
                more = len(value) - TELLING > len(asked) >= TELLING
                self.holding[name] += more and asked in value and answer not in value
        for field in left_out:
            reason = GONE if field.endswith(REMOVED) else "hold their row's question"
            self.left_out.setdefault(reason, []).append(f"{place}, {field.removesuffix(REMOVED)}")
        named = not is_missing(who := row.get("user_id")) and who not in (None, "")
        if not named:
            self.unnamed += 1
        else:
            self.users.add(question.user_id)
        if not isinstance(question, PreferencePair):
            return
        marks = [bool(IN_BRACKETS.match(text)) for text in (question.chosen, question.rejected)]
        for side, mark in enumerate(marks):
            self.wrapped[side] += mark and not all(marks)
        both = (question.chosen.strip(), question.rejected.strip())
        self.judged += all(len(text) >= TELLING and text in question.text for text in both)
        if not question.tie:
            before = tuple((turn.role, normal_form(turn.content)) for turn in question.turns)
            key = question.user_id if named else None, before, normal_form(question.text)
            first, second = normal_form(question.chosen), normal_form(question.rejected)
            vote = hash((*key, first, second))
            if named and vote in self.votes:
                self.equal.append(place)
            if hash((*key, second, first)) in self.votes:
                self.opposite += [place] * named
                self.against_nobody += not named
            self.votes.add(vote)

    def write(self, account: Account, *, order_as_in_file: bool) -> None:
        """Say what was counted."""
        for reason, posts in self.left_out.items():
            account.say(f"{len(posts)} posts that {reason} are left out", f"the first: {posts[0]}")
        rows, wrapped = self.rows, max(self.wrapped)
        for counted, line in (
            (self.partly_dated, f"in {self.partly_dated} profiles some posts have no date: there "
             "the order of the file counts, oldest first"),
            (order_as_in_file, "dates are not read (--order-as-in-file): posts and choices stand "
             "as in the file, oldest first"),
            (wrapped >= max(WRAPPED * rows, 2), f"in {wrapped} of {rows} rows one response alone "
             "stands in brackets, as a list or a message: a scorer can tell the two by that"),
            (self.judged >= max(WRAPPED * rows, 2), f"in {self.judged} of {rows} rows the question "
             "holds both responses, as a judge's prompt does: --map question=COLUMN names another"),
            (self.unnamed and self.users, f"{self.unnamed} of {rows} rows name no user, where "
             "others do: each a user of its own in couples, nobody in agreement and ceilings"),
            (self.against_nobody, f"{self.against_nobody} votes are against an earlier one, and "
             "neither names a user: two who differ in couples, nobody in agreement and ceilings"),
            (self.pointed, f"in {self.pointed} rows an id ends in .0, and is read without"),
        ):  # fmt: skip
            if counted:
                account.say(line)
        alike = {("ids", "users"): self.users}
        for of, value in sorted(self.traits):
            if value and not is_nobody(value):
                alike.setdefault((f"values of {of}", "kinds"), set()).add(value)
        for (what, whom), names in alike.items():
            if twins := lost_zeros(names):
                line = f"two {what} differ in zeros or capitals alone: two {whom}?"
                account.say(line, "{!r} and {!r}".format(*twins))
        for places, what in (
            (self.equal, "equal votes of one person, each counted"),
            (self.opposite, "votes of one person against an earlier one of theirs, each counted"),
        ):
            if places:
                account.merge(what, len(places), f"the first: {places[0]}")
        read = sorted(KNOWN & self.columns) if account.layout == "contract" else []
        of_rows = {name: name for name in read} | dict.fromkeys(sorted(self.unknown), KEPT)
        account.columns = of_rows | account.columns
        for line, example in self._unread(account.layout):
            account.say(line, example)

    def _unread(self, layout: str) -> Iterator[tuple[str, str]]:
        """Yield what columns may say of who chose, and of rows that do not count; and of what."""
        for name, n in self.holding.items():
            if n >= max(WRAPPED * self.rows, 2):
                flag = f"--map question={quote(name)} asks all of it"
                yield f"`{name}` holds the question and more, and is not read; {flag}", ""
        for name, counted in self.unknown.items():
            if not counted:
                continue
            form, flag = plain_form(name), f"--map {{}}={quote(name)}"
            filled, empty = counted.total(), self.rows - counted.total()
            if PERSON.fullmatch(form) and not self.users and 1 < len(counted) < filled:
                line = f"no column is read as who chose; {flag.format('user_id')} may name them"
                yield line, ""
            if TURN.fullmatch(form) and not self.followed and 1 < len(counted) < filled:
                what = f"`{name}` may count earlier turns, and none is read; {flag.format('split')}"
                yield f"{what} --split VALUE reads the rows of one", ", ".join(sorted(counted))
            states = len(counted) + bool(empty)
            if not 1 < states <= STATES or len(counted) >= filled:
                continue
            if PLACE.fullmatch(form) and layout == "vote":
                yield (
                    f"`{name}` may say which response stood where, and is not read: a vote for a "
                    "side is one for its column in every row",
                    ", ".join(sorted(counted)),
                )
            if STATE.fullmatch(form):
                listed = ", ".join(f"{value} {n}" for value, n in counted.most_common())
                listed += f", nothing {empty}" if empty else ""
                yield (
                    f"`{name}` tells rows apart, and every row is read; {flag.format('split')} "
                    "--split VALUE reads those of one value",
                    listed,
                )
