"""What a model is shown of its users in training is what evaluation shows of them, and no more."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import command_line
import palate
from palate.contexts import build_context
from palate.engines import ChatTemplate
from palate.errors import DataError
from palate.evaluation import make_rows
from palate.learning.encoding import encode_pair
from palate.learning.recipes import BaseTask, train_autoregressive, train_classifier
from palate.learning.shown import ShownOptions, ShownRows
from palate.models import import_torch, import_transformers
from palate.records import Post, PreferencePair, ScorerInfo
from palate.scorers import build_scorer
from palate.session import default_session
from palate.specs import Reference
from row_files import write
from tiny import ENDS_WITH_EOS, Tiny

CPU = palate.Settings(dtype="float32", device="cpu")
TRAIN = {"classifier": train_classifier, "autoregressive": train_autoregressive}
WINDOW = 192


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


def row(k: int, user: str, *likes: str, posts: int = 3, **more: Any) -> PreferencePair:
    """Return a row of a day; of every fourth question one user likes the other response."""
    texts = tuple(
        Post(id=f"{k}-{n}", text=f"{user} wrote {n} on day {k}. " + "Some more. " * 6 * n)
        for n in range(posts)
    )
    chosen, rejected = likes or (f"Soup {k}, and bread.", f"Rice {k}.")
    told = {"date": f"2026-01-{k + 1:02}", "profile": texts, "traits": {"of": user}, **more}
    return PreferencePair(
        id=f"{user}-{k}", user_id=user, text=f"What is for lunch on day {k}?", chosen=chosen,
        rejected=rejected, **told,
    )  # fmt: skip


def votes() -> palate.Dataset:
    rows = [row(k, f"u{k % 3}") for k in range(8)]
    again = (("Rice 1.", "Soup 1, and bread."), ("Soup 2, and bread.", "Rice 2."))
    rows += [row(k, "eve", *likes, posts=k) for k, likes in enumerate(again, 1)]
    return palate.Dataset("votes", tuple(rows)).select()


def shown(data: palate.Dataset, *contexts: str, leave_out: Any = (), **how: Any) -> ShownRows:
    options = ShownOptions(contexts, **how)
    return ShownRows.of(data, leave_out, options, default_session(), CPU)


def printed(file: Path, scorer: str, pair: PreferencePair, context: str) -> dict[bool, str]:
    """Return the texts that `palate show` prints, by whether the chosen response closes them."""
    said = command_line.run("show", "-b", file, "-s", scorer, "-c", context, "--pair", pair.id)
    both = said.partition("\n")[2].strip("\n").split("<|im_end|>\n\n<|im_start|>")
    texts = (f"{both[0]}<|im_end|>", f"<|im_start|>{both[1]}")
    return {text.endswith(f"{pair.chosen}<|im_end|>"): text for text in texts}


def reward(method: str, folder: Path, text: str, beta: float) -> float:
    torch, transformers = import_torch(), import_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    read = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, return_tensors="pt"
    )
    kind = "SequenceClassification" if method == "classifier" else "CausalLM"
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model.double()(read["input_ids"]).logits[0]
    if method == "classifier":
        return float(logits[0])
    start = text.rindex("assistant\n") + len("assistant\n")
    first = sum(int(end) <= start for _, end in read["offset_mapping"][0])
    ids = read["input_ids"][0]
    logp = logits.log_softmax(-1)[range(first - 1, len(ids) - 1), ids[first:]]
    return beta * float(logp.sum())


@pytest.mark.parametrize("method", TRAIN)
def test_the_loss_of_a_step_is_that_of_the_texts_that_show_prints(
    method: str, tiny: Tiny, tmp_path: Path
) -> None:
    data = votes()
    file = write(tmp_path / "votes.jsonl", [pair.to_row() for pair in data.pairs])
    base = tiny.model(template=ENDS_WITH_EOS, max_position_embeddings=WINDOW)
    n = len(data.rows)
    how: dict[str, Any] = {"base": base, "contexts": "profile:3", "shown_nothing": 0.3}
    start, made = (
        palate.train(
            method, data, tmp_path / str(steps), settings=CPU, **how,
            options={"steps": steps, "batch_pairs": n, "learning_rate": 1e-5},
        )
        for steps in (0, 1)
    )  # fmt: skip
    assert start.shown["parts_cut"] and 0 < start.shown["rows_shown"] < n, "all kinds are there"
    examples = shown(data, "profile:3", nothing=0.3).examples
    margins = []
    for example in examples:
        context = "profile:3" if example.parts else "none"
        texts = printed(file, f"{method}:{start.folder}", example.pair, context)
        chosen, rejected = (reward(method, start.folder, texts[it], 0.05) for it in (True, False))
        margins.append(chosen - rejected)
    loss = sum(math.log1p(math.exp(-margin)) for margin in margins) / n
    assert made.losses == (pytest.approx(loss, abs=1e-5),)
    assert len({round(margin, 4) for margin in margins}) == n


@pytest.mark.parametrize("method", TRAIN)
@pytest.mark.parametrize(
    "context", ["profile:3", "examples:2", "profile:3?as=turns", "traits+profile:3"]
)
def test_a_row_is_cut_as_the_scorer_cuts_it(
    method: str, context: str, tiny: Tiny, tmp_path: Path
) -> None:
    from palate.learning import encode_choice

    architecture = f"LlamaFor{'SequenceClassification' if method == 'classifier' else 'CausalLM'}"
    sizes = {"num_labels": 1} if method == "classifier" else {}
    base = tiny.model(architecture, max_position_embeddings=WINDOW, pad_token_id=0, **sizes)
    data = votes()
    task = BaseTask(
        data.pairs, Reference.parse(base), tmp_path / "m", settings=CPU,
        options={"steps": 0}, shown=shown(data, context),
    )  # fmt: skip
    made = TRAIN[method](task)
    scorer: Any = build_scorer(f"{method}:{made.folder}", default_session(), CPU)
    cut, kept = 0, 0
    encode: Any = encode_pair if method == "classifier" else encode_choice
    for pair, parts in shown(data, context).examples:
        slate = make_rows(data, build_context("none", default_session()), seed=0)[0].slate
        slate = slate.replace(
            question=pair.messages, shown=parts, candidates=(pair.chosen, pair.rejected)
        )
        read = scorer.prepare(slate)
        cut, kept = cut + read.dropped, kept + bool(read.slate.shown)
        ours = encode(pair, scorer.local.template, read.slate.shown)
        if method == "classifier":
            assert ours == tuple(it.ids for it in scorer.local.conversations(read.slate))
        else:
            assert ours == tuple(scorer.encoded(read.slate))
    assert (made.shown["parts_cut"], made.shown["rows_shown"]) == (cut, kept)
    assert cut or context.startswith("examples")


DAYS = st.integers(0, 8)


@st.composite
def histories(draw: st.DrawFn) -> list[PreferencePair]:
    """Return rows of three users on few questions: votes alike, opposite and twice the same."""
    rows = []
    for n in range(draw(st.integers(2, 9))):
        user, question, flip = draw(st.sampled_from("abc")), draw(DAYS), draw(st.booleans())
        both = (f"Yes, on day {question} it is soup.", f"No, on day {question} it is rice.")
        posts = tuple(
            Post(id=f"{n}-{k}", text=f"{user}{n} post {k}", date=f"2026-01-{day + 1:02}")
            for k, day in enumerate(draw(st.lists(DAYS, max_size=4)))
        )
        day = draw(DAYS)
        rows.append(PreferencePair(
            id=f"r{n}", user_id=user, text=f"Lunch {question}?", chosen=both[flip],
            rejected=both[not flip], profile=posts, date=f"2026-01-{day + 1:02}",
        ))  # fmt: skip
    return rows


def parts_of(rows: list[PreferencePair], name: str) -> list[tuple[str, ...]]:
    data = palate.Dataset("made", tuple(rows)).select()
    if not any(pair.profile for pair in rows):
        data = replace(data, rows=(*data.rows, row(0, "z")))  # somebody who wrote
    read = shown(data, "profile:2?order=recent", "examples:3")
    return [tuple(p.text for p in it.parts) for it in read.examples if it.pair.id == name]


@settings(max_examples=60, deadline=None)
@given(rows=histories(), data=st.data())
def test_no_later_post_no_label_and_no_partners_text_is_shown(
    rows: list[PreferencePair], data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from(rows))
    profile, examples = parts_of(rows, row.id)
    earlier = {
        p.text for p in row.profile if str(p.date) < str(row.date)
    }  # one form of dates: texts compare
    assert set(profile) <= earlier and len(profile) == min(2, len(earlier))
    own = [it for it in rows if it.user_id == row.user_id and str(it.date) < str(row.date)]
    for text in examples:
        assert row.chosen not in text and row.rejected not in text
        assert any(f"{it.text}" in text and it.chosen in text for it in own)

    def changed(pair: PreferencePair) -> PreferencePair:
        """Change what the row must not know: its label, what comes later, other users' texts."""
        told: dict[str, Any] = {}
        if pair.id == row.id or pair.user_id != row.user_id or str(pair.date) >= str(row.date):
            told |= {"chosen": pair.rejected, "rejected": pair.chosen}
        if pair.user_id != row.user_id:
            told["profile"] = (Post(id="x", text="sentinel", date="2026-01-01"),)
        if pair.user_id == row.user_id:
            late = Post(id="late", text="sentinel", date=str(row.date))
            told["profile"] = (*pair.profile, late)
        return pair.model_copy(update=told)

    assert parts_of([changed(pair) for pair in rows], row.id) == [profile, examples]


