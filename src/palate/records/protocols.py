"""The seams: what a context, a scorer and a judge must offer, and how slates are read for them.

No base class is needed. A slate goes with what was made of it so far: no text is read twice.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, overload, runtime_checkable

from pydantic import Field

from palate.errors import UsageError
from palate.records.arguments import shown
from palate.records.questions import Gold, QuestionView, Record
from palate.records.slates import Judgement, Part, Scores, Slate
from palate.records.users import User, UserPool
from palate.seeding import digest

Progress = Callable[[int, int], None]
"""Called with what is done and what there is in all, rows unless a function says otherwise."""
SHORT = 2**16
RECORD, PART, INPUT = 2_000, 800, 200
"""Bytes of a slate, a part and an input beside their texts and tokens."""
T = TypeVar("T")


class Shown(Record):
    """What a context shows of a user for one pair, and what it had to leave out."""

    parts: tuple[Part, ...] = ()
    own_words: int = 0
    """Words of the user's own part, as `palate.words` counts; gains are paired over rows where it
    is not 0."""
    leaks_dropped: int = 0
    """Posts of a stranger, or past choices, left out because they give the answer away."""
    shortfall_words: int = 0
    """Words by which a stranger's part falls short of the user's own."""
    no_stranger: bool = False
    """True where a stranger's part is asked for and there is no (further) third user."""
    search_unmatched: bool = False
    """True where a search shares no word with any text, so that the latest are shown."""
    lacking: tuple[str, ...] = ()
    """Kinds of what should be shown and is not there, where the context shows the rest."""


class ContextInput(NamedTuple):
    """What a context's `shown` is called with, for one row."""

    view: QuestionView
    user: User
    """The row's user; `posts` are what they wrote before the question, oldest first."""
    pool: UserPool
    """The other users, at this row."""
    gold: Gold | None = None
    """Given only to contexts with `oracle = True`."""


@runtime_checkable
class Context(Protocol):
    """Chooses which part of the user a scorer is shown.

    What a context may offer besides, each looked for by name:

    - `fingerprint`: hash of what it computes with, such as a model; part of a run's identity.
    - `needs`: of "posts", "choices", "traits" (`traits:NAME,…`) and "aspects", those of which the
      benchmark must have one.
    - `parts`: the contexts that it joins, each with its own needs.
    - `prepare(inputs)`: called with a `ContextInput` of every row before the first is shown, for
      work that is cheaper done at once; `shown` must give the same without it.
    - `draws`: how many strangers a row is shown, one after another; their verdicts are averaged.
    - `notes()`: what a reader of the report must know.
    """

    spec: str
    """Canonical spec, as printed and hashed."""
    oracle: bool
    """True where gold is shown: an upper bound, never ranked."""
    empty: bool
    """True where nothing is ever shown."""

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the parts to show for this question."""


class Settings(Record):
    """What changes numbers, and so is part of a run's identity; and leave to run remote code."""

    seed: int = Field(default=0, ge=0)
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """float32, bfloat16 or float16; by default float32 on a CPU and bfloat16 elsewhere."""
    device: str | None = None
    batch_tokens: int | None = Field(default=None, ge=1)
    """Tokens a local model computes at a time; by default 4096, and on CUDA what is fastest."""
    attention: str | None = None
    """A kernel that transformers knows, such as sdpa or eager; by default shared prefixes."""
    compile: Literal["off", "on", "auto"] = "off"
    """Whether Inductor compiles a model's layers; `auto`: on accelerators, in half precision."""
    trust_remote_code: bool = False
    template_date: date | None = None
    """What day a chat template is told that reads the clock; by default 2024-07-26, always."""
    chat_template: str | None = None
    """A chat template in Jinja, or the name of one of the tokenizer's, for tokenizers without a
    default one."""


class ScorerInfo(Record):
    """What evaluation must know of a scorer or judge before it runs."""

    fingerprint: str
    """Hash of all that the numbers depend on: model content, template, dtype, what is summed."""
    exact: bool = False
    """True where a number does not depend on what else is computed with it."""
    needs_user: bool = False
    """True for a scorer that keeps state per user; only it receives `slate.user`."""
    needs_shown: bool = False
    """True where the score has no meaning when nothing is shown."""
    skips_unshown: bool = False
    """True where a row without a shown part is unscored under a context that shows something."""
    log_odds: bool = False
    """True where a margin is the log-odds of being preferred; only then is it calibrated."""
    cuts: bool = False
    """True where what is shown is cut to a model's window."""
    pairs_only: bool = False
    """True for judges, which see two candidates at a time."""
    votes: bool = False
    """True for a judge whose margin is a difference of two shares of votes, not a strength: a row
    stores the share that the chosen response won, and no margin."""
    protocol: Literal["palate", "paper"] = "palate"
    """`paper`: the rules of Personalized RewardBench's released scripts (ties lose, no profile)."""
    contexts: tuple[str, ...] = ()
    """What it was shown of users in training; without `-c` it is evaluated under these."""
    notes: tuple[str, ...] = ()
    """What a reader of the report must know, such as which token a head reads."""
    details: dict[str, Any] = {}
    """What goes into the manifest: model hash, dtype, device, prompt hash."""


class RowSource(Protocol):
    """The rows to score: each a slate of any number of candidates, built when asked for."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def prepare(self) -> None:
        """Do at once what would be costly row by row."""

    def id(self, row: int) -> str:
        """Return the row's id."""

    def slate(self, row: int) -> Slate:
        """Return the row's slate; the same at every call."""

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the slate's candidates."""


