"""Policies of 50 families end where they are measured, and their thoughts are no answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from exports import module
from ppo_runs import small

import palate
from mark_families import FAMILIES
from palate.answers import build_policy
from palate.engines import LocalModel, Reader
from palate.errors import UsageError
from palate.models import resolve
from palate.records import Message, Settings
from palate.session import default_session
from palate.specs import Reference
from palate.trainers.algorithms import build_trainer
from palate.trainers.answers import TrainingReward
from palate.trainers.training import ask_as_measured, load_policy

BY_NAME = {family.name: family for family in FAMILIES}


def tokens(model, ids) -> set[str]:
    return set(model.tokenizer.convert_ids_to_tokens(sorted(ids)))


@pytest.mark.full
def test_ppo_best_of_n_decode_and_trl_end_an_answer_at_the_same_tokens(tiny, tmp_path):
    for family in FAMILIES:
        reference = Reference.parse(str(family.folder(tiny)))
        base = load_policy(resolve(reference), family.name, 0)
        ask_as_measured(base)
        trainer = build_trainer(
            small(algorithm="rloo", kl_coefficient=0.0, answers_per_prompt=2), base.model,
            base.tokenizer, [{"prompt": [{"role": "user", "content": "Tea?"}], "row": "a"}],
            lambda **_: [0.0], tmp_path,
        )  # fmt: skip
        reader = Reader(reference, Settings(device="cpu"))
        local = LocalModel(reader, "causal")
        assert set(trainer.eos_token_ids) == reader.ends == local.ends, family.name
        assert tokens(reader, local.ends) == family.ends, family.name
        assert set(local.model.generation_config.eos_token_id) == local.ends
        asked = trainer.processing_class.apply_chat_template(
            [{"role": "user", "content": "Tea?"}], add_generation_prompt=True, tokenize=False
        )
        message = Message(role="user", content="Tea?")
        assert asked == reader.template.answer_text((message,)), "asked as best-of-n asks"


def test_a_policy_that_ends_elsewhere_has_another_name_and_a_line_says_so(tiny, caplog):
    caplog.set_level("INFO", "palate")
    fingerprints = {}
    for name in ("Qwen 2.5", "tuned from Qwen's base"):
        policy = build_policy(str(BY_NAME[name].folder(tiny)), default_session(), Settings())
        fingerprints[name] = policy.model.details.get("ends"), policy.model.identity
    assert fingerprints["Qwen 2.5"][0] is None
    ends, identity = fingerprints["tuned from Qwen's base"]
    assert ends == "<|im_end|>"
    assert ends in identity
    assert [line for line in caplog.messages if "also ends at <|im_end|>" in line]


def exported(family, tiny, to, folder: Path):
    return palate.export("tasting", str(family.folder(tiny)), "longest", to=to, output=folder)


@pytest.mark.parametrize("to", ["trl", "verl"])
def test_a_reward_file_tells_the_server_that_the_prompt_opened_a_thought(to, tiny, tmp_path):
    if to == "verl":
        pytest.importorskip("pyarrow")
    exported(BY_NAME["Qwen 3 Thinking"], tiny, to, tmp_path / "thinks")
    exported(BY_NAME["Qwen 3"], tiny, to, tmp_path / "not")
    sent = []
    for name in ("thinks", "not"):
        rewards = module(tmp_path / name / "reward.py")
        rewards.ask = lambda path, body: (
            sent.append(body["items"][0]) or {"items": [{"scores": [1.0]}]}
        )
        if to == "trl":
            rewards.palate_reward(["The user likes mint"], ["a"])
        else:
            rewards.compute_score("", "The user likes mint", "", {"row": "a"})
    assert sent == [
        {"row": "a", "response": "<think>The user likes mint"},
        {"row": "a", "response": "The user likes mint"},
    ]


@pytest.mark.parametrize("to", ["trl", "verl"])
@pytest.mark.parametrize("name", ["Command A Reasoning", "Magistral", "Seed-OSS", "gpt-oss"])
def test_thoughts_that_a_trainer_drops_the_marks_of_are_refused_or_told(name, to, tiny, tmp_path):
    family = BY_NAME[name]
    if name == "Command A Reasoning":
        with pytest.raises(UsageError, match=r"drops <\|END_THINKING\|>, <\|START_THINKING\|>"):
            exported(family, tiny, to, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return
    (note,) = exported(family, tiny, to, tmp_path / "out").notes
    assert "as special tokens: a thought that the policy writes would be rewarded" in note
    assert exported(family, tiny, "openrlhf", tmp_path / "other").notes == ()


def test_a_thought_in_special_tokens_is_not_rewarded_by_ppo(tiny):
    family = BY_NAME["Magistral"]
    base = load_policy(resolve(Reference.parse(str(family.folder(tiny)))), family.name, 0)
    ids = base.tokenizer("[THINK]Milk?[/THINK]Tea.</s>", add_special_tokens=False)["input_ids"]
    asked = []
    reward = SimpleNamespace(of_rows=lambda rows, texts: asked.extend(texts) or [])
    function = TrainingReward(reward, frozenset(ids[-1:]), tokenizer=base.tokenizer)
    with pytest.raises(ValueError, match="zip"):
        function([[]], ["Milk?Tea."], [ids], row=["a"])
    assert asked == ["[THINK]Milk?[/THINK]Tea."]
