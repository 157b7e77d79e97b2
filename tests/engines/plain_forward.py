"""What the engine's scores are held against: one plain forward per sequence."""

from __future__ import annotations

import torch
import transformers

from palate.engines import ChatTemplate, LocalModel, Reader
from palate.engines.local_loading import ReadMode
from palate.records import Message, Settings
from palate.specs import Reference

TOLERANCE = 1e-4
POST = "I cook on an open fire, eat late, and cannot stand recipes that need a scale. " * 3
RESPONSES = (
    "Stew.",
    "A slow stew of beans and smoked paprika, left on the embers until midnight.",
    " Sushi, cut to the gram.\n\nThen tea.",
    "Stew, then.",
    "No idea " * 12,
)
DENSE = ReadMode(False, "told so")


def conversation(question="What is for dinner?"):
    return (Message(role="user", content=f"{POST}\n\n{question}"),)


def load(folder, head="causal", **settings):
    return LocalModel(Reader(Reference.parse(folder), Settings(**settings)), head)


def log_probabilities(local, encoded):
    """Score one group."""
    ((_, found),) = local.log_probabilities([encoded])
    return found


def label_logits(local, sequences, labels):
    ((_, found),) = local.label_logits([sequences], labels)
    return [logits.values for logits in found]


def encode(local, responses=RESPONSES):
    template = ChatTemplate(local.tokenizer)
    return [template.continuation(conversation(), text) for text in responses]


@torch.inference_mode()
def plain_log_probabilities(folder, responses=RESPONSES):
    """Compute the same without any of palate: one unpadded sequence at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    turns = [{"role": m.role, "content": m.content} for m in conversation()]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    found = []
    for text in responses:
        ids = tokenizer(prompt + text, add_special_tokens=False)["input_ids"]
        before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        assert ids[: len(before)] == before, "this response merges with the prompt"
        logits = model(torch.tensor([ids])).logits[0]
        logp = torch.log_softmax(logits[:-1].double(), dim=-1)
        start = len(before)
        chosen = logp[range(start - 1, len(ids) - 1), ids[start:]]
        found.append(chosen.float())
    return found


def assert_close(ours, theirs, tolerance=TOLERANCE):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert float((mine - other).abs().max()) <= tolerance
