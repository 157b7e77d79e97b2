"""Personal policies of random weights, for tests of what is computed with them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

from palate.learning import PersonalPolicy, PreferenceOptions, train_p_dpo
from palate.prompts import render
from palate.records import Choice, Slate
from palate.specs import Reference
from tasks import task
from tiny import ENDS_WITH_EOS

TOKENS = 3
QUESTIONS = ("What should they make?", "When will they work?", "Where is the water?")
WORDS = ("water", "health", "child", "world", "system", "data", "process", "result")


def choice(k: int, turned: bool = False) -> Choice:
    one, other = f"The {WORDS[k % 4]} {k}", f"The {WORDS[4 + k % 4]} of {WORDS[k % 3]}"
    one, other = (other, one) if turned else (one, other)
    return Choice(question=QUESTIONS[k % 3], chosen=one, rejected=other)


def untrained(tiny: Any, folder: Path, **options: Any) -> tuple[PersonalPolicy, Any]:
    """Return a policy whose adapters are random, and the same model before they were merged."""
    from peft import LoraConfig, get_peft_model

    base = tiny.model(template=ENDS_WITH_EOS)
    given = PreferenceOptions(**{"tokens": TOKENS, **options})
    how = {"steps": 0, "dtype": "float32", "device": "cpu", **asdict(given)}
    train_p_dpo({"somebody": [choice(0)]}, task((), Reference.parse(base), folder, **how))

    def adapted() -> Any:
        torch.manual_seed(3)
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        config = LoraConfig(
            r=2, lora_alpha=4, target_modules="all-linear", init_lora_weights=False,
            task_type="CAUSAL_LM",
        )  # fmt: skip
        return get_peft_model(model, config).eval()

    adapted().merge_and_unload().save_pretrained(folder / "policy")
    return PersonalPolicy.load(folder), adapted()


def plainly(model: Any, folder: Path | str, slate: Slate, soft: Any = None) -> list[float]:
    """Sum log p of the closed turn's tokens, the vectors put together by hand; no engine of ours.

    `soft` (T × d) stands behind the template's first line, "<|im_start|>user".
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    turns = [{"role": m.role, "content": m.content} for m in render(slate.question, slate.shown)]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    line = tokenizer("<|im_start|>user\n", add_special_tokens=False)["input_ids"]
    n = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    found = []
    for text in slate.candidates:
        closed = [*turns, {"role": "assistant", "content": text}]
        whole = tokenizer.apply_chat_template(closed, tokenize=False)
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        vectors = model.get_input_embeddings()(torch.tensor([ids]))
        extra = 0
        if soft is not None:
            extra = len(soft)
            before, after = vectors[:, : len(line)], vectors[:, len(line) :]
            vectors = torch.cat([before, torch.as_tensor(soft)[None], after], dim=1)
        with torch.no_grad():
            logp = model(inputs_embeds=vectors).logits[0].double().log_softmax(-1)
        found.append(sum(float(logp[k - 1 + extra, ids[k]]) for k in range(n, len(ids))))
    return found