def test_undated_choices_are_earlier_where_they_stand_earlier() -> None:
    rows = [row(k, "ann", date=None) for k in (3, 1, 2)]
    data = palate.Dataset("made", tuple(rows)).select()
    examples = shown(data, "examples:5").examples
    days = [[k for k in (1, 2, 3) for p in it.parts if f"Rice {k}." in p.text] for it in examples]
    assert days == [[], [3], [1, 3]]


def test_a_share_of_the_rows_is_shown_nothing_by_seed_and_id() -> None:
    rows = [row(k % 28, f"u{k}") for k in range(400)]
    data = palate.Dataset("made", tuple(rows)).select()
    bare = {it.pair.id for it in shown(data, "profile:1", nothing=0.2).examples if not it.parts}
    assert 0.15 < len(bare) / 400 < 0.25
    some = replace(data, rows=data.rows[::-3])
    again = shown(some, "profile:1", nothing=0.2).examples
    assert {it.pair.id for it in again if not it.parts} == bare & {r.id for r in some.rows}


def test_opposite_votes_make_every_pair_as_often_right_one_way_as_the_other() -> None:
    one, other = ("Soup.", "Rice."), ("Rice.", "Soup.")
    rows = [row(1, user, *one) for user in "abcd"] + [row(1, user, *other) for user in "ef"]
    rows += [row(2, "a", *one), row(3, "a", *one), row(3, "a2", *other)]
    data = palate.Dataset("made", tuple(rows)).select()
    plain, both = shown(data, "profile:1"), shown(data, "profile:1", opposite=True)
    assert both.examples[: len(rows)] == plain.examples
    added = both.examples[len(rows) :]
    assert Counter((it.pair.text[-2], it.pair.chosen) for it in added) == {
        ("1", "Rice."): 4, ("1", "Soup."): 2, ("3", "Rice."): 1, ("3", "Soup."): 1,
    }  # fmt: skip
    of_row = {it.pair.id: it.parts for it in plain.examples}
    assert all(it.parts == of_row[it.pair.id] for it in added), "under the other user's posts"
    assert both.facts([1], 0)["opposite_votes"] == 8


