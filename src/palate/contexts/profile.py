"""The user's earlier texts: their k most relevant posts, or as many words of a stranger's."""

from __future__ import annotations

from collections.abc import Iterable

from palate.contexts.options import DRAWS, one_spelling, read_count, read_owner
from palate.data.leaks import forbidden_texts, leaks
from palate.errors import SpecError
from palate.prompts import prompt_hash
from palate.records import Gold, Part, Post, QuestionView, Settings, Shown, User, UserPool
from palate.records.slates import PartKind
from palate.retrieval import build_ranking
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec
from palate.words import count_words, cut_words

EVERY_WORD = 0
DEFAULT: dict[str, str | int] = {
    "order": "bm25",
    "of": "self",
    "draws": DRAWS,
    "as": "text",
    "words": EVERY_WORD,
}
KINDS: dict[str, PartKind] = {"text": "post", "turns": "turn"}


class Profile:
    """Shows posts of the user, those that fit the question first.

    `profile:k?order=bm25|recent|random|dense:REF&as=text|turns&words=N`, of the user or
    `?of=stranger&draws=N`. With `as=turns` each post is an earlier turn of the conversation; with
    `words` no more than so many are shown in all, the last post cut there.

    A stranger is a third user, drawn for each row (`UserPool.stranger`). Their posts are all they
    wrote, less those that hold the question's first line or a response; ranked for the question and
    taken until the number of words of the own shown posts is reached, the last post cut there.
    """

    oracle = False
    empty = False
    needs = ("posts",)

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(DEFAULT)
        self.k = read_count(spec, "profile:5", "posts")
        self.of, self.draws = read_owner(spec)
        order = spec.options.get("order", str(DEFAULT["order"]))
        self.words = spec.number("words", EVERY_WORD, least=1)
        self.rank, self.fingerprint = build_ranking(order, session, settings)
        form = spec.choice("as", tuple(KINDS), "text")
        self.kind = KINDS[form]
        if form == "turns":
            self.fingerprint = digest("turns", prompt_hash("turn.jinja"), self.fingerprint)
        plain = Spec(kind="profile", reference=str(self.k))
        self.spec = one_spelling(
            plain,
            {"order": order, "of": self.of, "draws": self.draws, "as": form, "words": self.words},
            DEFAULT,
        )

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return posts, the most relevant first."""
        del gold
        ranked = self.rank(view.query, user.posts)
        nearest = ranked.things[: self.k]
        if self.words:
            nearest = take_words(nearest, self.words)
        words = sum(count_words(post.text) for post in nearest)
        if self.of == "self" or not nearest:
            return Shown(
                parts=self._parts(nearest), own_words=words, search_unmatched=not ranked.matched
            )
        stranger = pool.stranger("posts")
        posts = stranger.posts if stranger is not None else ()
        forbidden = forbidden_texts(view)
        clean = [post for post in posts if not leaks(post.text, forbidden)]
        ranked = self.rank(view.query, clean)
        taken = take_words(ranked.things, words)
        return Shown(
            parts=self._parts(taken),
            own_words=words,
            leaks_dropped=len(posts) - len(clean),
            shortfall_words=words - sum(count_words(post.text) for post in taken),
            no_stranger=stranger is None,
            search_unmatched=not ranked.matched,
        )

    def _parts(self, posts: Iterable[Post]) -> tuple[Part, ...]:
        return tuple(
            Part(kind=self.kind, text=post.text, category=post.category, rank=rank)
            for rank, post in enumerate(posts)
        )


def stranger(spec: Spec, session: Session, settings: Settings) -> Profile:
    """Shows as much text of another user: what an identity gain is measured against.

    `stranger:k`, short for `profile:k?of=stranger`.
    """
    if "of" in spec.options:
        raise SpecError(f"{spec}: stranger is profile:{spec.reference}?of=stranger already")
    options = {**spec.options, "of": "stranger"}
    if spec.reference is None:
        raise SpecError("spec 'stranger' needs a number of posts, as in stranger:5")
    return Profile(
        Spec(kind="profile", reference=spec.reference, options=options), session, settings
    )


def take_words(posts: Iterable[Post], words: int) -> list[Post]:
    """Take posts until this many words are reached; the last one is cut there.

    >>> posts = [Post(id="1", text="one two"), Post(id="2", text="three  four five")]
    >>> [post.text for post in take_words(posts, 4)]
    ['one two', 'three  four']
    """
    taken = []
    for post in posts:
        if words <= 0:
            break
        kept = cut_words(post.text, words)
        words -= count_words(kept)
        taken.append(post if kept == post.text else post.model_copy(update={"text": kept}))
    return taken
