"""Replies, the likeliest or samples with random streams; and several models that write in step."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from palate.engines.local_forward import within_memory
from palate.engines.local_model import LocalModel
from palate.engines.local_rows import KVRows, begin_rows
from palate.engines.local_tree import Ids
from palate.errors import ModelError, UsageError
from palate.seeding import rng

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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
        rows = begin_rows(local, [ids] * len(drawn), max_tokens, logits=not head.apart)
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


def generate(
    local: LocalModel, sequences: Sequence[Sequence[int]], max_tokens: int
) -> Iterator[tuple[int, str, bool]]:
    """Yield (position, greedy continuation by the model's own settings, whether it was cut off)."""
    otherwise = "out of memory while writing a reply; use a smaller model or dtype"
    tree = local.read_mode.tree and local.read_mode.reach is None and len(sequences) > 1
    # One token of every sequence is left to read, so that there is a prediction to go on from.
    columns = zip(*(ids[:-1] for ids in sequences), strict=False) if tree else ()
    shared = sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, columns))
    if sequences and local.regimes.of(max(map(len, sequences)) + max_tokens):
        shared = 0  # read by itself it would get the factors of its own length
    pad = local.tokenizer.pad_token_id
    cache = None
    with local.in_use():
        for k, ids in enumerate(sequences):
            memory = within_memory(f"{local.reference}: {otherwise}")
            with local.turns.of(), local.writing(), memory:
                if shared and not k:
                    tokens = local.tensor(ids[:shared])
                    cache = local.model.base_model(input_ids=tokens, use_cache=True).past_key_values
                tokens = local.tensor(ids)
                whole = len(ids) + max_tokens
                grows = local.regimes.crossed(local.reference, len(ids), whole)
                generated = local.model.generate(
                    tokens,
                    attention_mask=local.torch.ones_like(tokens),
                    past_key_values=copy.deepcopy(cache),
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    pad_token_id=pad if pad is not None else local.tokenizer.eos_token_id,
                    **({"use_cache": False} if grows else {}),
                )[0, len(ids) :].tolist()
            reply = local.text(generated)
            yield k, reply, not local.ends & set(generated)


class Member(NamedTuple):
    """A language model, and what it reads before the response of each row."""

    model: LocalModel
    prompts: Sequence[Ids]


class ModelEnsemble:
    """The rows of every member; what two members of one model read alike is read once."""

    def __init__(self, members: Sequence[Member], room: int) -> None:
        self._place: list[tuple[int, list[int]]] = []
        """Of each member, which model's rows are its own, and which of these."""
        read = [[(tuple(ids), row) for row, ids in enumerate(it.prompts)] for it in members]
        models = {id(member.model): member.model for member in members}
        of_model: dict[int, set[tuple[tuple[int, ...], int]]] = {key: set() for key in models}
        for member, keys in zip(members, read, strict=True):
            of_model[id(member.model)].update(keys)
        self._shared = [_Shared.of(models[it], sorted(of_model[it]), room) for it in models]
        for member, keys in zip(members, read, strict=True):
            at = {key: place for place, key in enumerate(sorted(of_model[id(member.model)]))}
            self._place.append(([*models].index(id(member.model)), [at[key] for key in keys]))

    def log_probabilities(self) -> list[Tensor]:
        """Return each member's log p of the next token (rows × ids), float32, on the device."""
        made = [shared.rows.each(shared.model.head.distributions) for shared in self._shared]
        return [
            made[k] if rows == list(range(len(made[k]))) else made[k][rows]
            for k, rows in self._place
        ]

    def advance(self, tokens: Sequence[int]) -> None:
        """Give each row its next token, in all models."""
        for shared in self._shared:
            shared.rows.advance([tokens[row] for row in shared.row_of])

    def back(self, steps: int) -> None:
        """Forget each row's last tokens, as `Rows.back`."""
        for shared in self._shared:
            shared.rows.back(steps)

    def of(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order, one perhaps several times; a copy."""
        copies: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            copies.setdefault(row, []).append(place)
        some = object.__new__(type(self))
        some._shared, moved = [], []
        for shared in self._shared:
            left = [(k, at) for k, row in enumerate(shared.row_of) for at in copies.get(row, ())]
            moved.append({pair: place for place, pair in enumerate(left)})
            rows_left = shared.rows.of([k for k, _ in left])
            some._shared.append(_Shared(shared.model, rows_left, [at for _, at in left]))
        some._place = [
            (k, [moved[k][mine[row], at] for at, row in enumerate(rows)]) for k, mine in self._place
        ]
        return some


class _Shared(NamedTuple):
    """The rows of one model, and which row of the members' each of them is."""

    model: LocalModel
    rows: KVRows
    row_of: list[int]

    @classmethod
    def of(cls, model: LocalModel, keys: Sequence[tuple[tuple[int, ...], int]], room: int) -> Self:
        rows = begin_rows(model, [ids for ids, _ in keys], room, logits=not model.head.apart)
        return cls(model, rows, [row for _, row in keys])
