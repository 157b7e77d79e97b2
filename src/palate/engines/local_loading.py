"""A transformers model, loaded: its head, the ids it may write, the lengths with like positions."""

from __future__ import annotations

import inspect
import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from palate.engines.chat_template import ids_of
from palate.engines.local_attention import length_of_layout
from palate.engines.local_kernels import MOST_COPIED, ManyRuns, placed
from palate.engines.local_threads import FairLock
from palate.engines.reader import Reader, id_count, window_of
from palate.engines.template_source import decoded
from palate.models import TOKENS, choose_device, choose_dtype, import_torch, load_weights

if TYPE_CHECKING:
    import torch

LOGIT_ROWS = 128
"""Rows of logits held at a time: a vocabulary is wide."""
LOGIT_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}
"""How far logits from hidden states may be from the model's own."""
HIDDEN_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""How far hidden states may differ: root mean square, relative to theirs. In bfloat16 a batch of
two alone moves them by 0.04 on processors that multiply matrices in tiles."""
FAR = 2**20
"""No model's factors are known to change beyond so many tokens."""
Rotary = Callable[..., Any]
"""From a state and `position_ids` to the factors of these positions."""
Outputs = Iterator[tuple[int, list["torch.Tensor"]]]
"""(group, what was made of the outputs wanted of each of its sequences)."""
Reduce = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From outputs (m × width) and the tokens that follow (m; −1 at an end) to m numbers or rows."""


class RotaryRegimes(NamedTuple):
    """Which lengths share their rotary factors: all up to `limit`, and beyond it all or none.

    Factors may depend on how long a sequence is (LongRoPE, dynamic NTK). transformers takes the
    longest position of a pass for all that is in it, and some models remember it. Here a sequence
    gets the factors of its own length, whatever is read beside it or in how many pieces.
    """

    limit: int = FAR
    per_length: bool = False
    """Beyond the limit every length has factors of its own."""

    def of(self, length: int) -> int:
        """Return the same number for lengths that share their factors.

        >>> [RotaryRegimes(4096).of(n) for n in (1, 4096, 4097, 5000)]
        [0, 0, 4097, 4097]
        """
        if length <= self.limit:
            return 0
        return length if self.per_length else self.limit + 1

    def groups(self, lengths: Sequence[int]) -> Iterable[list[int]]:
        """Return the positions of lengths that share their factors, the longest apart at the end.

        >>> list(RotaryRegimes(4096).groups([10, 5000, 20]))
        [[0, 2], [1]]
        """
        sides: dict[int, list[int]] = {}
        for k, length in enumerate(lengths):
            sides.setdefault(self.of(length), []).append(k)
        return [sides[side] for side in sorted(sides)]

    def crossed(self, name: object, shortest: int, longest: int) -> bool:
        """Tell whether factors change while a sequence grows, and say so."""
        if self.of(shortest) == self.of(longest):
            return False
        logging.getLogger("palate").warning(
            "%s: the factors of its positions change beyond %d tokens; a reply that grows past it "
            "is read again there, and scored whole it has other log-probabilities",
            name,
            self.limit,
        )
        return True


class ReadMode(NamedTuple):
    """How sequences are read, and why not as a tree where they are not."""

    tree: bool
    why: str = ""
    reach: int | None = None
    """Sequences longer than this go the other way: a layer sees no further."""
    alone: bool = False
    """Whether what a sequence gets depends on the padding beside it."""

    def __str__(self) -> str:
        if self.alone:
            return f"batches of one ({self.why})"
        if not self.tree:
            return f"padded batches ({self.why})"
        limit = f" up to {self.reach} tokens" if self.reach else ""
        return f"shared prefixes{limit}"


class LoadedModel:
    """A model in this process, its tokenizer, and how it is read."""

    regimes = RotaryRegimes()
    """Which lengths share their rotary factors."""
    many_runs: ManyRuns | None = None
    """The kernel by which layers attend to all runs of a pack at once, where there is one."""

    def __init__(self, reader: Reader, head: str, turns: FairLock | None = None) -> None:
        torch, settings, self.folder = import_torch(), reader.settings, reader.resolved
        self.reference, self.settings, self.torch = reader.reference, settings, torch
        self.turns = turns or FairLock()
        self.users, self._counting = 0, threading.Lock()
        self.device = choose_device(settings.device)
        self.dtype = choose_dtype(settings.dtype, self.device)
        self.budget = settings.batch_tokens or TOKENS
        options: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code}
        if settings.attention not in (None, "tree"):
            options["attn_implementation"] = settings.attention
        self.tokenizer = reader.tokenizer
        self.notes: list[str] = []
        options["dtype"], adapter = self.dtype, self.folder.adapter
        options["device_map"] = {"": self.device}  # of quantised weights, which are read in place
        where = self.reference, head, self.folder.path
        self.model = load_weights(*where, self.notes, adapter, **options)
        reader.complete(self.model.config.get_text_config())
        if head == "causal" and self.tokenizer is not None and self.ends != reader.ends:
            self.model.generation_config.eos_token_id = sorted(reader.ends)
        self.regimes = find_regimes(self.model, torch)
        self.model.to(self.device).eval()
        self.read_mode, self.layers = ReadMode(False, "not asked yet"), 1

    @property
    def window(self) -> int | None:
        """Tokens the model can read, or None if it declares no limit."""
        embeddings = getattr(self.model.base_model, "embeddings", None)
        return window_of(self.model.config.get_text_config(), self.tokenizer, embeddings)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the model in memory meanwhile, whatever else is loaded."""
        with self._counting:
            self.users += 1
        try:
            yield
        finally:
            with self._counting:
                self.users -= 1

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Compute a token at a time, which leaves a second thread of a CPU nothing to do."""
        threads = self.torch.get_num_threads() if self.device == "cpu" else 1
        if threads > 1:
            self.torch.set_num_threads(1)
        try:
            with self.torch.inference_mode():
                yield
        finally:
            if threads > 1:
                self.torch.set_num_threads(threads)

    def tensor(self, *rows: Sequence[int]) -> torch.Tensor:
        """Return rows of ids on the model's device."""
        return placed(self.torch.tensor(list(map(list, rows))), self.device)

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply."""
        return ids_of(self.model.generation_config.eos_token_id)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; none for a model without a tokenizer, as benches make it."""
        return "" if self.tokenizer is None else decoded(self.tokenizer, ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return sum(weight.numel() * weight.element_size() for weight in self.model.parameters())

    def memory(self, longest: int, side_by_side: int = 1) -> int:
        """Return the bytes beyond the model that reading may take, however much is read.

        Activations of the tokens at a time; per worker the logits in hand, and the keys and values
        of one sequence of `longest` tokens, which are kept where a slate is cut.
        """
        config = self.model.config.get_text_config()
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        groups = getattr(config, "num_key_value_heads", None) or heads
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        values = 8 * config.hidden_size + 4 * inner + 3 * (heads + 2 * groups) * width
        token = values * self.dtype.itemsize + 3 * config.hidden_size * 4  # norms are in float32
        kept = 2 * config.num_hidden_layers * groups * width * self.dtype.itemsize
        logits = LOGIT_ROWS * config.vocab_size * (self.dtype.itemsize + 8)
        if self.many_runs is not None:  # one layer's keys and values, copied for each run
            copied = (MOST_COPIED + 1) * self.budget + longest
            logits += copied * kept // config.num_hidden_layers
        return int(self.budget * token + side_by_side * (logits + longest * kept))


class Head:
    """A language model's head, applied to the rows that are wanted and to no others.

    Where the model does more to its logits than palate knows (asked of the model itself), `apart`
    is False, and what comes in are the model's own logits.
    """

    def __init__(self, local: LoadedModel) -> None:
        self.torch = local.torch
        self.linear = local.model.get_output_embeddings()
        config = local.model.config.get_text_config()
        self.cap = getattr(config, "final_logit_softcapping", None)
        self.scale = getattr(config, "logit_scale", None) or 1.0  # Cohere
        self.scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite
        self.apart = self._is_linear(local)

    def _is_linear(self, local: LoadedModel) -> bool:
        weight = getattr(self.linear, "weight", None)
        if weight is None or not weight.is_floating_point():  # which may be quantised
            return False
        tokens = local.tensor([1, 2, 3, 4])
        with self.torch.inference_mode():
            theirs = local.model(input_ids=tokens).logits[0].float()
            ours = self._logits(local.model.base_model(input_ids=tokens).last_hidden_state[0])
        close = LOGIT_TOLERANCE[str(local.dtype).removeprefix("torch.")]
        return bool(ours.shape == theirs.shape and (ours - theirs).abs().max() <= close)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._shaped(self.linear(hidden).float())

    def _shaped(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits * self.scale if self.scale != 1 else logits
        return self.cap * self.torch.tanh(logits / self.cap) if self.cap else logits

    def _chunks(self, outputs: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        for first in range(0, len(outputs), LOGIT_ROWS):
            rows = slice(first, first + LOGIT_ROWS)
            yield rows, self._logits(outputs[rows]) if self.apart else outputs[rows].float()

    def log_probabilities(
        self, outputs: torch.Tensor, following: torch.Tensor, width: int | None = None
    ) -> torch.Tensor:
        """Return log p of the token that follows each row, among the first `width` ids."""
        entropy = self.torch.nn.functional.cross_entropy
        found = [
            -entropy(logits[:, :width], following[rows], reduction="none")
            for rows, logits in self._chunks(outputs)
        ]
        return concatenated(found)

    def logits(self, outputs: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """Return the logits of every token after each row, where the model is."""
        return concatenated([logits for _, logits in self._chunks(outputs)])

    def distributions(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return log p of every token after each row, float32, where the model is."""
        logs = [self.torch.log_softmax(logits, dim=-1) for _, logits in self._chunks(outputs)]
        return concatenated(logs)

    def of_labels(self, labels: Sequence[int]) -> Reduce:
        """Return what makes labels' logits, in float32 against ties, and log Σ exp of all."""
        if not self.apart:
            return lambda outputs, following: self._with_total(
                outputs[:, list(labels)].float(), outputs
            )
        ids = self.torch.tensor(list(labels), device=self.linear.weight.device)
        weight = self.linear.weight[ids].float()
        bias = getattr(self.linear, "bias", None)
        shift: Any = bias[ids].float() if bias is not None else 0.0

        def reduce(outputs: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
            return self._with_total(self._shaped(outputs.float() @ weight.T + shift), outputs)

        return reduce

    def _with_total(self, logits: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        totals = [chunk.logsumexp(dim=-1) for _, chunk in self._chunks(outputs)]
        return concatenated([logits, self.torch.cat(totals)[:, None]], dim=-1)


def concatenated(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Return tensors one after another."""
    whole: torch.Tensor = import_torch().cat(list(tensors), dim=dim)
    return whole


class ValidIds(NamedTuple):
    """The ids that a model may write."""

    size: int
    """All tokens lie below."""
    blocked: torch.Tensor | None
    """True at ids below that are no token; None where all are."""

    @classmethod
    def of(cls, model: Any, tokenizer: Any, device: Any) -> Self:
        """Return a transformers model's; without a tokenizer every id of its head."""
        torch = import_torch()
        size = id_count(tokenizer, model.config.get_text_config())
        if tokenizer is None:
            return cls(size, None)
        blocked = torch.ones(size, dtype=torch.bool)
        blocked[[k for k in tokenizer.get_vocab().values() if k < size]] = False
        return cls(size, blocked.to(device) if bool(blocked.any()) else None)

    def only(self, logp: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities (rows × size) of a head's, −∞ where there is no token."""
        # Of policy and guides alike, or a keep-set of the guide's holds such ids.
        logp = logp[:, : self.size]
        if self.blocked is None:
            return logp
        return logp.masked_fill(self.blocked.to(logp.device), -float("inf"))


def find_regimes(model: Any, torch: Any) -> RotaryRegimes:
    """Return which lengths share their factors, asked of the model's own modules.

    Modules whose factors depend on the length are changed to take them from the length of the
    sequence that is read (`Layout.length`), or else of the pass.
    """
    limit, by_length = FAR, False
    for module in model.modules():
        for rotary in _rotaries(module):
            near = _limit(rotary, torch)
            if near is None:
                continue
            limit = min(limit, near)
            by_length |= not _alike(rotary, torch, near + 1, FAR)
            _by_length(module, torch)
    return RotaryRegimes(limit, by_length)


def _rotaries(module: Any) -> list[Rotary]:
    # One for each kind of layer, where a module serves several.
    if "otary" not in type(module).__name__:
        return []
    parameters = inspect.signature(module.forward).parameters
    if "position_ids" not in parameters:
        return []
    kinds = sorted(set(getattr(module, "layer_types", ()))) if "layer_type" in parameters else []
    options: list[dict[str, Any]] = [{"layer_type": kind} for kind in kinds] or [{}]
    return [partial(module, **more) for more in options]


def _limit(rotary: Rotary, torch: Any) -> int | None:
    """Return the greatest length with the factors of the shortest; None where all have them."""
    try:
        if _alike(rotary, torch, 4, FAR):
            return None
    except Exception:  # one of images, or of other arguments: it is called as the model calls it
        return None
    alike = partial(_alike, rotary, torch, 4)
    return bisect_left(range(FAR), True, lo=5, key=lambda length: not alike(length)) - 1


def _alike(rotary: Rotary, torch: Any, one: int, other: int) -> bool:
    results, state = [], torch.zeros(1, 1, 1)
    for length in (one, other):
        rotary(state, position_ids=torch.tensor([[0]]))  # some remember how far they read
        outputs = rotary(state, position_ids=torch.tensor([[1, 2, 3, length - 1]]))
        results.append([factors[..., :3, :] for factors in _tensors(outputs)])
    rotary(state, position_ids=torch.tensor([[0]]))
    return all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def _tensors(outputs: Any) -> Sequence[Any]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _by_length(module: Any, torch: Any) -> None:
    if hasattr(module.forward, "by_length"):  # of another kind of layer
        return
    plain, lock = module.forward, threading.Lock()

    def forward(x: torch.Tensor, position_ids: torch.Tensor, *args: Any, **more: Any) -> Any:
        length = length_of_layout() or int(position_ids.max()) + 1
        far = torch.full_like(position_ids[..., :1], length - 1)
        with lock:  # the factors of a pass are kept in the module, which threads share
            plain(x, torch.zeros_like(far), *args, **more)
            outputs = plain(x, torch.cat([position_ids, far], dim=-1), *args, **more)
        cut = tuple(it[..., :-1, :] for it in _tensors(outputs))
        return cut if isinstance(outputs, tuple) else cut[0]

    forward.by_length = True  # type: ignore[attr-defined]
    module.forward = forward
