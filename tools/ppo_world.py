"""A world of 8 tokens in which the best policy is known: every answer can be listed.

Two users want different answers, and the prompt is the user. A policy is a random Llama of two
layers; an answer has up to four tokens. J(π) = mean over users of E_π[r] − β KL(π ‖ π_ref) is a sum
over all 2,801 answers, and its maximum is β log E_ref[exp(r / β)].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from palate.trainers.algorithms import PolicyTraining, build_trainer, last_checkpoint

USERS = ("ann", "ben")
TOKENS = ("<end>", *USERS, "tea", "coffee", "hot", "cold", "please")
END = 0
LENGTH = 4
LIKES = {
    "ann": {"tea": 1.0, "coffee": -1.0, "hot": 0.6, "cold": -0.4, "please": 0.3},
    "ben": {"tea": -0.8, "coffee": 1.0, "hot": -0.5, "cold": 0.7, "please": -0.2},
}
PAIRS = {"ann": ("hot", "tea"), "ben": ("cold", "coffee")}
PAIR = 0.5
"""What two words in this order are liked for beside: the second is paid for by the first."""
Rewards = dict[str, np.ndarray[Any, np.dtype[np.float64]]]
"""A number for every answer, by user."""


def listed_answers() -> list[tuple[int, ...]]:
    """Return every answer: up to three words and the end, or four words."""
    words = range(1, len(TOKENS))
    ended = [(*a, END) for n in range(LENGTH) for a in product(words, repeat=n)]
    return [*ended, *product(words, repeat=LENGTH)]


ANSWERS = tuple(listed_answers())
PLACE = {answer: place for place, answer in enumerate(ANSWERS)}


def taste(user: str, answer: Sequence[int]) -> float:
    """Return how much a user likes an answer."""
    words = [TOKENS[token] for token in answer if token != END]
    pairs = sum(pair == PAIRS[user] for pair in zip(words, words[1:], strict=False))
    liked = sum(LIKES[user].get(word, 0.0) for word in words) + PAIR * pairs
    return round(liked, 6)  # so that answers of the same words tie, in whatever order


GOLD: Rewards = {user: np.array([taste(user, answer) for answer in ANSWERS]) for user in USERS}


def make_policy(folder: Path, seed: int) -> Path:
    """Write a random policy and its tokenizer into a folder."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(TOKENS), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
        bos_token_id=None, eos_token_id=END, pad_token_id=END, initializer_range=0.15,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    vocabulary = {token: k for k, token in enumerate(TOKENS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token=TOKENS[END]))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=TOKENS[END], pad_token=TOKENS[END], padding_side="left"
    ).save_pretrained(folder)
    return folder


class World:
    """A starting policy, what it writes, and how good any other policy is."""

    def __init__(self, folder: Path, seed: int = 0, beta: float = 0.2) -> None:
        self.folder, self.beta = make_policy(folder / "policy", seed), beta

    def load(self) -> tuple[Any, Any]:
        """Return the starting policy and its tokenizer."""
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)
        return model, transformers.AutoTokenizer.from_pretrained(self.folder)

    @cached_property
    def reference(self) -> Rewards:
        """Give log π_ref of every answer."""
        return log_probs(self.load()[0])

    def value(self, policy: Rewards, rewards: Rewards = GOLD) -> float:
        """Return J of a policy, given log π of every answer."""
        return float(np.mean([
            np.exp(policy[user])
            @ (rewards[user] - self.beta * (policy[user] - self.reference[user]))
            for user in USERS
        ]))  # fmt: skip

    def optimum(self, rewards: Rewards = GOLD) -> float:
        """Return J*, the most that any policy reaches."""
        weighed = [self.reference[user] + rewards[user] / self.beta for user in USERS]
        return float(np.mean([self.beta * np.logaddexp.reduce(each) for each in weighed]))

    def share(self, model: Any, rewards: Rewards = GOLD) -> float:
        """Return (J − J_ref) / (J* − J_ref): 0 for the start, 1 for the best policy."""
        return self.share_of(log_probs(model), rewards)

    def share_of(self, policy: Rewards, rewards: Rewards = GOLD) -> float:
        """Return `share` of a policy given as log π of every answer."""
        start = self.value(self.reference, rewards)
        return (self.value(policy, rewards) - start) / (self.optimum(rewards) - start)

    def mean(self, model: Any, rewards: Rewards = GOLD) -> float:
        """Return E_π[r], without KL."""
        now = log_probs(model)
        return float(np.mean([np.exp(now[user]) @ rewards[user] for user in USERS]))

    def train(
        self, recipe: PolicyTraining, output: Path, rewards: Rewards = GOLD, **more: Any
    ) -> Any:
        """Return a trainer that has trained the starting policy, resumed where it can be."""
        model, tokenizer = self.load()
        rows = [{"prompt": user, "user": user} for user in USERS]
        reward = more.pop("reward", looked_up(rewards))
        trainer = build_trainer(recipe, model, tokenizer, rows, reward, output, **more)
        there = last_checkpoint(output)
        trainer.train(resume_from_checkpoint=None if there is None else str(there))
        return trainer


def looked_up(rewards: Rewards) -> Callable[..., list[float | None]]:
    """Return a reward function that reads a table of all answers."""

    def reward(
        completion_ids: Sequence[Sequence[int]], user: Sequence[str], **more: Any
    ) -> list[float | None]:
        """Look up each answer under its user."""
        written = zip(user, completion_ids, strict=True)
        return [float(rewards[who][PLACE[tuple(ids)]]) for who, ids in written]

    return reward


def log_probs(model: Any) -> Rewards:
    """Return log π(answer | user) of every answer, whose probabilities sum to 1."""
    width = max(map(len, ANSWERS))
    ids = torch.tensor([[*answer, *[END] * (width - len(answer))] for answer in ANSWERS])
    counts = torch.tensor([[k < len(answer) for k in range(width)] for answer in ANSWERS])
    table: Rewards = {}
    for user in USERS:
        prompt = torch.full((len(ANSWERS), 1), TOKENS.index(user))
        with torch.no_grad():
            logits = model(input_ids=torch.cat([prompt, ids], dim=1)[:, :-1]).logits
        each = logits.double().log_softmax(-1).gather(2, ids.unsqueeze(2)).squeeze(2)
        table[user] = (each * counts).sum(dim=1).numpy()
        assert abs(np.exp(table[user]).sum() - 1) < 1e-6
    return table
