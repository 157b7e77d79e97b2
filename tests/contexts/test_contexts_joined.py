"""Contexts joined by +: their order, one stranger for all, what lacks, and one spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import write_rows
from pairs import pair_of, rows_of
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate
from palate.contexts import (
    build_context,
    of_stranger,
    refuse_other_draws,
    shows,
    strangers_of,
    usual_name,
    with_controls,
)
from palate.contexts.controls import context_spec
from palate.data import forbidden_responses, leaks
from palate.errors import BenchmarkError, SpecError, UsageError
from palate.evaluation import LiveUsers, make_rows
from palate.prompts import pair_prompt, rating_prompt, render
from palate.records import Choice, Post, PreferencePair, RubricAspect, Settings, User
from palate.scorers import build_scorer
from palate.session import default_session
from palate.words import count_words

TEXT = ("I like strong tea.", "Milk first.", "The boat leaks.")
SAID = {"region": "North", "age": "30"}


def pair(user: str = "ann", k: int = 0, **fields: Any) -> PreferencePair:
    posts = tuple(
        Post(id=f"{user}{n}", category=f"topic{n}", text=f"{text} ({user})")
        for n, text in enumerate(TEXT)
    )
    base = {"text": f"Which tea {k}?", "profile": posts, "chosen": f"Assam {user}{k}.",
            "rejected": f"Mint {user}{k}.",
            "traits": {name: f"{value} {user}" for name, value in SAID.items()}}  # fmt: skip
    return pair_of(id=f"{user}{k}", user_id=user, **{**base, **fields})


def past(user: str, k: int) -> PreferencePair:
    texts = {"text": f"Past {k}?", "chosen": f"right {user} {k}", "rejected": f"wrong {user} {k}"}
    return pair_of(id=f"past-{user}-{k}", user_id=user, **texts)


USERS = ("ann", "bob", "cy", "di")


def made(*pairs: PreferencePair) -> Dataset:
    pairs = pairs or tuple(pair(user) for user in USERS)
    history = [past(user, k) for k in range(3) for user in USERS]
    return Dataset("made", pairs, split="all").with_history(history)


def test_what_is_shown_is_the_text_that_one_renders_by_hand() -> None:
    ann = rows_of(made(), "traits+profile:2")[0]
    head, tail = (
        "What the person who asks said of themselves:\n\n- age: 30 ann\n- region: North ann\n\n",
        "What the person who asks wrote earlier:\n\n"
        '<post about="topic0">\nI like strong tea. (ann)\n</post>\n'
        '<post about="topic2">\nThe boat leaks. (ann)\n</post>\n\n',
    )
    (message,) = render(ann.slate.question, ann.slate.shown)
    assert message.content == f"{head}{tail}Their question:\nWhich tea 0?"
    for prompt in (pair_prompt(ann.slate, 0, 1, "text"), rating_prompt(ann.slate, 0, "text", 1, 9)):
        assert message.content in prompt[0].content
    (turned,) = rows_of(made(), "profile:2+traits")[0:1]
    (message,) = render(turned.slate.question, turned.slate.shown)
    assert message.content == f"{tail}{head}Their question:\nWhich tea 0?"


def test_each_context_alone_is_rendered_as_it_was() -> None:
    data = made()
    for spec in ("profile:2", "examples:2", "traits"):
        alone, joined = (
            rows_of(data, context)[0].slate
            for context in (spec, f"{spec}+{'traits' if spec != 'traits' else 'profile:2'}")
        )
        (one,), (both,) = (render(slate.question, slate.shown) for slate in (alone, joined))
        assert both.content.startswith(one.content.removesuffix("Their question:\nWhich tea 0?"))


def test_turns_stand_before_the_question_and_the_rest_above_it() -> None:
    slate = rows_of(made(), "profile:1?as=turns+traits:age")[0].slate
    asked, answered, last = render(slate.question, slate.shown)
    assert (asked.content, answered.content) == (
        "Write a post about topic0.", "I like strong tea. (ann)",
    )  # fmt: skip
    assert last.content.startswith("What the person who asks said of themselves:\n\n- age: 30 ann")


def test_parts_are_ranked_in_the_order_of_the_contexts() -> None:
    (row,) = rows_of(made(pair()), "examples:1+traits+profile:2")
    assert [(part.kind, part.rank) for part in row.slate.shown] == [
        ("example", 0), ("trait", 1), ("trait", 2), ("post", 3), ("post", 4),
    ]  # fmt: skip
    alone = [rows_of(made(pair()), spec)[0] for spec in ("examples:1", "traits", "profile:2")]
    assert row.shown.own_words == sum(one.shown.own_words for one in alone)


@pytest.mark.parametrize("seed", range(8))
def test_one_and_the_same_stranger_is_shown_in_all_parts(seed: int) -> None:
    data = made()
    for row in rows_of(data, "traits+examples:2+profile:2?of=stranger", seed):
        names = {user for user in USERS for part in row.slate.shown if f"{user}" in part.text}
        assert len(names) == 1 and row.question.user_id not in names
        assert {part.kind for part in row.slate.shown} == {"trait", "example", "post"}


def test_a_stranger_has_what_every_part_reads() -> None:
    silent, unread = pair("bob", traits={}), pair("cy", profile=())
    for seed in range(8):
        ann, *_ = rows_of(made(pair(), silent, unread, pair("di")), "traits+profile:2?of=stranger",
                          seed)  # fmt: skip
        assert all("di" in part.text for part in ann.slate.shown)
    rows = rows_of(made(pair(), silent, unread), "traits+profile:2?of=stranger")
    assert rows[0].shown.no_stranger and not rows[0].slate.shown
    assert rows.no_stranger[0] and not rows.lacking, "there is another reason for it"


def test_several_strangers_are_drawn_one_after_another() -> None:
    data = made()
    rows = rows_of(data, "traits+profile:1?of=stranger&draws=3")
    assert rows.draws == 3
    for k in range(len(data.rows)):
        drawn = [rows[k * 3 + draw].slate.shown for draw in range(3)]
        named = [{user for user in USERS for part in parts if user in part.text} for parts in drawn]
        assert all(len(names) == 1 for names in named)
        assert set.union(*named) == {*USERS} - {data.rows[k].user_id}


def test_each_part_has_its_own_length_and_shortfall() -> None:
    ann = pair(traits={"age": "a b c d"}, profile=(Post(id="1", text="one two"),))
    bob = pair("bob", traits={"age": "x"}, profile=(Post(id="2", text="p q r s t u"),))
    row, back = rows_of(made(ann, bob), "traits+profile:1?of=stranger")
    assert [part.text for part in row.slate.shown] == ["age: x", "p q"]
    # What a longer part has over is no amends for a shorter one.
    assert (row.shown.own_words, row.shown.shortfall_words) == (5 + 2, 3)
    assert (back.shown.own_words, back.shown.shortfall_words) == (2 + 6, 4)


def test_a_row_without_one_part_shows_the_others_and_is_counted(
    palate: Any, tmp_path: Path
) -> None:
    users = [pair(), pair("bob", traits={}), pair("cy", profile=()),
             pair("di", traits={}, profile=())]  # fmt: skip
    rows = rows_of(made(*users), "traits+profile:2")
    kinds = [{part.kind for part in row.slate.shown} for row in rows]
    assert kinds == [{"trait", "post"}, {"post"}, {"trait"}, set()]
    assert rows.n_lacking == {"profile": 2, "traits": 2}
    assert len(list(rows)) == 4, "a second look counts nothing twice"
    assert rows.n_lacking == {"profile": 2, "traits": 2}
    data = tmp_path / "rows.jsonl"
    write_rows(data, map(as_row, users))
    code, out, err = palate("evaluate", "-b", data, "-s", "longest", "-c", "none", "-c",
                            "traits+profile:2")  # fmt: skip
    assert code == 0, err
    assert "2 rows shown no profile (longest); 2 rows shown no traits (longest)" in out
    details = ("evaluate", "-b", data, "-s", "longest", "-c", "none", "-c", "traits+profile:2")
    _, out, _ = palate(*details, "--details")
    assert "longest, traits+profile:2: 2 rows are shown no traits." in out


def as_row(pair: PreferencePair) -> dict[str, Any]:
    row = {**pair.to_row(), "chosen": pair.chosen, "rejected": pair.rejected}
    return {name: value for name, value in row.items() if value is not None}


def test_gains_are_paired_with_the_stranger_of_the_whole() -> None:
    grid = evaluate(
        [made()], ["longest", "shortest"],
        ["none", "traits+profile:2", "traits+profile:2?draws=2&of=stranger"], root=None,
    )  # fmt: skip
    both = {(gain.kind, gain.context, gain.against) for gain in grid.gains}
    assert both == {
        ("gain", "traits+profile:2", "none"),
        ("gain", "traits+profile:2?draws=2&of=stranger", "none"),
        ("identity", "traits+profile:2", "traits+profile:2?draws=2&of=stranger"),
    }


def test_a_rubric_makes_the_whole_an_oracle_and_only_it_reads_gold() -> None:
    class Watched:
        spec, oracle, empty = "watched", False, False
        seen: list[Any] = []

        def shown(self, view: Any, user: Any, pool: Any, gold: Any = None) -> Any:
            self.seen.append(gold)
            return build_context("none", default_session()).shown(view, user, pool)

    context = build_context("rubric+traits", default_session())
    aspects = (RubricAspect(aspect="Strong", reason="They like it."),)
    (row,) = rows_of(made(pair(rubric_aspects=aspects)), context)
    assert context.oracle
    assert [part.text for part in row.slate.shown] == [
        "Strong: They like it.", "age: 30 ann", "region: North ann",
    ]  # fmt: skip
    watched = Watched()
    context.parts = (context.parts[0], watched)
    rows_of(made(pair(rubric_aspects=aspects)), context)[0]
    assert watched.seen == [None]


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("traits+profile:03", "traits+profile:3"),
        ("traits:b,a+profile:3?of=self", "traits:b,a+profile:3"),
        ("profile:3?order=recent+traits?draws=1&of=stranger",
         "profile:3?order=recent+traits?of=stranger"),
        ("examples:2+profile:3?draws=2&of=stranger&order=recent",
         "examples:2+profile:3?draws=2&of=stranger&order=recent"),
        ("profile:2?as=turns+examples:4?order=nearest",
         "profile:2?as=turns+examples:4?order=nearest"),
        ("rubric+profile:1", "rubric+profile:1"),
    ],
)  # fmt: skip
def test_joined_contexts_have_one_canonical_spec(spec: str, canonical: str) -> None:
    context = build_context(spec, default_session())
    assert context.spec == canonical
    assert build_context(canonical, default_session()).spec == canonical
    assert shows(canonical) == ("stranger" if "of=stranger" in canonical else "user")
    assert usual_name(canonical) == canonical


def test_other_parts_orders_and_templates_are_other_fingerprints() -> None:
    specs = ("traits+profile:3", "profile:3+traits", "traits:age+profile:3?as=turns",
             "traits+examples:3")  # fmt: skip
    contexts = [build_context(spec, default_session()) for spec in specs]
    assert len({(context.spec, context.fingerprint) for context in contexts}) == len(specs)
    assert len({context.fingerprint for context in contexts}) == len(specs)


def test_controls_are_found_by_their_specs() -> None:
    session, own = default_session(), "traits+profile:3"
    assert of_stranger(own) == "traits+profile:3?of=stranger"
    assert with_controls([own, "rubric+traits"], session, Settings()) == [
        "none", own, f"{own}?of=stranger", "rubric+traits",
    ]  # fmt: skip
    drawn = f"{own}?draws=3&of=stranger"
    others = ["none", "profile:3?of=stranger", "profile:3+traits?of=stranger", drawn]
    assert strangers_of(own, others) == [drawn]
    with pytest.raises(UsageError, match="differ in draws alone"):
        refuse_other_draws([drawn, f"{own}?of=stranger"])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("traits+profile:3+traits:age", "traits is there twice"),
        ("profile:3+profile:2?order=recent", "profile is there twice"),
        ("none+traits", "none and stranger join nothing"),
        ("traits+none", "none and stranger join nothing"),
        ("traits+stranger:3", "write profile:k, and ?of=stranger last"),
        ("traits?of=stranger+profile:3", "of holds for the whole; write it once, at the end"),
        ("traits?draws=2+profile:3?of=stranger", "draws holds for the whole"),
        ("traits+profile:3?draws=2", "it goes with of=stranger"),
        ("traits+profile:3?of=partner", "of='partner' is not one of self, stranger"),
        ("traits+profle:3", "'traits+profle' is no kind"),
        ("foo+profile:3", "unknown context 'foo'"),
        ("traits+profile", "needs a reference, as in profile:5"),
        ("traits+profile:0", "no number of posts"),
        ("rubric+traits?of=stranger", "a rubric belongs to its pair"),
        ("traits+", "is no kind"),
        ("+traits", "is no kind"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_refused_in_one_line(spec: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        build_context(spec, default_session())
    assert problem in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plan:./a+b", ["plan:./a%2Bb"]),
        ("plan:./a+profiles", ["plan:./a%2Bprofiles"]),
        ("profile:3?order=dense:./my+model", ["profile:3?order=dense:./my%2Bmodel"]),
        ("persona:api:m?base_url=http://h/a+b/v1+profile:3",
         ["persona:api:m?base_url=http://h/a%2Bb/v1", "profile:3"]),
        ("persona:./x+y?from=choices+traits", ["persona:./x%2By?from=choices", "traits"]),
        ("persona:./x%2Btraits+profile:3", ["persona:./x%2Btraits", "profile:3"]),
        ("traits:a%2Bb+rubric", ["traits:a%2Bb", "rubric"]),
    ],
)  # fmt: skip
def test_a_plus_joins_only_what_a_context_follows(text: str, parts: list[str]) -> None:
    spec = context_spec(text)
    assert [str(part) for part in spec.parts] == parts
    assert context_spec(str(spec)) == spec


def test_a_folder_of_the_name_that_is_taken_apart_is_told(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my+traits").mkdir()
    with pytest.raises(
        SpecError, match=r"\./my\+traits lies here; write the \+ of its name as %2B"
    ):
        build_context("plan:./my+traits", default_session())
    assert [str(part) for part in context_spec("plan:./my%2Btraits").parts] == [
        "plan:./my%2Btraits"
    ]


def test_data_without_what_one_part_reads_are_refused() -> None:
    with pytest.raises(BenchmarkError, match=r"^tasting has no traits, so there is no context tra"):
        rows_of(load_benchmark("tasting"), "traits+profile:3")
    with pytest.raises(BenchmarkError, match=r"^made has no trait 'town' \(traits: age, region; "):
        rows_of(made(), "profile:3+traits:town")


def test_a_user_in_the_call_needs_one_of_the_parts() -> None:
    context = build_context("traits+profile:1", default_session())
    data = Dataset("live", (pair("eve", profile=(), traits={}),))
    said = User(id="eve", traits={"age": "9"})
    (row,) = make_rows(data, context, seed=0, live=LiveUsers({"eve": said}))
    assert [part.text for part in row.slate.shown] == ["age: 9"]
    assert row.shown.lacking == ("profile",)
    with pytest.raises(UsageError, match="has no traits and no posts"):
        make_rows(data, context, seed=0, live=LiveUsers({"eve": User(id="eve")}))


@pytest.mark.parametrize(
    "kind",
    ["likelihood:{}", "lift:{}", "autoregressive:{}", "judge:{}?verdict=logits",
     "rating:{}?verdict=logits", "implicit:{}?reference={}", "policy:{}?guide=autoregressive:{}"],
)  # fmt: skip
def test_every_scorer_of_texts_reads_whose_parts_they_are(kind: str, tiny: Any) -> None:
    place = tiny.model(max_position_embeddings=2048)
    settings = Settings(dtype="float32", device="cpu")
    spec = kind.format(place, tiny.model(max_position_embeddings=2048, num_hidden_layers=1))
    data = made(*(pair(user, k) for user in USERS[:3] for k in range(2)))
    contexts = ("traits", "traits+profile:1", "traits+profile:1?of=stranger")
    runs = [evaluate(data, spec, each, root=None, settings=settings) for each in contexts]
    assert [run.summary.unscored for run in runs] == [0, 0, 0]
    margins = [run.verdicts.margins for run in runs]
    assert (margins[0] != margins[1]).any() and (margins[1] != margins[2]).any()


def test_where_the_window_is_short_the_last_contexts_worst_part_goes_first(tiny: Any) -> None:
    scorer = build_scorer(f"likelihood:{tiny.model()}", default_session(),
                          Settings(dtype="float32", device="cpu"))  # fmt: skip
    posts = tuple(Post(id=str(k), text=f"{k} " + "tea " * 120) for k in range(5))
    data, n = made(pair(profile=posts)), 3
    for spec, kinds in (("traits+profile:5", ["trait", "trait", *["post"] * n]),
                        ("profile:5+traits", ["post"] * n)):  # fmt: skip
        slate = rows_of(data, spec)[0].slate
        read = scorer.prepare(slate)
        left = [part.kind for part in read.slate.shown]
        assert left == kinds and 0 < read.dropped == 7 - len(left)
        assert read.slate.shown == slate.shown[: len(left)]


words = st.lists(st.sampled_from(("yes", "no", "tea", "it", "is", "so")), min_size=1, max_size=6)
said = words.map(" ".join)


@st.composite
def worlds(draw: st.DrawFn) -> Dataset:
    answers = {"chosen": "yes tea", "rejected": "no tea"}
    pairs, history = [], []
    for user in ("ann", "bob", "cy"):
        harmless = st.sampled_from(("it is so", "so it is", "is it"))
        own = [draw(harmless if user == "ann" else said) for _ in range(draw(st.integers(1, 3)))]
        pairs.append(pair_of(
            id=user, user_id=user, text="what now", **answers,
            traits=draw(st.dictionaries(st.sampled_from("abc"), said, min_size=1)),
            profile=tuple(Post(id=f"{user}{k}", text=text) for k, text in enumerate(own)),
        ))  # fmt: skip
        history.append(pair_of(id=f"past-{user}", user_id=user, text=draw(said),
                               chosen=draw(said), rejected="other"))  # fmt: skip
    return Dataset("made", tuple(pairs), split="all").with_history(history)


@given(
    worlds(),
    st.sampled_from(["traits+profile:2", "profile:1+examples:2+traits"]),
    st.integers(0, 3),
)
def test_no_answers_text_reaches_what_is_shown_and_lengths_are_matched(
    data: Dataset, spec: str, seed: int
) -> None:
    for row, other in zip(
        rows_of(data, spec, seed), rows_of(data, f"{spec}?of=stranger", seed), strict=True
    ):
        forbidden = forbidden_responses(row.question.view)
        assert not [p.text for p in other.slate.shown if leaks(p.text, forbidden)]
        if row.question.user_id == "ann":  # whose posts, as a row's own must be, are clean
            assert not [p.text for p in row.slate.shown if leaks(p.text, forbidden)]
        counted = sum(count_words(p.text) for p in other.slate.shown if p.kind != "example")
        own = sum(count_words(p.text) for p in row.slate.shown if p.kind != "example")
        if "examples" not in spec and not other.shown.no_stranger:
            assert counted + other.shown.shortfall_words == own == other.shown.own_words


def test_choices_of_one_in_the_call_are_joined_too() -> None:
    eve = User(id="eve", traits={"age": "9"},
               choices=(Choice(question="Past?", chosen="a", rejected="b"),))  # fmt: skip
    context = build_context("examples:1+traits", default_session())
    data = Dataset("live", (pair("eve", profile=(), traits={}),))
    (row,) = make_rows(data, context, seed=0, live=LiveUsers({"eve": eve}))
    assert [part.kind for part in row.slate.shown] == ["example", "trait"]