def test_users_left_out_are_nobodys_stranger_and_play_no_part() -> None:
    data = votes()
    read = shown(data, "profile:2?of=stranger", leave_out=["u1", "eve"])
    texts = [part.text for it in read.examples for part in it.parts]
    assert {it.pair.user_id for it in read.examples} == {"u0", "u2"}
    assert texts and not [text for text in texts if "u1" in text or "eve" in text]


@pytest.mark.parametrize("method", TRAIN)
def test_the_folder_remembers_its_contexts(method: str, tiny: Tiny, tmp_path: Path) -> None:
    data = votes()
    made = palate.train(
        method, data, tmp_path / "rm", base=tiny.model(), contexts=["profile:02", "examples:1"],
        opposite=True, settings=CPU, options={"steps": 1, "batch_pairs": 4, "rank": 2},
    )  # fmt: skip
    facts = json.loads((made.folder / "palate.json").read_text())
    assert facts["contexts"] == ["profile:2", "examples:1"]
    assert facts["lora"]["rank"] == 2 and facts["opposite_votes"] == 4
    assert (made.n_pairs, made.n_users) == (2 * len(data.rows) + 4, 4)
    past = replace(data, history=tuple(row(k, f"u{k % 3}") for k in range(9, 15)))
    how: dict[str, Any] = {"root": None, "settings": CPU}
    grid = palate.evaluate(past, [f"{method}:{made.folder}", "longest"], **how)
    own = [run.summary for run in grid.runs if run.summary.scorer != "longest"]
    assert [run.context for run in own] == [
        "none", "profile:2", "profile:2?of=stranger", "examples:1", "examples:1?of=stranger",
    ]  # fmt: skip
    assert not [note for run in own for note in run.notes if "trained under" in note]
    baseline = [r.summary.context for r in grid.runs if r.summary.scorer == "longest"]
    assert baseline == ["none", "profile:5", "profile:5?of=stranger"]
    for context in ("profile:3", "profile:3?of=stranger"):
        other = palate.evaluate(past, f"{method}:{made.folder}", context, **how)
        (note,) = (note for note in other.summary.notes if "trained under" in note)
        assert note.endswith(f"under profile:2 and examples:1, and not under {context}")


