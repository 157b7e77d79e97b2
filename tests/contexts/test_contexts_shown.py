from __future__ import annotations

from typing import Any

import pytest

from pairs import pair_of, rows_of
from palate.benchmarks import Dataset, load_benchmark
from palate.contexts import build_context
from palate.errors import BenchmarkError, SpecError
from palate.evaluation import no_user_keys, own_user_keys
from palate.prompts import pair_prompt, rating_prompt, render
from palate.records import Gold, Post, PreferencePair, RubricAspect, Settings, Slate
from palate.session import default_session

TEXT = ("I like strong tea.", "Milk first.", "The boat leaks.")
CONTEXTS = ("none", "profile:1", "profile:9", "profile:2?order=recent", "stranger:1", "stranger:9",
            "profile:2?of=stranger&order=recent", "profile:2?order=random",
            "stranger:2?order=random", "profile:2?as=turns", "stranger:2?as=turns")  # fmt: skip


def pair(user: str = "ann", k: int = 0, **fields: Any) -> PreferencePair:
    posts = tuple(
        Post(id=f"{user}{n}", category=f"topic{n}", text=f"{text} ({user})")
        for n, text in enumerate(TEXT)
    )
    base = {"text": f"Which tea {k}?", "profile": posts, "chosen": f"Assam {user}{k}.",
            "rejected": f"Mint {user}{k}."}  # fmt: skip
    return pair_of(id=f"{user}{k}", user_id=user, **{**base, **fields})


def shown(spec: str, *pairs: PreferencePair) -> Slate:
    return rows_of(pairs, spec)[0].slate


def test_none_shows_nothing() -> None:
    context = build_context("none", default_session())
    assert (context.empty, context.oracle, context.spec) == (True, False, "none")
    assert shown("none", pair()).shown == ()


def test_a_profile_shows_the_k_most_relevant_posts_best_first() -> None:
    parts = shown("profile:2", pair()).shown
    assert [part.text for part in parts] == ["I like strong tea. (ann)", "The boat leaks. (ann)"]
    assert [(part.kind, part.rank, part.category) for part in parts] == [
        ("post", 0, "topic0"), ("post", 1, "topic2"),
    ]  # fmt: skip
    assert len(shown("profile:9", pair()).shown) == 3


def test_recent_shows_the_latest() -> None:
    parts = shown("profile:2?order=recent", pair()).shown
    assert [part.text for part in parts] == ["The boat leaks. (ann)", "Milk first. (ann)"]


def test_a_random_order_is_the_seeds_the_questions_and_the_posts() -> None:
    def texts(k: int, seed: int, **fields: Any) -> list[str]:
        context = build_context("profile:2?order=random", default_session(), Settings(seed=seed))
        (row,) = rows_of([pair(k=k, **fields)], context)
        return [part.text for part in row.slate.shown]

    assert texts(0, 0) == texts(0, 0)
    assert len({tuple(texts(0, seed)) for seed in range(20)}) == 6
    assert len({tuple(texts(k, 0)) for k in range(20)}) == 6
    swapped = {"chosen": "Mint ann0.", "rejected": "Assam ann0."}
    assert texts(0, 0, **swapped) == texts(0, 0)


def test_posts_can_be_shown_as_turns() -> None:
    parts = shown("profile:2?as=turns", pair()).shown
    plain = shown("profile:2", pair()).shown
    assert [part.kind for part in parts] == ["turn", "turn"]
    assert [part.model_copy(update={"kind": "post"}) for part in parts] == list(plain)
    session = default_session()
    form, text = (build_context(s, session) for s in ("profile:2?as=turns", "profile:2"))
    assert form.fingerprint != text.fingerprint  # the words of a fixed request count


def test_a_profile_is_the_rows_own_not_the_users_other_rows() -> None:
    one = pair(k=0, profile=(Post(id="early", text="early"),))
    two = pair(k=1, profile=(Post(id="late", text="late"),))
    assert [part.text for part in shown("profile:9", one, two).shown] == ["early"]


