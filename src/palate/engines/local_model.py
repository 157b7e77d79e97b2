"""A loaded transformers model with its tokenizer, and what can be asked of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from palate.engines.local_attention import NAME, Layout, register
from palate.engines.local_compile import compile_layers
from palate.engines.local_forward import (
    Group,
    TokenSpan,
    Wanted,
    as_it_fits,
    forward_pack,
    is_out_of_memory,
    pad,
    pad_id,
    padded,
    read,
)
from palate.engines.local_kernels import (
    MOST_COPIED,
    many_runs_of,
    multiply_by_onednn,
    onednn_is_faster,
    plan_gather,
)
from palate.engines.local_loading import (
    HIDDEN_TOLERANCE,
    Head,
    LoadedModel,
    Outputs,
    ReadMode,
    Reduce,
    ValidIds,
    concatenated,
)
from palate.engines.local_threads import FairLock
from palate.engines.local_tree import Ids, Pack, build_tree, packs
from palate.engines.reader import Reader
from palate.errors import ModelError, first_line
from palate.models.account import LACKING

if TYPE_CHECKING:
    import torch

SHARED, OWN = 24, 7
"""Tokens of the probe's beginning and of its two ends."""
MOST_TOKENS, TRIAL = 65_536, 512
"""The most tokens at a time that are tried, and how long the sequences are then."""
SECONDS, NEAR = 1.0, 0.97
"""After so long no more are tried; which share of the best rate is as good."""
SHORT, LONG = "Tea?", "Tea or coffee, and which of the two is good when it is hot?"
PADDING_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.01}
"""How far numbers may differ beside a longer text, relative to 1 and to theirs."""
KERNEL_TOLERANCE = 0.02
"""How far a layer's attention by one kernel may be from run after run: both round it once more."""


class LabelLogits(NamedTuple):
    """The logits of labels as the next token, and how probable any of them is."""

    values: tuple[float, ...]
    share: float

    @classmethod
    def of(cls, logits: Sequence[float]) -> Self:
        """Take the logits of labels, and behind them log Σ exp of all tokens' logits.

        >>> round(LabelLogits.of([0.0, 0.0, 2.079442]).share, 4)
        0.25
        """
        *labels, total = logits
        return cls(tuple(labels), sum(exp(label - total) for label in labels))


