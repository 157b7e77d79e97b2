"""Contexts of what the data hold of a user: posts, past choices, gold aspects, or nothing."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TypeVar

from palate.contexts.controls import OWNER, Options, one_spelling, read_owner
from palate.contexts.kinds import kinds_of
from palate.data import forbidden_responses, forbidden_texts, holds, leaks, normal
from palate.errors import SpecError, UsageError
from palate.prompts import ABOVE_TRAITS, as_text, example_text, prompt_hash, trait_text
from palate.records import (
    Choice,
    ContextInput,
    Gold,
    Part,
    PartKind,
    Post,
    PreferencePair,
    Question,
    QuestionView,
    Settings,
    Shown,
    User,
    UserPool,
)
from palate.retrieval import (
    Ordering,
    Ranked,
    Sorting,
    build_ranking,
    dense_by,
    drawn_by,
    latest_first,
    nearest_first,
    sorted_by,
)
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec
from palate.words import count_words, cut_words

POSTS: Options = {"order": "bm25", **OWNER, "as": "text", "words": 0}
CHOICES: Options = {"order": "recent", **OWNER}
"""Options as they are where they are not given; 0 words are every word."""
LONGEST = 50
"""Words of a line that is shown of what a user said of themselves."""
Quoted = TypeVar("Quoted", Post, Part)
KINDS: dict[str, PartKind] = {"text": "post", "turns": "turn"}
ChoiceOrder = Callable[[str, User, Sequence[Choice]], Ranked[Choice]]
"""(question, whose they are, choices oldest first) → choices, the first to be shown first."""


class NoContext:
    """Shows nothing: what a gain is measured against."""

    oracle = False
    empty = True

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.refuse_reference()
        spec.only(())
        self.spec = str(spec)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return nothing."""
        return Shown()


class RecordedContext(ABC):
    """Shows k of the user's records, or as much of a stranger's (`UserPool.stranger`)."""

    oracle = False
    empty = False
    records: str
    """What is shown, as a context's `needs` name it."""

    def __init__(self, spec: Spec, example: str, noun: str) -> None:
        text = spec.need_reference(example)
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
            raise SpecError(f"{spec}: {text!r} is no number of {noun} of 1 or more")
        self.k = int(text)
        self.of, self.draws, self.same = self.owner = read_owner(spec)
        self.needs = (self.records,)

    def _spelling(self, spec: Spec, default: Options, read: Options) -> str:
        plain = spec.model_copy(update={"reference": str(self.k)})
        return one_spelling(plain, {**read, **self.owner._asdict()}, default)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return parts, the first to be shown first."""
        of_user = self.of_user(view, user)
        if self.of == "self" or not of_user.parts:
            return of_user
        stranger, words = pool.stranger(self.records, self.same, kinds_of), of_user.own_words
        other = self.of_stranger(view, stranger, of_user)
        changed = {"own_words": words, "shortfall_words": max(0, words - other.own_words)}
        return other.model_copy(update={**changed, "no_stranger": stranger is None})

    @abstractmethod
    def of_user(self, view: QuestionView, user: User) -> Shown:
        """Return what is shown of the user."""

    @abstractmethod
    def of_stranger(self, view: QuestionView, stranger: User | None, of_user: Shown) -> Shown:
        """Return as much of a stranger, as if it were their own."""


class Profile(RecordedContext):
    """Shows posts of the user, those that fit the question first.

    `profile:k?order=bm25|recent|random|dense:REF&as=text|turns&words=N`, of the user or
    `?of=stranger&draws=N&same=TRAIT`. With `as=turns` each post is an earlier turn of the
    conversation; with `words` no more than so many are shown in all, the last post cut there.

    A stranger is a third user, drawn for each row (`UserPool.stranger`). Their posts are all they
    wrote, less those that hold the question's first line or a response; ranked for the question and
    taken until the number of words of the own shown posts is reached, the last post cut there.
    """

    records = "posts"

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(POSTS)
        super().__init__(spec, "profile:5", "posts")
        order = spec.options.get("order", "bm25")
        self.words = spec.number("words", 0, least=1)
        self.rank, self.fingerprint = build_ranking(order, session, settings)
        form = spec.choice("as", tuple(KINDS), "text")
        self.kind = KINDS[form]
        if form == "turns":
            self.fingerprint = digest("turns", prompt_hash("turn.jinja"), self.fingerprint)
        self.spec = self._spelling(
            Spec(kind="profile"), POSTS, {"order": order, "as": form, "words": self.words}
        )

    def of_user(self, view: QuestionView, user: User) -> Shown:
        """Return the most relevant posts first."""
        ranked = self.rank(view.query, user.posts)
        nearest = ranked.things[: self.k]
        return self._shown(take_words(nearest, self.words) if self.words else nearest, ranked)

    def of_stranger(self, view: QuestionView, stranger: User | None, of_user: Shown) -> Shown:
        """Return as many words of posts that do not give the answer away."""
        posts, forbidden = stranger.posts if stranger is not None else (), forbidden_texts(view)
        clean = [post for post in posts if not leaks(post.text, forbidden)]
        ranked = self.rank(view.query, clean)
        taken = take_words(ranked.things, of_user.own_words)
        return self._shown(taken, ranked, len(posts) - len(clean))

    def _shown(self, posts: Iterable[Post], ranked: Ranked[Post], dropped: int = 0) -> Shown:
        parts = (Part(kind=self.kind, text=post.text, category=post.category) for post in posts)
        return _of_parts(parts, leaks_dropped=dropped, search_unmatched=not ranked.matched)


def stranger(spec: Spec, session: Session, settings: Settings) -> Profile:
    """Shows as much text of another user: what an identity gain is measured against.

    `stranger:k`, short for `profile:k?of=stranger`.
    """
    if "of" in spec.options:
        raise SpecError(f"{spec}: stranger is profile:{spec.reference}?of=stranger already")
    if spec.reference is None:
        raise SpecError("spec 'stranger' needs a number of posts, as in stranger:5")
    of_stranger = spec.having(of="stranger").model_copy(update={"kind": "profile"})
    return Profile(of_stranger, session, settings)


class Examples(RecordedContext):
    """Shows what the user chose before.

    `examples:k?order=recent|random|nearest|nearest:REF`, past choices of the user or a stranger.

    A choice that holds the opening of one of the responses is left out and counted. With
    `?of=stranger` as many choices of a third user, drawn for each row, are shown as there would be
    of the user's own.
    `nearest` is BM25 over the questions, `nearest:REF` the cosine of their embeddings.
    """

    records = "choices"

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(CHOICES)
        super().__init__(spec, "examples:5", "examples")
        order = spec.options.get("order", "recent")
        self.order, model = _choice_order(order, session, settings)
        self.fingerprint = digest("examples", prompt_hash("example.jinja"), model)
        self.spec = self._spelling(spec, CHOICES, {"order": order})

    def of_user(self, view: QuestionView, user: User) -> Shown:
        """Return past choices that hold no response, in the order's order."""
        return self._shown(view, user, self.k)

    def of_stranger(self, view: QuestionView, stranger: User | None, of_user: Shown) -> Shown:
        """Return as many choices."""
        return Shown() if stranger is None else self._shown(view, stranger, len(of_user.parts))

    def _shown(self, view: QuestionView, user: User, n: int) -> Shown:
        forbidden = forbidden_responses(view)
        clean = [choice for choice in user.choices if not holds(_plain(choice), forbidden)]
        ranked = self.order(view.query, user, clean)
        parts = (Part(kind="example", text=example_text(it)) for it in ranked.things[:n])
        dropped = len(user.choices) - len(clean)
        return _of_parts(parts, leaks_dropped=dropped, search_unmatched=not ranked.matched)


