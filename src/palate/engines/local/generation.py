"""Continuations: greedy replies, and n samples of one prompt that is read once."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palate.engines.local.attention import KeysValues, Layout, Steps
from palate.engines.local.forward import forward
from palate.engines.local.memory import SMALLEST, halve, within_memory
from palate.engines.local.model import LocalModel
from palate.engines.local.tree import Segment
from palate.errors import UsageError
from palate.seeding import rng

if TYPE_CHECKING:
    import torch


def generate(
    local: LocalModel, sequences: Sequence[Sequence[int]], max_tokens: int
) -> Iterator[tuple[int, str, bool]]:
    """Yield (position, greedy continuation, whether it was cut off at `max_tokens`).

    The model's own generation settings hold, such as a penalty on repetition.
    """
    torch = local.torch
    otherwise = "out of memory while writing a reply; use a smaller model or dtype"
    shared = _shared(sequences) if local.read_mode.tree and local.read_mode.reach is None else 0
    ends = end_tokens(local)
    pad = local.tokenizer.pad_token_id
    cache = None
    with local.in_use():
        for k, ids in enumerate(sequences):
            with _pass(local), within_memory(f"{local.reference}: {otherwise}"):
                if shared and not k:
                    tokens = torch.tensor([list(ids[:shared])], device=local.device)
                    cache = local.model.base_model(input_ids=tokens, use_cache=True).past_key_values
                tokens = torch.tensor([list(ids)], device=local.device)
                made = local.model.generate(
                    tokens,
                    attention_mask=torch.ones_like(tokens),
                    past_key_values=copy.deepcopy(cache),
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    pad_token_id=pad if pad is not None else local.tokenizer.eos_token_id,
                )[0, len(ids) :].tolist()
            reply = local.tokenizer.decode(made, skip_special_tokens=True)
            yield k, reply, not ends & set(made)


@contextlib.contextmanager
def _pass(local: LocalModel) -> Iterator[None]:
    with local.turns.of(), local.torch.inference_mode(), one_thread(local.torch, local.device):
        yield


def _shared(sequences: Sequence[Sequence[int]]) -> int:
    # One token of every sequence is left to read, so that there is a prediction to go on from.
    if len(sequences) < 2:
        return 0
    alike = 0
    for tokens in zip(*(ids[:-1] for ids in sequences), strict=False):
        if len(set(tokens)) > 1:
            break
        alike += 1
    return alike


def end_tokens(local: LocalModel) -> set[int]:
    """Return the ids that end a reply."""
    ends = local.model.generation_config.eos_token_id
    return set(ends) if isinstance(ends, list) else {ends}


@contextlib.contextmanager
def one_thread(torch: Any, device: str) -> Iterator[None]:
    """Decode on one CPU thread: a token at a time leaves a second one nothing to do."""
    threads = torch.get_num_threads() if device == "cpu" else 1
    if threads > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if threads > 1:
            torch.set_num_threads(threads)


@dataclass
class Continuation:
    """One continuation: its tokens, its text, its log-probability, whether it was cut off."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    log_probability: float = 0.0
    cut_off: bool = True


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

    A token is drawn from softmax(logits / temperature), cut to the smallest set of tokens that
    holds `top_p` of it; temperature 0 takes the likeliest. Each sample has a random stream of its
    own, so that the first of 4 is the first of 16. `log_probability` is the model's own, in nats,
    without temperature and cut.
    """
    if n < 1 or max_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
        raise UsageError(
            f"cannot draw {n} samples of {max_tokens} tokens at temperature {temperature:g}, "
            f"top_p {top_p:g}"
        )
    torch, ends = local.torch, end_tokens(local)
    drawn = range(n) if numbers is None else numbers
    n = len(drawn)
    streams = [rng("sample", seed, list(ids), k) for k in drawn]
    samples = [Continuation() for _ in range(n)]
    going = list(range(n))
    with torch.inference_mode():
        decoding = Decoding(local, ids, n, max_tokens)
        for step in range(max_tokens):
            logp = decoding.log_probabilities
            points = [streams[k].random() for k in going]
            chosen = draw(torch, logp, points, temperature, top_p)
            left = []
            for row, (k, token) in enumerate(zip(going, chosen, strict=True)):
                samples[k].log_probability += float(logp[row, token])
                if token in ends:
                    samples[k].cut_off = False
                    continue
                samples[k].ids.append(token)
                left.append(row)
            if not left or step == max_tokens - 1:
                break
            if len(left) < len(going):
                decoding.select(left)
                going = [going[row] for row in left]
            decoding.advance([samples[k].ids[-1] for k in going])
    for one in samples:
        one.text = local.tokenizer.decode(one.ids, skip_special_tokens=True)
    return samples


def draw(
    torch: Any, logp: torch.Tensor, points: Sequence[float], temperature: float, top_p: float
) -> list[int]:
    """Return, for each row, the token at a point in [0, 1) of its distribution."""
    if temperature == 0:
        return [int(token) for token in logp.argmax(dim=-1)]
    p = torch.softmax(logp.double().cpu() / temperature, dim=-1)
    if top_p < 1:
        falling, order = p.sort(dim=-1, descending=True, stable=True)
        outside = falling.cumsum(dim=-1) - falling >= top_p
        p = p.scatter(1, order, falling.masked_fill(outside, 0.0))
    total = p.cumsum(dim=-1)
    at = torch.tensor(points, dtype=torch.float64)[:, None] * total[:, -1:]
    found = torch.searchsorted(total, at, right=True)[:, 0]
    return [int(token) for token in found]


class Decoding:
    """n continuations of one prompt, a token at a time; what they share is kept once.

    `log_probabilities` (n × vocabulary, float32) are those of each row's next token.
    """

    def __init__(self, local: LocalModel, ids: Sequence[int], n: int, room: int) -> None:
        self.local, self.n, self.at = local, n, len(ids)
        reach = local.read_mode.reach
        tree = local.read_mode.tree and (reach is None or len(ids) + room <= reach)
        self._rows: _Tree | _Whole
        with local.torch.inference_mode():
            self._rows = _Tree(local, ids, n, room) if tree else _Whole(local, ids, n)
            self.log_probabilities = self._rows.first()

    def advance(self, tokens: Sequence[int]) -> None:
        """Give each row its next token."""
        with self.local.torch.inference_mode(), one_thread(self.local.torch, self.local.device):
            self.log_probabilities = self._rows.step(tokens, self.at)
        self.at += 1

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone, in this order."""
        self._rows.select(rows)
        self.log_probabilities = self.log_probabilities[list(rows)]


