"""Samples of one prompt, each with a random stream of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palate.engines.local.decoding.kv_rows import KVRows
from palate.engines.local.model import LocalModel
from palate.errors import ModelError, UsageError
from palate.seeding import rng

if TYPE_CHECKING:
    import torch


NO_NUMBERS = "the model's logits are no numbers (NaN or ∞); try another dtype"


@dataclass
class Continuation:
    """One continuation: its tokens, its text, its log-probability, whether it was cut off."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    log_probability: float = 0.0
    cut_off: bool = True

    @property
    def drawn(self) -> int:
        """How many tokens were drawn, the end token included."""
        return len(self.ids) + (not self.cut_off)


def sample(
    local: LocalModel,
    ids: Sequence[int],
    n: int,
    max_tokens: int,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
) -> list[Continuation]:
    """Draw n continuations of one prompt, which is read once; or those of these numbers.

    A token is drawn from softmax(logits / temperature), cut to the ids of the tokenizer and to the
    smallest set of tokens that holds `top_p` of it; temperature 0 takes the likeliest. Each sample
    has a random stream of its own, so that the first of 4 is the first of 16. `log_probability` is
    the model's own, in nats, without temperature and cuts.
    """
    if n < 1 or max_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
        raise UsageError(
            f"cannot draw {n} samples of {max_tokens} tokens at temperature {temperature:g}, "
            f"top_p {top_p:g}"
        )
    torch, head = local.torch, local.head
    drawn = range(n) if numbers is None else numbers
    streams = [stream(seed, ids, k) for k in drawn]
    samples = [Continuation() for _ in drawn]
    going = list(range(len(drawn)))
    with torch.inference_mode():
        rows = KVRows(local, [ids] * len(drawn), max_tokens, logits=not head.apart)
        for step in range(max_tokens):
            logp = local.valid_ids.only(rows.each(head.distributions))
            points = [streams[k].random() for k in going]
            left = []
            for row, (k, token) in enumerate(
                zip(going, draw(torch, logp, points, temperature, top_p), strict=True)
            ):
                samples[k].log_probability += float(logp[row, token])
                if token in local.ends:
                    samples[k].cut_off = False
                    continue
                samples[k].ids.append(token)
                left.append(row)
            if not left or step == max_tokens - 1:
                break
            if len(left) < len(going):
                rows = rows.of(left)
                going = [going[row] for row in left]
            rows.advance([samples[k].ids[-1] for k in going])
    for continuation in samples:
        continuation.text = local.text(continuation.ids)
    return samples


def stream(seed: int, prompt: Sequence[int], number: int) -> Any:
    """Return the random stream of a prompt's sample."""
    return rng("sample", seed, list(prompt), number)


def draw(
    torch: Any, logp: torch.Tensor, points: Sequence[float], temperature: float, top_p: float = 1.0
) -> list[int]:
    """Return, for each row, the token at a point in [0, 1) of its distribution."""
    if temperature == 0:
        best, tokens = logp.max(dim=-1)  # NaN is the largest
        if not best.isfinite().all():
            raise ModelError(NO_NUMBERS)
        return [int(token) for token in tokens]
    p = torch.softmax(logp.double() / temperature, dim=-1)
    if top_p < 1:
        falling, order = p.sort(dim=-1, descending=True, stable=True)
        outside = falling.cumsum(dim=-1) - falling >= top_p
        p = p.scatter(1, order, falling.masked_fill(outside, 0.0))
    total = p.cumsum(dim=-1)
    at = torch.tensor(points, dtype=torch.float64, device=p.device)[:, None] * total[:, -1:]
    drawn: list[int] = torch.searchsorted(total, at, right=True)[:, 0].tolist()
    if max(drawn) >= p.shape[-1]:
        raise ModelError(NO_NUMBERS)
    return drawn