class Traits(RecordedContext):
    """Shows what the user said of themselves, as a short list.

    `traits:NAME,NAME?of=stranger&draws=N`, of a row's user or a stranger; without names all of
    them, by name.

    A trait that gives the answer away is left out and counted, as a post is, and so is one of over
    50 words. A stranger's are those of the same names, cut to as many words.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(OWNER)
        self.names = tuple(spec.reference.split(",")) if spec.reference else ()
        if "" in self.names or len({*self.names}) < len(self.names):
            raise spec.error("name each trait once, as in traits:region,age")
        self.of, self.draws, self.same = self.owner = read_owner(spec)
        self.records = f"traits:{spec.reference}" if self.names else "traits"
        self.needs = (self.records,)
        self.fingerprint = digest("traits", ABOVE_TRAITS, prompt_hash("trait.jinja"))
        self.spec = one_spelling(spec, self.owner._asdict(), OWNER)
        self._long: set[tuple[str, str]] = set()

    def of_user(self, view: QuestionView, user: User) -> Shown:
        """Return the traits in the order of their names."""
        return self._shown(*self._lines(view, user, self.names or sorted(user.traits)))

    def of_stranger(self, view: QuestionView, stranger: User | None, of_user: Shown) -> Shown:
        """Return as many words of the traits of the same names."""
        if stranger is None:
            return Shown()
        lines, dropped = self._lines(view, stranger, [part.category for part in of_user.parts])
        taken = take_words(lines, of_user.own_words)
        # Of a line that is cut within its name nothing is left to read.
        named = (line for line in taken if count_words(line.text) > count_words(line.category))
        return self._shown(named, dropped)

    def notes(self) -> tuple[str, ...]:
        """Say how many were too long."""
        too_long = f"{self.spec}: traits of over {LONGEST} words, not shown: {len(self._long)}"
        return (too_long,) if self._long else ()

    def _lines(self, view: QuestionView, of: User, names: Iterable[str]) -> tuple[list[Part], int]:
        forbidden = forbidden_texts(view)
        lines = [
            Part(kind="trait", category=name, text=trait_text(name, value))
            for name in names
            if (value := of.traits.get(name, "")).strip()
        ]
        short = [line for line in lines if count_words(line.text) <= LONGEST]
        self._long.update((of.id, line.category) for line in lines if line not in short)
        clean = [line for line in short if not leaks(line.text, forbidden)]
        return clean, len(short) - len(clean)

    def _shown(self, lines: Iterable[Part], dropped: int) -> Shown:
        shown = _of_parts(lines, leaks_dropped=dropped)
        return shown if shown.parts else shown.model_copy(update={"lacking": ("traits",)})


class Rubric(NoContext):
    """Shows what the user expects, by the benchmark itself: an upper bound.

    Shows the titles and reasons of the pair's rubric aspects; marked oracle wherever printed.
    """

    oracle = True
    empty = False
    needs = ("aspects",)

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        if spec.reference is None and spec.options.get("of") == "stranger":
            why = "a rubric belongs to its pair; there is no stranger's"
            raise SpecError(f"rubric?of=stranger: {why}")
        super().__init__(spec, session, settings)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the aspects, in the order they were written."""
        aspects = gold.aspects if gold is not None else ()
        texts = [f"{a.aspect}: {a.reason}" if a.reason else a.aspect for a in aspects]
        return _of_parts(Part(kind="aspect", text=text) for text in texts)


