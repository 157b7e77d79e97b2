"""A world of two users with opposite tastes in words, and models whose laws are known."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from measures import Planted
from palate.benchmarks import Dataset
from palate.guidance import Reading
from palate.records import Gold, Question, ScorerInfo, Scores, Settings, user_key
from palate.session import Session
from palate.specs import Reference

PROMPT = "What shall I drink?"
LIKES = {"ann": (" water", " health"), "bob": (" system", " data")}
START = {"ann": " the", "bob": " of"}
"""The one token that the guide reads before each user's answer."""
NEVER = {"policy": -60.0, "guide": -20.0}
"""Logits of all other words; no weight of the tests makes them likely."""


class World:
    """Models of which the next token depends on the last alone, and only by its kind.

    Kinds are the words that ann likes, those that bob likes, each user's start, and the rest.
    """

    kinds = ("ann", "bob", "start ann", "start bob", "rest")
    policy = np.array([[0.5, 0.5], [0.3, 0.7], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    """The probabilities of a word that ann, or bob, likes after each kind."""
    guide = np.array([[0.7, 0.3], [0.2, 0.8], [0.9, 0.1], [0.15, 0.85], [0.5, 0.5]])

    def __init__(self, tiny: Any, folder: Path) -> None:
        self.smol, self.folder = tiny.model(), folder
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.smol)
        self.ids = {
            word: tokenizer(word, add_special_tokens=False)["input_ids"]
            for word in (*START.values(), *LIKES["ann"], *LIKES["bob"])
        }
        assert all(len(ids) == 1 for ids in self.ids.values()), self.ids
        self.specs = {name: self._model(name) for name in ("policy", "guide")}

    def _model(self, name: str) -> str:
        folder = self.folder / name
        shutil.copytree(self.smol, folder)
        config = transformers.AutoConfig.from_pretrained(self.smol)
        config.tie_word_embeddings = False
        model = transformers.LlamaForCausalLM(config)
        kinds = np.full(config.vocab_size, 4)
        for k, user in enumerate(LIKES):
            kinds[[self.ids[word][0] for word in LIKES[user]]] = k
            kinds[self.ids[START[user]][0]] = 2 + k
        logits = np.full((len(self.kinds), config.vocab_size), NEVER[name])
        for k, user in enumerate(LIKES):
            places = [self.ids[word][0] for word in LIKES[user]]
            logits[:, places] = np.log(getattr(self, name)[:, [k]] / len(places))
        with torch.no_grad():
            for layer in model.model.layers:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
            embedded = torch.zeros(config.vocab_size, config.hidden_size)
            embedded[range(config.vocab_size), kinds] = 1.0
            model.model.embed_tokens.weight.copy_(embedded)
            head = torch.zeros(config.vocab_size, config.hidden_size)
            head[:, : len(self.kinds)] = torch.tensor(logits.T) / config.hidden_size**0.5
            model.lm_head.weight.copy_(head)
        model.save_pretrained(folder)
        return str(folder)

    def share(self, user: str, weight: float, length: int) -> float:
        """Return the law's share of the words that a user likes, over so many of them."""
        column = list(LIKES).index(user)
        now, liked = np.zeros(len(self.kinds)), 0.0
        policy_at, guide_at = 4, 2 + column
        for step in range(length):
            p = self.policy[policy_at] if step == 0 else self.policy[:2]
            q = self.guide[guide_at] if step == 0 else self.guide[:2]
            # Both words of a kind are alike, so a kind's share is that of either.
            fused = p * q**weight
            fused = fused / fused.sum(axis=-1, keepdims=True)
            now = fused if step == 0 else now @ fused
            liked += float(now[column])
        return liked / length


class Taste:
    """Guides by the planted model, which reads the user's start and nothing else."""

    coefficients = (1.0,)

    def __init__(self, world: World) -> None:
        self.world, self.session = world, Session()
        self.settings = Settings(dtype="float32", device="cpu")
        self.info = ScorerInfo(fingerprint="taste", needs_user=True, exact=True)
        self.reader = self.session.reader(Reference.parse(world.specs["guide"]), self.settings)
        self.readers = (self.reader,)
        self.users = {user_key(user): user for user in LIKES}
        self.load = partial(self.session.model_of, self.reader, "causal")

    def token_guide(self):
        return self

    @property
    def models(self):
        return (self.load(),)

    def read(self, slate, room):
        return Reading(slate, (tuple(self.world.ids[START[self.users[slate.user]]]),))

    @contextmanager
    def in_place(self):
        with ExitStack() as stack:
            stack.enter_context(self.load().in_use())
            yield

    def score(self, slates):
        for k, slate in enumerate(slates):
            liked = partial(share_of, self.users[slate.user])
            yield k, Scores(values=tuple(map(liked, slate.candidates)))


def share_of(user: str, text: str) -> float:
    """Return the share of a text's words that a user likes."""
    words = text.split()
    return sum(f" {word}" in LIKES[user] for word in words) / max(1, len(words))


def liked_words() -> Planted:
    """Return a measure: the share of an answer's words that its user likes."""
    return Planted("liked", lambda question, text: share_of(question.gold.reference, text))


def dataset() -> Dataset:
    """Return both users' one question; the gold says whose it is."""
    rows = (Question(id=u, user_id=u, text=PROMPT, gold=Gold(reference=u)) for u in LIKES)
    return Dataset("drinks", tuple(rows))


def documents(folder: Path) -> dict[str, bytes]:
    """Return what the store holds of samples."""
    return {path.name: path.read_bytes() for path in (folder / "samples").glob("??/*")}