def test_own_words_are_counted() -> None:
    assert rows_of([pair()], "profile:2")[0].shown.own_words == 5 + 4


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("profile:5", "profile:5"),
        ("profile:05?order=bm25&of=self", "profile:5"),
        ("stranger:5", "profile:5?of=stranger"),
        ("stranger:5?order=recent", "profile:5?of=stranger&order=recent"),
        ("profile:5?order=recent&of=stranger", "profile:5?of=stranger&order=recent"),
        ("stranger:5?draws=3", "profile:5?draws=3&of=stranger"),
        ("stranger:5?draws=1", "profile:5?of=stranger"),
        ("profile:5?as=text&order=random", "profile:5?order=random"),
        ("stranger:3?as=turns", "profile:3?as=turns&of=stranger"),
        ("none", "none"),
        ("rubric", "rubric"),
    ],
)
def test_contexts_have_one_canonical_spec(spec: str, canonical: str) -> None:
    context = build_context(spec, default_session())
    assert context.spec == canonical
    assert build_context(canonical, default_session()).spec == canonical
    assert context.oracle == (canonical == "rubric")


@pytest.mark.parametrize(
    "spec",
    ["none:1", "none?of=stranger", "profile", "profile:0", "profile:-1", "profile:x", "profile:²",
     "profile:1.5", "profile:5?of=partner", "profile:5?order=newest", "profile:5?k=3",
     "profile:5?as=posts", "stranger",
     "stranger:5?of=self", "stranger:5?of=stranger", "stranger:0", "rubric:1", "rubric?of=stranger",
     "profile:5?draws=2", "profile:5?of=self&draws=1", "stranger:5?draws=0", "stranger:5?draws=-1",
     "stranger:5?draws=257", "examples:5?of=stranger&draws=257", "plan:m/m?of=stranger&draws=257",
     "stranger:5?draws=two", "stranger:5?draws=1.5", "rubric?draws=2", "none?draws=2",
     "rubric?of=self", f"profile:{'9' * 5000}", "nothing"],
)  # fmt: skip
def test_what_is_no_context_is_refused(spec: str) -> None:
    with pytest.raises(SpecError) as caught:
        build_context(spec, default_session())
    assert "\n" not in str(caught.value)


def test_a_rubric_has_no_strangers() -> None:
    with pytest.raises(SpecError, match="a rubric belongs to its pair"):
        build_context("rubric?of=stranger", default_session())


def test_the_rubric_shows_the_aspects_and_says_it_is_an_oracle() -> None:
    aspects = (RubricAspect(aspect="Strong", reason="They like it.", evidence="strong tea"),
               RubricAspect(aspect="Brief"))  # fmt: skip
    parts = shown("rubric", pair(rubric_aspects=aspects)).shown
    assert [(part.kind, part.rank, part.text) for part in parts] == [
        ("aspect", 0, "Strong: They like it."), ("aspect", 1, "Brief"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "nothing"),
    [("profile:5", {"profile": ()}), ("stranger:5", {"profile": ()}),
     ("rubric", {"rubric_aspects": ()})],
)  # fmt: skip
def test_a_benchmark_with_nothing_to_show_is_refused(spec: str, nothing: dict[str, Any]) -> None:
    bare = Dataset("bare", (pair(**nothing), pair("bob", **nothing)))
    with pytest.raises(BenchmarkError, match="bare has no"):
        rows_of(bare, spec)


GOLD = {
    "narrative": "sentinel-narrative",
    "rubric_aspects": (RubricAspect(
        aspect="sentinel-aspect", reason="sentinel-reason", evidence="sentinel-evidence"),),
    "reference": "sentinel-reference",
    "attribution": "sentinel-attribution",
    "source_url": "https://sentinel-url",
    "extra": {"sentinel-column": "sentinel-extra"},
    "chosen_rating": 91827.5,
    "rejected_rating": 19283.5,
    "rating_scale": (0.25, 99999.5),
    "category": "sentinel-category",
    "traits": {"sentinel-trait": "sentinel-value"},
    "split": "sentinel-split",
}  # fmt: skip
NUMBERS = ("91827", "19283", "99999")