class LocalModel(LoadedModel):
    """What can be asked of a loaded model; beginnings that sequences share are read once."""

    def __init__(self, reader: Reader, head: str, turns: FairLock | None = None) -> None:
        super().__init__(reader, head, turns)
        if head != "encoder":  # whose tokens see what follows them
            self.read_mode = find_read_mode(self, self.settings.attention, head)
        self.read_mode = without_neighbours(self, head)
        exact = self.device == "cpu" and self.dtype == self.torch.float32
        if exact and self.read_mode.tree and onednn_is_faster():
            multiply_by_onednn(self.model)
        if reader.compile_details:
            compile_model(self)

    @cached_property
    def head(self) -> Head:
        """The language model's head, apart from what is below it."""
        return Head(self)

    @cached_property
    def valid_ids(self) -> ValidIds:
        """The ids that may be drawn."""
        return ValidIds.of(self.model, self.tokenizer, self.device)

    def read(
        self, groups: Iterable[Group], reduce: Reduce, *, logits: bool = False, there: bool = False
    ) -> Outputs:
        """Yield (group, what `reduce` makes of wanted last hidden states, or of `logits`)."""
        with self.in_use():
            yield from read(Wanted(self, reduce, logits, there), groups)

    def hidden(self, groups: Iterable[Group]) -> Outputs:
        """Yield (group, per sequence, the last hidden states at the wanted tokens, float32)."""
        return self.read(groups, lambda outputs, following: outputs.float())

    def outputs(self, groups: Iterable[Group]) -> Outputs:
        """Yield (group, per sequence, what the model's head reads at the wanted tokens)."""
        return self._below_head(groups, lambda outputs, following: outputs, there=True)

    def _below_head(self, groups: Iterable[Group], reduce: Reduce, **how: bool) -> Outputs:
        return self.read(groups, reduce, logits=not self.head.apart, **how)

    def log_probabilities(
        self, groups: Iterable[Sequence[tuple[Ids, int]]], width: int | None = None
    ) -> Outputs:
        """Yield (group, of each (ids, start) float32 log p from `start` on), by ids < `width`."""
        wanted = ([TokenSpan(i, s - 1, len(i) - 1) for i, s in group] for group in groups)
        return self._below_head(wanted, partial(self.head.log_probabilities, width=width))

    def label_logits(
        self, groups: Iterable[Sequence[Ids]], labels: Ids
    ) -> Iterator[tuple[int, list[LabelLogits]]]:
        """Yield (group, each sequence's next-token logits of these labels, and their share)."""
        for k, of_group in self._below_head(last_tokens(groups), self.head.of_labels(labels)):
            yield k, [LabelLogits.of(logits[0].tolist()) for logits in of_group]

    def next_token_logits(self, sequences: Sequence[Ids]) -> torch.Tensor:
        """Return each sequence's next-token logits, float32; shared beginnings are read once."""
        groups = self._below_head(last_tokens([sequences]), self.head.logits, there=True)
        return concatenated(next(logits for _, logits in groups))

    def pooled(self, sequences: Sequence[Ids]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (position, the own head's logits), one by one where no pad token is named."""
        token = None if self.read_mode.alone else pad_id(self)
        todo = dict(enumerate(sequences))
        with self.in_use():
            while todo:
                logits = as_it_fits(self, partial(self._pooled, todo, token))
                yield from logits.items()
                todo = {k: ids for k, ids in todo.items() if k not in logits}

    def _pooled(self, todo: Mapping[int, Ids], token: int | None) -> dict[int, torch.Tensor]:
        # Of the longest that fit at once.
        alike = list(self.regimes.groups([len(ids) for ids in todo.values()]))[-1]
        places = [[*todo][k] for k in alike]
        lengths = [len(todo[k]) for k in places]
        rows = [places[k] for k in next(padded(lengths, 0 if token is None else self.budget))]
        sequences = [todo[k] for k in rows]
        try:
            with self.turns.of(), self.torch.inference_mode():
                logits = self.model(**pad(self, sequences, token or 0)).logits
        except (ValueError, TypeError) as error:  # such as one that looks for a token in vain
            raise ModelError(
                f"{self.reference}: its own head refuses a conversation ({first_line(error)}); "
                "mend its chat template (--chat-template) or config.json"
            ) from error
        n = len(sequences)
        logits = logits.reshape(-1, 1) if logits.ndim < 2 else logits
        if logits.shape[:-1] != (n,):
            found = tuple(logits.shape)
            raise ModelError(f"{self.reference}: logits {found}; expected ({n}, outputs)")
        return dict(zip(rows, logits.float().cpu(), strict=True))


def last_tokens(groups: Iterable[Sequence[Ids]]) -> Iterator[Group]:
    """Want the output at the last token of each sequence."""
    return ([TokenSpan(ids, len(ids) - 1, len(ids)) for ids in group] for group in groups)


def find_read_mode(local: LoadedModel, attention: str | None, head: str = "causal") -> ReadMode:
    """Return how a model is read, attention set; raises `ModelError` for one that sees ahead."""
    if attention not in (None, "tree"):
        return ReadMode(False, f"attention={attention}")
    plain: list[Any] = []
    before = local.model.config._attn_implementation
    register()
    try:
        sequences = _alike(local)
        with local.torch.inference_mode():
            for ids in sequences:
                outputs = local.model.base_model(input_ids=local.tensor(ids))
                plain.append(outputs.last_hidden_state[0].float())
        local.model.set_attn_implementation(NAME)
        read_mode = _probe(local, sequences, plain)
    except Exception as error:  # what a model raises that cannot is anybody's guess
        if is_out_of_memory(error):
            raise
        read_mode = ReadMode(False, f"its layers do not take it: {type(error).__name__}")
    if head == "causal" and len(plain) == 2:
        first, second = (outputs[:SHARED] for outputs in plain)  # of beginnings that are alike
        if (first - second).norm() / first.norm() > HIDDEN_TOLERANCE["float32"]:
            sees = "its tokens see what follows them"
            raise ModelError(f"{local.reference}: {sees}; this is {LACKING[head]}")
    if not read_mode.tree:
        local.model.set_attn_implementation(before)
    return read_mode


def compile_model(local: LoadedModel) -> None:
    """Have a model's layers compiled, as `compile_layers` does, and try them on a small tree."""
    compile_layers(local, lambda: _by_tree(local, _alike(local))[1])


def _alike(local: LoadedModel) -> list[Ids]:
    """Return two sequences that begin alike."""
    size = local.model.get_input_embeddings().weight.shape[0]
    tokens = [(7 * k * k + 3 * k + 1) % size for k in range(SHARED + 2 * OWN)]
    return [tokens[: SHARED + OWN], [*tokens[:SHARED], *tokens[-OWN:]]]


def _by_tree(local: LoadedModel, sequences: Sequence[Ids]) -> tuple[Pack, torch.Tensor, Layout]:
    (pack,) = packs(build_tree(sequences, least=1), 10 * SHARED)
    layout = Layout(pack.segments)
    with local.torch.inference_mode():
        return pack, forward_pack(local, pack, layout, False).float(), layout


def _probe(local: LoadedModel, sequences: Sequence[Ids], plain: Sequence[Any]) -> ReadMode:
    torch = local.torch
    pack, by_tree, layout = _by_tree(local, sequences)
    layers = getattr(local.model.config.get_text_config(), "num_hidden_layers", None)
    if layout.unsupported:
        return ReadMode(False, ", ".join(dict.fromkeys(layout.unsupported)))
    if layers is None or layout.layer != layers:
        return ReadMode(False, f"{layout.layer} of {layers} layers attend")
    if layout.reach is not None and layout.reach < SHARED + OWN:
        return ReadMode(False, f"a layer sees {layout.reach} tokens")
    first, *leaves = (segment.sequences[0] for segment in pack.segments)
    theirs = torch.cat([plain[first][:SHARED], *(plain[k][SHARED:] for k in leaves)])
    apart = float((by_tree - theirs).norm() / theirs.norm())
    if not apart <= HIDDEN_TOLERANCE[str(local.dtype).removeprefix("torch.")]:
        return ReadMode(False, f"a tree changes its outputs by {apart:.1g}")
    local.layers = layout.layer
    _try_many_runs(local, pack)
    return ReadMode(True, reach=layout.reach)


def _try_many_runs(local: LoadedModel, pack: Pack) -> None:
    """Let layers attend to all runs at once where that gives what they get run after run."""
    kernel = many_runs_of(local.device, local.dtype)
    if kernel is None:
        return
    apart: list[float] = []
    try:
        for most in (MOST_COPIED, 1):  # keys copied, and all of them read apart and merged
            gather = plan_gather(pack.segments, (), local.device, most)
            layout = Layout(pack.segments, many_runs=kernel, gather=gather, differences=apart)
            with local.torch.inference_mode():
                forward_pack(local, pack, layout, False)
    except Exception as error:  # what a kernel raises that does not run here is anybody's guess
        if is_out_of_memory(error):
            raise
        problem = first_line(error)
    else:
        if all(it <= KERNEL_TOLERANCE for it in apart):
            local.many_runs = kernel if apart else None  # no layer may be of a width for it
            return
        problem = f"it changes attention by {max(apart):.1g}"
    local.notes.append(f"attention goes run by run: this device's kernel fails ({problem})")


def fastest_tokens(
    local: LocalModel, free: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[int, bool]:
    """Return how many tokens at a time are read fastest: the fewest within 3 % of the best rate.

    They are doubled from 4096 while a second and half of the `free` bytes last. Where memory runs
    out, they are halved, which is said; the second result tells that nothing of this kind ended it.
    """
    rates: dict[int, float] = {}
    whole = True
    began, length = clock(), min(TRIAL, local.window or TRIAL)
    size, ids = local.model.get_input_embeddings().weight.shape[0], range(3, 3 + length)
    while local.budget <= MOST_TOKENS and clock() < began + SECONDS:
        n = local.budget
        if rates and local.memory(length) > free / 2:
            whole = False
            break
        spans = [TokenSpan([k * j % size for j in ids], 0, 1) for k in range(1, n // length + 1)]
        try:
            for _ in range(2):  # the first time warms up
                started = clock()
                list(local.read([spans], lambda outputs, following: outputs.float()))
        except Exception as error:  # what a model raises that is never read so is anybody's guess
            text = "%s: %d tokens at a time could not be tried (%s)"
            logging.getLogger("palate").warning(text, local.reference, n, first_line(error))
            whole = False
            break
        if local.budget < n:
            whole = False
            break
        rates[n] = len(spans) * length / (clock() - started)
        local.budget *= 2
    fast = [n for n, rate in rates.items() if rate >= NEAR * max(rates.values())]
    return min([local.budget, *fast]), whole


def without_neighbours(local: LoadedModel, head: str) -> ReadMode:
    """Return how a model is read: in batches of one where it sees the padding beside a sequence."""
    mode = local.read_mode
    if local.tokenizer is None or (mode.tree and head != "classifier"):
        return mode  # a tree pads nothing
    read = _rewards if head == "classifier" else _hidden
    try:
        with local.torch.inference_mode():
            ids: list[list[int]] = [local.tokenizer(it)["input_ids"] for it in (SHORT, LONG)]
            alone = read(local, ids[:1])
            padless = head == "classifier" and pad_id(local) is None
            if padless or _is_last_token(local, ids, alone):
                return mode  # it is never padded
            apart = (read(local, ids) - alone).abs() / (1 + alone.abs())
        differs = bool(apart.max() > PADDING_TOLERANCE[str(local.dtype).removeprefix("torch.")])
    except Exception as error:  # what a model raises that takes no batch is anybody's guess
        if is_out_of_memory(error):
            raise
        differs = head == "classifier"
    if not differs:
        return mode
    return ReadMode(False, "beside a longer text a shorter one gets another number", alone=True)


def _rewards(local: LoadedModel, sequences: Sequence[Ids]) -> torch.Tensor:
    # Of the first sequence: what the model's own head gives it.
    inputs = pad(local, sequences, pad_id(local) or 0)
    rewards: torch.Tensor = local.model(**inputs).logits[0].float()
    return rewards


def _hidden(local: LoadedModel, sequences: Sequence[Ids]) -> torch.Tensor:
    outputs = local.model.base_model(**pad(local, sequences, 0)).last_hidden_state
    first: torch.Tensor = outputs[0, : len(sequences[0])].float()
    return first


def _is_last_token(local: LoadedModel, ids: Sequence[Ids], alone: torch.Tensor) -> bool:
    # A linear head at the last token is read off the tree, without the model's own pooling.
    linear = getattr(local.model, "score", None)
    if not local.read_mode.tree or not isinstance(linear, local.torch.nn.Linear):
        return False
    last = linear(_hidden(local, ids[:1])[-1].to(linear.weight.dtype)).float()
    return bool(last.shape == alone.shape and local.torch.allclose(last, alone, atol=0.01))