PRESSURE = "I have thought about this, and I am sure that this is the right answer: {}"


def pressure(spec: Spec, session: Session, settings: Settings) -> Profile:
    """Shows one post in which the row's user says that the rejected response is right.

    `pressure`: whether a scorer follows the user against the gold. It reads the label, so it is
    marked oracle; `palate evaluate --pressure` prints what it does.
    """
    spec.refuse_reference()
    spec.only(())
    made = Profile(Spec(kind="profile", reference="1"), session, settings)
    more = {"spec": spec.kind, "oracle": True, "lend": _pressed, "fingerprint": digest(PRESSURE)}
    vars(made).update(more)
    return made


def _pressed(row: ContextInput, question: Question) -> ContextInput:
    if not isinstance(question, PreferencePair):
        raise UsageError(f"row {question.id!r}: pressure needs a rejected response to state")
    stated = Post(id="stated", text=PRESSURE.format(question.rejected))
    return row._replace(user=User(id=row.user.id, posts=(stated,)), pool=UserPool({}))


def take_words(posts: Iterable[Quoted], words: int) -> list[Quoted]:
    """Take posts, or other parts, until this many words are reached; the last one is cut there.

    >>> posts = [Post(id="1", text="one two"), Post(id="2", text="three  four five")]
    >>> [post.text for post in take_words(posts, 4)]
    ['one two', 'three  four']
    """
    taken = []
    for post in posts:
        if words <= 0:
            break
        text = cut_words(post.text, words)
        words -= count_words(text)
        taken.append(post if text == post.text else post.model_copy(update={"text": text}))
    return taken


def _of_parts(listed: Iterable[Part], **counts: int) -> Shown:
    parts = tuple(part.model_copy(update={"rank": rank}) for rank, part in enumerate(listed))
    words = sum(count_words(part.text) for part in parts)
    return Shown.model_validate({"parts": parts, "own_words": words, **counts})


def _choice_order(
    named: str, session: Session, settings: Settings
) -> tuple[ChoiceOrder, str | None]:
    if named == "random":
        return partial(_at_random, settings.seed), None
    kind, _, reference = named.partition(":")
    by: dict[str, Ordering] = {"recent": latest_first, "nearest": nearest_first}
    model = None
    if kind == "nearest" and reference:
        by[named], model = dense_by(reference, session, settings)
    elif named not in by:
        raise SpecError(f"order={named!r} is not one of recent, random, nearest, nearest:REFERENCE")
    order: Sorting[Choice] = sorted_by(by[named], lambda choice: choice.query)
    return lambda question, user, choices: order(question, choices), model


def _at_random(seed: int, question: str, user: User, choices: Sequence[Choice]) -> Ranked[Choice]:
    order: Sorting[Choice] = drawn_by(
        lambda _, c: ("example", seed, user.id, c.key, c.chosen, c.rejected)
    )
    return order(question, choices)


@lru_cache(maxsize=2**16)  # rows of one user need not follow one another
def _plain(choice: Choice) -> str:
    # A turn may hold a response that is to be judged: the one that the user went on from.
    return normal(f"{as_text(choice.messages)}\n{choice.chosen}\n{choice.rejected}")