@runtime_checkable
class Scorer(Protocol):
    """Gives each response of a slate a number or `None`.

    What a scorer or judge may offer besides, each looked for by name:

    - `prepare(slate)`: the slate as it reads it, a `Prepared`; equal ones are computed once. Where
      `info.cuts`, it takes `dropped` too: what an earlier call dropped of the same slate.
    - `score_prepared(prepared)`, or `judge_prepared(prepared)`: as `score` or `judge`, which are
      then `prepare` and this in a row.
    - `need_any(slates)`: called with all slates of a run; raises `UsageError` where none is known.
    """

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield (position in the call, scores) as they come, each position once."""


@runtime_checkable
class Judge(Protocol):
    """Prefers one of the two responses of a slate."""

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield (position in the call, judgement) as they come, each position once."""


class Component(NamedTuple):
    """One computation behind a score: whose, and whether it reads the slate without context."""

    scorer: Scorer | Judge
    without_context: bool = False


def components_of(scorer: Scorer | Judge) -> tuple[Component, ...]:
    """Return the computations a score is made of; most scorers have one, themselves."""
    return getattr(scorer, "components", None) or (Component(scorer),)


def info_of(scorer: Scorer | Judge, spec: str) -> ScorerInfo:
    """Return a scorer's info; one that declares none is identified by its name and spec."""
    declared = getattr(scorer, "info", None)
    if isinstance(declared, ScorerInfo):
        return declared
    kind = type(scorer)
    return ScorerInfo(fingerprint=digest("undeclared", kind.__module__, kind.__qualname__, spec))


class Lazy(Sequence[T]):
    """So many items, each made anew when it is looked at, so that few are held at a time."""

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._n, self._make = n, make

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, k: int) -> T: ...
    @overload
    def __getitem__(self, k: slice) -> list[T]: ...
    def __getitem__(self, k: int | slice) -> T | list[T]:
        places = range(self._n)[k]
        return [*map(self._make, places)] if isinstance(places, range) else self._make(places)


class Encoded(NamedTuple):
    """Token ids of prompt and response together; the response starts at `start`."""

    ids: Sequence[int]
    start: int = 0


class Prepared(NamedTuple):
    """The slate as read: what the scorer ignores is gone, what is shown is cut to fit."""

    slate: Slate
    dropped: int = 0
    """Parts that did not fit."""
    inputs: tuple[Encoded, ...] = ()
    """What the model reads, one of each response (a judge's: of each order); empty where no text
    had to be tokenised yet."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory, a little less than it may."""
        slate = self.slate
        texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
        size = RECORD + PART * len(slate.shown) + sum(map(sys.getsizeof, texts))
        size += sum(map(sys.getsizeof, slate.candidates))
        return size + sum(INPUT + sys.getsizeof(ids) for ids, _ in self.inputs)


def packed(inputs: Sequence[Encoded]) -> tuple[Encoded, ...]:
    """Return the same inputs with their ids in two or four bytes each."""
    codes = ("H" if max(ids, default=0) < SHORT else "i" for ids, _ in inputs)
    return tuple(
        Encoded(array(code, ids), start) for code, (ids, start) in zip(codes, inputs, strict=True)
    )


def unpacked(inputs: Sequence[Encoded]) -> list[Encoded]:
    """Return the same inputs with their ids as tuples, as a tokenizer gives them."""
    return [Encoded(tuple(ids), start) for ids, start in inputs]


def without_worst(slate: Slate, dropped: int) -> Slate:
    """Return the slate without so many of its worst ranked parts."""
    if not dropped:
        return slate
    ranked: list[Part] = sorted(slate.shown, key=lambda part: part.rank)
    return slate.replace(shown=tuple(ranked[: max(0, len(ranked) - dropped)]))


def prepare(scorer: Any, slate: Slate, dropped: int | None = None) -> Prepared:
    """Return the slate as this scorer or judge reads it; equal readings are computed once.

    `dropped` is what an earlier call dropped of this slate, given to scorers that cut: they count
    no token again then.
    """
    made = getattr(scorer, "prepare", None)
    if made is None:
        return Prepared(slate)
    read = made(slate) if dropped is None else made(slate, dropped)
    if not isinstance(read, Prepared):
        raise UsageError(f"{type(scorer).__name__}.prepare gave {shown(read)}; expected Prepared")
    return read


def prepared_slates(scorer: Any, slates: Sequence[Slate]) -> Sequence[Prepared]:
    """Return slates, each prepared when it is looked at."""
    return Lazy(len(slates), lambda k: prepare(scorer, slates[k]))


def results_of(
    scorer: Any, prepared: Sequence[Prepared]
) -> Iterator[tuple[int, Scores | Judgement]]:
    """Yield (position, result) by the first that the scorer offers of these methods.

    `judge_prepared`, `judge`, `score_prepared`, `score`. Raises as `each_result`.
    """
    name = "judge" if hasattr(scorer, "judge") else "score"
    run = getattr(scorer, f"{name}_prepared", None)
    if run is not None:
        results = run(prepared)
    else:
        results = getattr(scorer, name)(tuple(read.slate for read in prepared))
    kind: type[Scores | Judgement] = Judgement if name == "judge" else Scores
    return each_result(results, kind, f"{type(scorer).__name__}.{name}")


def each_result(results: Any, kind: type[T], method: str) -> Iterator[tuple[int, T]]:
    """Yield (position, result) as a method gives it; raises `UsageError` for anything else."""
    expected = f"expected to yield (position, palate.{kind.__name__}), one for each slate"
    if not isinstance(results, Iterable):
        raise UsageError(f"{method} gave {shown(results)}: {expected}")
    for item in results:
        if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], kind)):
            raise UsageError(f"{method} gave {shown(item)}: {expected}")
        yield item
