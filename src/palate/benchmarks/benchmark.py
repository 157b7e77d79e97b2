"""A benchmark is a declaration that loads pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from palate.data import MAX_LINE, content_hash
from palate.errors import BenchmarkError, DataError
from palate.records import Others, PreferencePair
from palate.seeding import rng

PAST = "adapt"
"""The split whose rows are the users' past choices."""


@dataclass(frozen=True)
class LoadOptions:
    """Where and how to load, as given on the command line."""

    source: Path | None = None
    """A local copy in the layout of the hub."""
    revision: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    max_line: int = MAX_LINE


@dataclass(frozen=True)
class PairSet:
    """Loaded pairs, and what was left out on the way."""

    name: str
    pairs: tuple[PreferencePair, ...]
    revision: str | None = None
    """The commit a hub benchmark was loaded at."""
    bad_rows: tuple[DataError, ...] = ()
    unknown_columns: tuple[str, ...] = ()
    ties: int = 0
    """Rows the user called a tie: counted, left out of accuracy."""
    mirrored: bool = False
    """True where every pair stands in a couple with the pair it is a mirror of."""
    split: str | None = None
    mirrors: str | None = None
    """`only` where the pairs are the mirrored couples of a larger set."""
    limited: int | None = None
    """The limit they were drawn under."""
    columns: Mapping[str, str] = field(default_factory=dict)
    everyone: tuple[PreferencePair, ...] = ()
    """Rows that the users are gathered from, where they are more than `pairs`: a limited or
    mirrored set keeps the whole split's, so that who is whose stranger does not change."""
    history: tuple[PreferencePair, ...] = ()
    """The users' past choices: the decided rows of the split `adapt` where another was selected.
    `limit` and `mirrors` leave them alone."""
    history_left_out: int = 0
    """Past choices left out because they are one of their user's evaluated pairs."""

    @cached_property
    def content_hash(self) -> str:
        """Hash of the rows, in their order, and of those that users are gathered from."""
        return content_hash((*self.pairs, *self.everyone))

    @cached_property
    def history_hash(self) -> str:
        """Hash of the past choices; part of a run's identity where they are read."""
        return content_hash(self.history)

    @cached_property
    def couples(self) -> tuple[tuple[int, int], ...]:
        """Positions of the two pairs of each couple, each couple once.

        Two pairs are a couple where each names the other in `mirror_of` and they are mirrors: two
        users, one question, opposite choices between the same two responses.
        """
        position = {pair.id: i for i, pair in enumerate(self.pairs)}
        found = []
        for i, pair in enumerate(self.pairs):
            j = position.get(pair.mirror_of or "")
            if j is not None and i < j and _are_mirrors(pair, self.pairs[j]):
                found.append((i, j))
        return tuple(found)

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names of the subsets, in order of appearance."""
        return tuple(dict.fromkeys(pair.subset for pair in self.pairs))

    @property
    def has_profiles(self) -> bool:
        """True where any pair has a profile."""
        return any(pair.profile for pair in self.pairs)

    def others(self, seed: int = 0) -> dict[str, Others]:
        """The users of each subset, gathered once."""
        gathered = (*self.everyone, *self.pairs)
        found = {}
        for name in self.subsets:
            pairs = [pair for pair in gathered if pair.subset == name]
            found[name] = Others.of(pairs, seed, self._past_of(name, pairs))
        return found

    def _past_of(self, subset: str, pairs: Sequence[PreferencePair]) -> list[PreferencePair]:
        # Choices from a file of their own may name no subset of this set: then the user decides.
        known, users = set(self.subsets), {pair.user_id for pair in pairs}
        return [
            past for past in self.history
            if past.subset == subset or (past.subset not in known and past.user_id in users)
        ]  # fmt: skip

    def select(self, split: str | None = None) -> PairSet:
        """Return the pairs of one split, undecided votes counted and left out.

        Where rows have a split and none is named, `test`; `all` takes every row. The rows of the
        split `adapt` go into `history` where another split is selected.
        """
        splits = {pair.split for pair in self.pairs} - {None}
        wanted = split or ("test" if splits else "all")
        if wanted != "all" and wanted not in splits:
            known = ", ".join(sorted(str(s) for s in splits)) or "none: the rows have no split"
            raise BenchmarkError(f"{self.name} has no split {wanted!r} (splits: {known})")
        kept = [pair for pair in self.pairs if wanted in ("all", pair.split)]
        decided = tuple(pair for pair in kept if not pair.tie)
        if not decided:
            raise BenchmarkError(f"{self.name}, split {wanted!r}: no decided pair to evaluate")
        ties = len(kept) - len(decided)
        past = [p for p in self.pairs if wanted not in ("all", PAST) and p.split == PAST]
        selected = _as_mirrored(replace(self, pairs=decided, ties=ties, split=wanted))
        return selected.with_history(past)

    def with_history(self, rows: Iterable[PreferencePair]) -> PairSet:
        """Return the set with more past choices of its users; undecided ones are left out.

        A row that is one of its user's evaluated pairs (the same question and two responses, in
        whichever order) is left out and counted. Raises `BenchmarkError` for a row with the id of
        an evaluated pair.
        """
        rows = [row for row in (*self.history, *rows) if not row.tie]
        if not rows:
            return self
        evaluated = (*self.everyone, *self.pairs)
        ids, asked = {pair.id for pair in evaluated}, {vote_of(pair) for pair in evaluated}
        twice = next((row.id for row in rows if row.id in ids), None)
        if twice is not None:
            raise BenchmarkError(
                f"{self.name}: the past choice {twice!r} has the id of an evaluated pair; past "
                "choices are other rows, with ids of their own"
            )
        kept = tuple(row for row in rows if vote_of(row) not in asked)
        left_out = self.history_left_out + len(rows) - len(kept)
        return replace(self, history=kept, history_left_out=left_out)

    def for_training(self, split: str | None = None) -> PairSet:
        """Return what may be learnt from: by default the split `adapt`, or all rows without splits.

        A vote that the same user casts in another split too is left out and counted
        (`history_left_out`): it would be evaluated.
        """
        if split is None and not any(pair.split for pair in self.pairs):
            return self.select("all")
        chosen = self.select(split or PAST)
        apart = {vote_of(pair) for pair in self.pairs if pair.split != chosen.split}
        if chosen.split == "all":
            return chosen
        kept = tuple(pair for pair in chosen.pairs if vote_of(pair) not in apart)
        if not kept:
            raise BenchmarkError(
                f"{self.name}: every row of {chosen.split} is in another split too"
            )
        left_out = len(chosen.pairs) - len(kept)
        return replace(chosen, pairs=kept, history=(), history_left_out=left_out)

    def limit(self, n: int | None, seed: int = 0) -> PairSet:
        """Return a seeded draw of n rows (couples, where all rows are mirrored), in file order."""
        units = self.couples if self.mirrored else tuple((i,) for i in range(len(self.pairs)))
        if n is None or n >= len(units):
            return self
        drawn = rng("limit", seed, len(units)).permutation(len(units))[:n]
        keep = sorted(i for unit in drawn for i in units[int(unit)])
        kept = tuple(self.pairs[i] for i in keep)
        return replace(self, pairs=kept, limited=n, everyone=(*self.everyone, *self.pairs))


def vote_of(pair: PreferencePair) -> tuple[str, str, frozenset[str]]:
    """Return who was asked what about which two responses, whichever way it went.

    White space apart: a file that was written anew holds the same vote.
    """
    question, chosen, rejected = (
        " ".join(text.split()) for text in (pair.question, pair.chosen, pair.rejected)
    )
    return pair.user_id, question, frozenset((chosen, rejected))


def _are_mirrors(ours: PreferencePair, theirs: PreferencePair) -> bool:
    return (
        (ours.mirror_of, theirs.mirror_of) == (theirs.id, ours.id)
        and ours.user_id != theirs.user_id
        and (ours.subset, ours.question, ours.chosen, ours.rejected)
        == (theirs.subset, theirs.question, theirs.rejected, theirs.chosen)
    )


def _as_mirrored(pairs: PairSet) -> PairSet:
    return replace(pairs, mirrored=2 * len(pairs.couples) == len(pairs.pairs))


@dataclass(frozen=True)
class Benchmark:
    """Name, source, licence and citation of a set of pairs, and how to load it."""

    name: str
    description: str
    loader: Callable[[LoadOptions], PairSet]
    licence: str = "unknown"
    citation: str = ""
    homepage: str = ""
    subsets: tuple[str, ...] = ()
    needs_network: bool = False

    def load(self, options: LoadOptions | None = None, *, subset: str | None = None) -> PairSet:
        """Load the pairs; raises `BenchmarkError` for a subset that is not there."""
        options = options or LoadOptions()
        loaded = replace(_as_mirrored(self.loader(options)), columns=options.columns)
        if subset is None:
            return loaded
        kept = tuple(pair for pair in loaded.pairs if pair.subset == subset)
        if not kept:
            known = ", ".join(loaded.subsets)
            raise BenchmarkError(f"{self.name} has no subset {subset!r} (subsets: {known})")
        return _as_mirrored(replace(loaded, name=f"{self.name}?subset={subset}", pairs=kept))