def test_controls_of_a_trained_model_are_not_called_untrained() -> None:
    def score(question: str, response: str, user: tuple[str, ...]) -> float:
        return float(len(response))

    score.info = ScorerInfo(fingerprint="f", contexts=("profile:1",))  # type: ignore[attr-defined]
    rows = tuple(row(k, f"u{k}").model_copy(update={"traits": {"side": "e"}}) for k in range(6))
    data = palate.Dataset("made", rows).select()
    contexts = ["none", "profile:1", "stranger:1", "stranger:1?same=side", "pressure"]
    grid = palate.evaluate(data, [score], contexts, root=None)
    assert not [note for run in grid.runs for note in run.summary.notes if "trained" in note]
    other = palate.evaluate(data, score, "stranger:2?same=side", root=None)
    assert [note for note in other.summary.notes if "trained under profile:1, and not" in note]


def test_posts_of_a_later_day_are_told(tmp_path: Path) -> None:
    late = Post(id="late", text="Written later.", date="2026-01-30")
    first = row(0, "a")
    rows = (first.model_copy(update={"profile": (*first.profile, late)}), row(1, "b"))
    run = palate.evaluate(palate.Dataset("made", rows).select(), "longest", "profile:9", root=None)
    assert "1 posts that are not dated before their row are not shown" in run.summary.notes
    pressed = palate.evaluate(
        palate.Dataset("made", rows).select(), "longest", "pressure", root=None
    )
    assert pressed.summary.notes == ()


def test_adapters_and_head_of_a_classifier_are_trained_and_merged(
    tiny: Tiny, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    how: dict[str, Any] = {"base": tiny.model(), "contexts": "profile:1", "settings": CPU}
    start, made = (
        palate.train("classifier", votes(), tmp_path / str(steps), **how,
                     options={"steps": steps, "rank": 2})
        for steps in (0, 2)
    )  # fmt: skip
    before, after = (load_file(it.folder / "model.safetensors") for it in (start, made))
    moved = {name for name in before if not before[name].equal(after[name])}
    assert before.keys() == after.keys() and "score.weight" in moved
    assert {name.split(".")[-2] for name in moved} == {
        "score", *(f"{it}_proj" for it in ("q", "k", "v", "o", "gate", "up", "down")),
    }  # fmt: skip
    facts = json.loads((made.folder / "palate.json").read_text())
    assert (facts["lora"], facts["learning_rate"]) == ({"rank": 2, "alpha": 4, "dropout": 0}, 5e-4)


def test_where_nothing_fits_nothing_is_trained(tiny: Tiny, tmp_path: Path) -> None:
    data, base = votes(), tiny.model()
    template = ChatTemplate(import_transformers().AutoTokenizer.from_pretrained(base))
    widest = max(encode_pair(pair, template).width for pair in data.pairs)
    with pytest.raises(DataError, match=r"profile:3: none of 10 rows has anything to show that"):
        palate.train(
            "classifier", data, tmp_path / "rm", base=base, contexts="profile:3", settings=CPU,
            options={"max_length": widest},
        )  # fmt: skip
    assert not (tmp_path / "rm").exists()