class _Tree:
    """Every row attends to the one prompt and to its own steps."""

    def __init__(self, local: LocalModel, ids: Sequence[int], n: int, room: int) -> None:
        self.local, self.n = local, n
        while True:
            try:
                self.past, self.last = self._prompt(list(ids), max(local.budget, SMALLEST))
                break
            except (RuntimeError, MemoryError) as error:
                halve(local, error)
        self.steps = Steps(room)

    def _prompt(self, ids: list[int], most: int) -> tuple[list[list[KeysValues]], torch.Tensor]:
        torch = self.local.torch
        past: list[list[KeysValues]] = []
        for first in range(0, len(ids), most):
            run = ids[first : first + most]
            whole = Segment(0, len(run), len(run), first, (0,))
            layout = Layout((whole,), tuple(past), keep=0, layers=self.local.layers)
            tokens = torch.tensor([run], device=self.local.device)
            positions = torch.arange(first, first + len(run), device=self.local.device)[None]
            hidden = self._outputs(tokens, positions, layout)
            past.append(layout.cached)
        return past, hidden[-1:]

    def _outputs(
        self, tokens: torch.Tensor, positions: torch.Tensor, layout: Layout
    ) -> torch.Tensor:
        return forward(self.local, tokens, positions, layout, not self.local.head.apart)

    def first(self) -> torch.Tensor:
        return self._log(self.last).expand(self.n, -1)

    def _log(self, outputs: torch.Tensor) -> torch.Tensor:
        return self.local.head.distributions(outputs, outputs[:, 0])

    def step(self, tokens: Sequence[int], at: int) -> torch.Tensor:
        torch = self.local.torch
        row = torch.tensor([list(tokens)], device=self.local.device)
        positions = torch.full_like(row, at)
        outputs = self._outputs(row, positions, Layout(past=self.past, rows=self.steps))
        self.steps.taken += 1
        return self._log(outputs)

    def select(self, rows: Sequence[int]) -> None:
        self.steps.select(self.local.torch.tensor(list(rows), device=self.local.device))


class _Whole:
    """The model's own cache where it keeps one, else every row read again at each step."""

    def __init__(self, local: LocalModel, ids: Sequence[int], n: int) -> None:
        self.local = local
        self.ids = local.torch.tensor([list(ids)] * n, device=local.device)
        self.cache: Any = None

    def _run(self, tokens: torch.Tensor) -> torch.Tensor:
        output = self.local.model(input_ids=tokens, past_key_values=self.cache, use_cache=True)
        cache = getattr(output, "past_key_values", None)
        self.cache = cache if hasattr(cache, "batch_select_indices") else None
        found: torch.Tensor = self.local.torch.log_softmax(output.logits[:, -1].float(), dim=-1)
        return found.cpu()

    def first(self) -> torch.Tensor:
        return self._run(self.ids)

    def step(self, tokens: Sequence[int], at: int) -> torch.Tensor:
        del at
        more = self.local.torch.tensor(list(tokens), device=self.local.device)[:, None]
        self.ids = self.local.torch.cat([self.ids, more], dim=1)
        return self._run(more if self.cache is not None else self.ids)

    def select(self, rows: Sequence[int]) -> None:
        index = self.local.torch.tensor(list(rows), device=self.local.device)
        self.ids = self.ids[index]
        if self.cache is not None:
            self.cache.batch_select_indices(index)