def everything_a_model_could_read(slate: Slate) -> str:
    messages = [
        *render(slate.question, slate.shown),
        *pair_prompt(slate, 0, 1, "text"),
        *pair_prompt(slate, 1, 0, "letter"),
        *rating_prompt(slate, 0, "text", 1, 9),
        *rating_prompt(slate, 1, "letter", 1, 9),
    ]
    return "\n".join([slate.model_dump_json(), *(message.content for message in messages)])


@pytest.mark.parametrize("needs_user", [False, True])
@pytest.mark.parametrize("spec", [*CONTEXTS, "rubric"])
def test_no_gold_reaches_a_slate_but_through_the_rubric(spec: str, needs_user: bool) -> None:
    pairs = tuple(
        pair(user, k, **GOLD, mirror_of=f"sentinel-mirror-{user}{k}")
        for user in ("ann", "bob", "cy") for k in range(3)
    )  # fmt: skip
    keys = own_user_keys if needs_user else no_user_keys
    for row in rows_of(pairs, spec, seed=1, user_keys=keys):
        text = everything_a_model_could_read(row.slate)
        if spec == "rubric":
            assert "sentinel-aspect: sentinel-reason" in text
            text = text.replace("sentinel-aspect: sentinel-reason", "")
        assert "sentinel" not in text
        assert not [number for number in NUMBERS if number in text]
        assert row.question.user_id not in (row.slate.user or "")
        assert (row.slate.user is not None) == needs_user


@pytest.mark.parametrize("spec", [*CONTEXTS, "rubric"])
def test_a_slate_does_not_know_which_was_chosen(spec: str) -> None:
    users = [pair(user, k, subset="s") for user in ("ann", "bob", "cy") for k in range(4)]
    if spec == "rubric":
        gold = Gold(aspects=(RubricAspect(aspect="x"),))
        users = [p.model_copy(update={"gold": gold}) for p in users]
    swapped = [p.model_copy(update={"chosen": p.rejected, "rejected": p.chosen}) for p in users]
    context = build_context(spec, default_session())
    ours, theirs = (rows_of(made, context, user_keys=own_user_keys) for made in (users, swapped))
    for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one.slate == other.slate
        assert ours.chosen_position(k) == 1 - theirs.chosen_position(k)
        assert one.slate.candidates[ours.chosen_position(k)] == one.question.chosen


@pytest.mark.parametrize("spec", CONTEXTS)
def test_the_gold_of_tasting_reaches_no_slate(spec: str) -> None:
    pairs = load_benchmark("tasting")
    for row in rows_of(pairs, spec):
        # A response may use an aspect's words; what surrounds it must not.
        text = everything_a_model_could_read(row.slate.replace(candidates=("one", "two")))
        assert (row.question.gold.narrative or "?") not in text
        known = " ".join(post.text for post in row.question.profile)
        for aspect in row.question.gold.aspects:
            assert aspect.aspect not in text
            assert aspect.reason not in text
            assert aspect.evidence in known or aspect.evidence not in text


def test_words_bound_what_is_shown_in_all_the_last_post_cut() -> None:
    every = [part.text for part in shown("profile:3?order=recent", pair()).shown]
    cut = [part.text for part in shown("profile:3?order=recent&words=7", pair()).shown]
    assert cut[0] == every[0] and " ".join(" ".join(cut).split()) == " ".join(
        " ".join(every).split()[:7]
    )
    stranger = shown("profile:3?words=7&of=stranger", pair(), pair("bob", 1), pair("cem", 2)).shown
    assert sum(len(part.text.split()) for part in stranger) == 7
    with pytest.raises(SpecError, match="words"):
        build_context("profile:1?words=0", default_session())
