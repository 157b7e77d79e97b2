"""The rows that a benchmark loads: questions, or pairs where their users chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from palate.benchmarks.votes import EvaluatedVotes, are_mirrors, vote_of
from palate.data import (
    Account,
    LayoutOptions,
    LoadOptions,
    collect,
    content_hash,
    lost_zeros,
    rows_of_frame,
    structured_columns,
    understood,
)
from palate.errors import BenchmarkError, DataError
from palate.records import DistinctNames, PreferencePair, Question, UserPool
from palate.seeding import rng
from palate.words import shortened

PAST = "adapt"
"""The split whose rows are the users' past choices."""


@dataclass(frozen=True, repr=False)
class Dataset:
    """Loaded rows, and what was left out on the way."""

    name: str
    rows: tuple[Question, ...]
    revision: str | None = None
    """The commit a hub benchmark was loaded at."""
    bad_rows: tuple[DataError, ...] = ()
    unknown_columns: tuple[str, ...] = ()
    ties: int = 0
    """Rows the user called a tie: counted, left out of accuracy."""
    undecided: tuple[PreferencePair, ...] = ()
    """Those of them that are rated: scored where scores are held against ratings, and by `palate
    score`. None beside the couples of a larger set."""
    unrated: tuple[PreferencePair, ...] = ()
    """The others, scored by `palate score` alone."""
    mirrored: bool = False
    """True where every row is a pair and stands in a couple with the pair it is a mirror of."""
    split: str | None = None
    mirrors: str | None = None
    """`only` where the pairs are the mirrored couples of a larger set."""
    agreed: int | None = None
    """Where the pairs are those on which all users agree: of how many decided pairs."""
    limited: int | None = None
    """The limit they were drawn under."""
    window: Mapping[str, str] = field(default_factory=dict)
    """`since` and `until` where they were given: the days whose rows these are."""
    halves_left_out: int = 0
    """Rows of those days left out since the other row of their couple is of another day."""
    columns: Mapping[str, str] = field(default_factory=dict)
    order_as_in_file: bool = False
    """True where no date was read."""
    reading: str | None = None
    """The layout that was read, column by column; None for the contract's own."""
    account: Account | None = None
    """What was made of the columns and rows of the file or frame."""
    command: tuple[str, ...] = ()
    """The words of a command line that read it, draws and days apart; none of rows in memory."""
    everyone: tuple[Question, ...] = ()
    """Rows that the users are gathered from, where they are more than `rows`: a limited or
    mirrored set, and one of some days, keeps the whole split's, so that who is whose stranger does
    not change."""
    history: tuple[PreferencePair, ...] = ()
    """The users' past choices: the decided rows of the split `adapt` where another was selected.
    `limit` and `mirrors` leave them alone; `until` leaves out the later ones."""
    votes: tuple[Question, ...] = ()
    """All rows that were read, and past choices from elsewhere: what `--agreed only` counts."""
    history_left_out: int = 0
    """Past choices left out because they are one of their user's evaluated pairs."""

    def __repr__(self) -> str:
        """Return a few lines: what there is, and what was left out."""
        counts = {
            "rows": len(self.rows),
            "users": len({row.user_id for row in self.rows}),
            "mirrored couples": len(self.couples),
            "undecided": self.ties,
            "bad rows": len(self.bad_rows),
            "past choices": len(self.history),
        }
        parts = [f"{n:,} {what}" for what, n in counts.items() if n]
        first = shortened(" ".join(self.rows[0].text.split()), 76) if self.rows else "empty"
        lines = [f"Dataset {self.name}: {', '.join([*parts, f'split {self.split}'])}"]
        return "\n  ".join([*lines, *([self.reading] if self.reading else []), first])

    @classmethod
    def from_rows(
        cls, name: str, rows: Iterable[Mapping[str, Any]], *, order_as_in_file: bool = False
    ) -> Dataset:
        """Check rows under the row contract, as those of a file are; raises `DataError`.

        With `order_as_in_file` no date is read.

        >>> row = {"id": 1, "user_id": "ann", "question": "Tea?", "responses": ["Yes.", "No."]}
        >>> Dataset.from_rows("teas", [row]).rows[0].text
        'Tea?'
        """
        options = LoadOptions(order_as_in_file=order_as_in_file)
        loaded = collect(enumerate(rows, 1), Account(name), name, options)
        return as_mirrored(cls(name, **loaded.fields(options)))

    @classmethod
    def of(
        cls,
        frame: Any,
        name: str = "frame",
        *,
        posts: Any = None,
        columns: Mapping[str, str] | None = None,
        skip_bad_rows: bool = False,
        order_as_in_file: bool = False,
        layout: str | LayoutOptions | None = None,
    ) -> Dataset:
        """Check the rows of a frame, of the contract or of a layout that is known.

        `posts` are what users wrote, as a path or in a form that `frame` may have: `--posts`.
        `columns` renames as `--map` does.

        Takes pandas and polars frames, pyarrow tables, `datasets.Dataset` objects and iterables of
        mappings. NaN, NaT and NA are missing. Raises `DataError` for a bad row, unless
        `skip_bad_rows`, and `UsageError` for what holds no rows.

        >>> row = {"id": 1, "question": "Tea?", "chosen": "Yes.", "rejected": "No."}
        >>> Dataset.of([row]).pairs[0].chosen
        'Yes.'
        """
        how = layout if isinstance(layout, LayoutOptions) else LayoutOptions(layout)
        if posts is not None:
            how = replace(how, posts=Path(posts) if isinstance(posts, str) else posts)
        options = LoadOptions(
            columns=columns or {},
            skip_bad_rows=skip_bad_rows,
            order_as_in_file=order_as_in_file,
            layout=how,
        )
        rows = rows_of_frame(frame, structured_columns(options.columns))
        loaded = understood(rows, Account(name), name, options)
        return as_mirrored(cls(name, **loaded.fields(options)))

    @cached_property
    def pairs(self) -> tuple[PreferencePair, ...]:
        """The rows, where all of them are pairs.

        Raises `BenchmarkError` where one is a question without a choice.
        """
        return need_pairs(self.rows, self.name)

    @cached_property
    def content_hash(self) -> str:
        """Hash of the rows, in their order, and of those that users are gathered from."""
        return content_hash((*self.rows, *self.everyone))

    @cached_property
    def history_hash(self) -> str:
        """Hash of the past choices; part of a run's identity where they are read."""
        return content_hash(self.history)

    @property
    def past(self) -> Dataset:
        """The past choices as a set of their own, with nothing of any other row."""
        empty: Any = dict.fromkeys(("undecided", "unrated", "everyone", "history", "votes"), ())
        return replace(self, rows=self.history, split=PAST, ties=0, mirrored=False, **empty)

    @property
    def how_read(self) -> dict[str, Any]:
        """The options that the rows were read and drawn by, as a run's identity has them."""
        return {
            "revision": self.revision,
            "split": self.split,
            "mirrors": self.mirrors,
            "limit": self.limited,
            "columns": dict(self.columns),
            **({"order": "as in file"} if self.order_as_in_file else {}),
            **({"agreed": "only"} if self.agreed else {}),
            **self.window,
        }

    @cached_property
    def couples(self) -> tuple[tuple[int, int], ...]:
        """Positions of the two pairs of each couple, each couple once.

        Two pairs are a couple where each names the other in `mirror_of` and they are mirrors: two
        users, one question, opposite choices between the same two responses.
        """
        named = {
            row.id: (i, row)
            for i, row in enumerate(self.rows)
            if isinstance(row, PreferencePair) and row.mirror_of
        }
        couples = []
        for i, pair in named.values():
            j, other = named.get(pair.mirror_of or "", (-1, pair))
            if i < j and are_mirrors(pair, other):
                couples.append((i, j))
        return tuple(couples)

    @cached_property
    def mirror_rows(self) -> tuple[int, ...]:
        """Of each pair, the position of the other of its couple; else -1."""
        rows = [-1] * len(self.rows)
        for a, b in self.couples:
            rows[a], rows[b] = b, a
        return tuple(rows)

    @cached_property
    def undecided_to_rate(self) -> tuple[PreferencePair, ...]:
        """Rated undecided rows, without those whose vote is a past choice of their user too."""
        learnt = {vote_of(past) for past in self.history}
        return tuple(row for row in self.undecided if vote_of(row) not in learnt)

    @cached_property
    def in_two_forms(self) -> frozenset[int]:
        """Positions of couples whose texts are one in normal form only: other bytes are read."""
        texts = [(row.key, row.view.responses) for row in self.rows]
        return frozenset(k for i, j in self.couples if texts[i] != texts[j] for k in (i, j))

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names of the subsets, in order of appearance."""
        return tuple(dict.fromkeys(row.subset for row in self.rows))

    @cached_property
    def gathered(self) -> tuple[Question, ...]:
        """The rows that users are gathered from, in the order of the file, each as it is here."""
        return tuple({row.id: row for row in (*self.everyone, *self.rows)}.values())

    def user_pools(self, seed: int = 0) -> dict[str, UserPool]:
        """Return the users of each subset, gathered once."""
        known, pools = set(self.subsets), {}
        for name in self.subsets:
            rows = [row for row in self.gathered if row.subset == name]
            users = {row.user_id for row in rows}
            # Choices from a file of their own may name no subset of this set: the user decides.
            past = [
                pair
                for pair in self.history
                if pair.subset == name or (pair.subset not in known and pair.user_id in users)
            ]
            pools[name] = UserPool.of(rows, seed, past)
        return pools

    def select(self, split: str | None = None) -> Dataset:
        """Return the rows of one split, undecided votes counted and left out.

        Where rows have a split and none is named, `test`; `all` takes every row. The rows of the
        split `adapt` go into `history` where another split is selected.
        """
        splits = {row.split for row in self.rows} - {None}
        wanted = split or ("test" if splits else "all")
        if wanted != "all" and wanted not in splits:
            known = ", ".join(sorted(str(s) for s in splits)) or "none: the rows have no split"
            raise BenchmarkError(
                f"{self.name} has no split {wanted!r} (splits: {known}; all takes every row)"
            )
        kept = [row for row in self.rows if wanted in ("all", row.split)]
        decided = tuple(row for row in kept if not getattr(row, "tie", False))
        if not decided:
            raise BenchmarkError(f"{self.name}, split {wanted!r}: no decided pair to evaluate")
        ties = len(kept) - len(decided)
        undecided = [row for row in kept if isinstance(row, PreferencePair) and row.tie]
        rated = tuple(row for row in undecided if row.gold.ratings != (None, None))
        unrated = tuple(row for row in undecided if row.gold.ratings == (None, None))
        past = [r for r in self.rows if wanted not in ("all", PAST) and r.split == PAST]
        selected = replace(self, rows=decided, ties=ties, undecided=rated, unrated=unrated)
        selected = replace(selected, split=wanted, votes=(*self.votes, *self.rows))
        return as_mirrored(selected).with_history(past)

    def with_history(self, rows: Iterable[Question], cast: Iterable[Question] = ()) -> Dataset:
        """Return the set with more past choices of its users, and votes `cast` that are none.

        Undecided choices are votes alone.

        A row that is one of its user's evaluated pairs (the same question and two responses, in
        whichever order), or was asked with a response of one at hand, is left out and counted.
        Raises `BenchmarkError` for a row with the id of an evaluated row, and for one that is no
        pair; `DataError` for a user whose id differs from an evaluated one's in form alone.
        """
        past = need_pairs((*self.history, *rows), f"{self.name}, past choices")
        known, anywhere = {row.subset for row in self.votes}, {"subset": ""}
        as_read = (
            row if row.subset in known else row.model_copy(update=anywhere)
            for row in (*past, *cast)
        )
        more = replace(self, votes=(*self.votes, *as_read))
        past = tuple(pair for pair in past if not pair.tie)
        if not past:
            return more
        evaluated = (*self.everyone, *self.rows)
        names = DistinctNames()
        for row in (*evaluated, *past):
            names.add("user", row.user_id, f"row {row.id!r}")
        users, choosers = {row.user_id for row in evaluated}, {pair.user_id for pair in past}
        if (twins := lost_zeros(choosers - users, users - choosers)) and twins[0].isdecimal():
            raise BenchmarkError(
                f"{self.name}: past choices are of {twins[0]!r} and rows of {twins[1]!r}: zeros "
                "are lost in one of the files"
            )
        votes = EvaluatedVotes(evaluated)
        untold = tuple(pair for pair in past if not votes.told_by(pair))
        ids = {row.id for row in evaluated}
        twice = next((pair.id for pair in untold if pair.id in ids), None)
        if twice is not None:
            raise BenchmarkError(
                f"{self.name}: the past choice {twice!r} has the id of an evaluated row; past "
                "choices are other rows, with ids of their own"
            )
        left_out = self.history_left_out + len(past) - len(untold)
        return replace(more, history=untold, history_left_out=left_out)

    def for_training(self, split: str | None = None) -> Dataset:
        """Return what may be learnt from: by default the split `adapt`, or all rows without splits.

        A vote that the same user casts in another split too, or that tells of one there, is left
        out and counted (`history_left_out`): it would be evaluated. Raises `BenchmarkError` where
        rows have splits and no `adapt`, and none is named.
        """
        splits = {row.split for row in self.rows} - {None}
        if split is None and not splits:
            return self.select("all")
        if split is None and PAST not in splits:
            raise BenchmarkError(
                f"{self.name} has no split {PAST!r}, which is learnt from by default (splits: "
                f"{', '.join(sorted(map(str, splits)))}); name one with --split"
            )
        chosen = self.select(split or PAST)
        if chosen.split == "all":
            return chosen
        apart = EvaluatedVotes(row for row in self.rows if row.split != chosen.split)
        rows = tuple(pair for pair in chosen.pairs if not apart.told_by(pair))
        if not rows:
            raise BenchmarkError(
                f"{self.name}: every row of {chosen.split} is in another split too"
            )
        left_out = len(chosen.pairs) - len(rows)
        return replace(chosen, rows=rows, history=(), history_left_out=left_out)

    def need_trait(self, name: str) -> None:
        """Raise `BenchmarkError`, with the traits that there are, where no row has this one."""
        known = {trait for row in self.rows for trait in row.traits}
        if name not in known:
            of = f"traits: {', '.join(sorted(known)) or 'none'}; --map traits={name} reads a column"
            raise BenchmarkError(f"{self.name} has no trait {name!r} ({of})")

    def limit(self, n: int | None, seed: int = 0) -> Dataset:
        """Return a seeded draw of n rows (couples, where all rows are mirrored), in file order.

        The same share of the undecided rows is drawn, rounded up.
        """
        units = self.couples if self.mirrored else tuple((i,) for i in range(len(self.rows)))
        if n is None or n >= len(units):
            return self
        drawn = rng("limit", seed, len(units)).permutation(len(units))[:n]
        keep = sorted(i for unit in drawn for i in units[int(unit)])
        drawn_rows = tuple(self.rows[i] for i in keep)

        def some(ties: tuple[PreferencePair, ...]) -> tuple[PreferencePair, ...]:
            order = rng("limit", "undecided", seed, len(ties)).permutation(len(ties))
            return tuple(ties[int(i)] for i in sorted(order[: -(-n * len(ties) // len(units))]))

        limited = replace(self, undecided=some(self.undecided), unrated=some(self.unrated))
        everyone = (*self.everyone, *self.rows)
        return replace(limited, rows=drawn_rows, limited=n, everyone=everyone)


def need_pairs(rows: Iterable[Question], where: str) -> tuple[PreferencePair, ...]:
    """Return rows as pairs; raises `BenchmarkError` where one is a question without a choice."""
    rows = tuple(rows)
    pairs = tuple(row for row in rows if isinstance(row, PreferencePair))
    if len(pairs) < len(rows):
        first = next(row.id for row in rows if not isinstance(row, PreferencePair))
        raise BenchmarkError(
            f"{where}: row {first!r} has no `chosen` and `rejected`; this needs pairs "
            "(--map chosen=COLUMN --map rejected=COLUMN; best-of-n takes questions)"
        )
    return pairs


def as_mirrored(dataset: Dataset) -> Dataset:
    """Return the set, marked as mirrored where every row stands in a couple; ties counted."""
    ties = sum(getattr(row, "tie", False) for row in dataset.rows)
    mirrored = 2 * len(dataset.couples) == len(dataset.rows)
    return replace(dataset, mirrored=mirrored, ties=dataset.ties or ties)
