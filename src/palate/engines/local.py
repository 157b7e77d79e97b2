"""A model in this process: sequences that begin alike are computed as one prefix and its suffixes.

What a sequence gets does not depend on what else is in its batch: right padding, explicit
positions, a mask, heads in float32.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from palate.engines.threads import spread
from palate.errors import ModelError, ResourceError
from palate.models import choose_device, choose_dtype, import_torch, import_transformers, resolve
from palate.records import Settings
from palate.specs import Reference

if TYPE_CHECKING:
    import torch

R = TypeVar("R")
NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")
HEADS = {"causal": "AutoModelForCausalLM", "classifier": "AutoModelForSequenceClassification"}


class LocalModel:
    """A loaded transformers model with its tokenizer."""

    def __init__(self, reference: Reference, head: str, settings: Settings) -> None:
        torch, transformers = import_torch(), import_transformers()
        self.folder = resolve(reference)
        self.reference, self.settings, self.torch = reference, settings, torch
        self.device = choose_device(settings.device)
        self.dtype = choose_dtype(settings.dtype, self.device)
        options = {"trust_remote_code": settings.trust_remote_code}
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder.path, **options)
            loader = getattr(transformers, HEADS[head])
            self.model, info = loader.from_pretrained(
                self.folder.path,
                dtype=self.dtype,
                output_loading_info=True,
                use_safetensors=True,
                **options,
            )
        except Exception as error:  # what a broken folder raises is anybody's guess
            raise ModelError(f"{reference}: cannot be loaded ({first_line(error)})") from error
        missing = sorted(info["missing_keys"])
        if missing:
            what = {
                "classifier": "no trained classifier (see: palate train classifier)",
                "causal": "no language model that can write or read off probabilities",
            }
            raise ModelError(f"{reference}: the weights lack {missing[0]}; this is {what[head]}")
        self.model.to(self.device).eval()
        self.caches = _caches_prefixes(self)

    @property
    def window(self) -> int | None:
        """Tokens the model can read, or None if it declares no limit."""
        config = self.model.config.get_text_config()
        positions = getattr(config, "max_position_embeddings", None)
        embeddings = getattr(self.model.base_model, "embeddings", None)
        padding = getattr(embeddings, "padding_idx", None)
        if positions is not None and padding is not None:
            positions -= padding + 1  # RoBERTa counts positions from there
        limits = [positions, self.tokenizer.model_max_length]
        real = [int(limit) for limit in limits if limit is not None and 0 < limit < 10**9]
        return min(real) if real else None

    @property
    def details(self) -> dict[str, Any]:
        """What a manifest must hold of this model."""
        return {
            "reference": str(self.reference),
            "content": self.folder.content,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.torch.device(self.device).type,
            "attention": getattr(self.model.config, "_attn_implementation", None),
            "batch_tokens": self.settings.batch_tokens,
            "prefix_cache": self.caches,
        }

    def tail(
        self, sequences: Sequence[Sequence[int]], starts: Sequence[int], *, hidden: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, model output at the tokens from `starts[position]` on), float32.

        The sequences' common prefix, up to the earliest start, is computed once. The output is the
        logits of a causal model (shape tokens × vocabulary), or the last hidden states.
        """
        shared = min(common_prefix(sequences), *starts) if self.caches else 0
        if len(sequences) == 1:
            shared = 0
        with self.torch.inference_mode(), self._memory():
            cache = self._prefix(sequences[0][:shared]) if shared else None
            for batch in batches(sequences, shared, self.settings.batch_tokens):
                yield from self._suffixes(sequences, starts, shared, cache, batch, hidden)

    def spread(self, jobs: Iterable[tuple[int, Callable[[], R]]]) -> Iterator[tuple[int, R]]:
        """Run independent jobs on this model, side by side where that is faster."""
        return spread(self.torch, self.device, jobs)

    @contextlib.contextmanager
    def _memory(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            said = str(error).lower()
            if not isinstance(error, MemoryError) and not any(sign in said for sign in NO_MEMORY):
                raise
            raise ResourceError(
                f"{self.reference}: out of memory at {self.settings.batch_tokens} tokens a batch; "
                "lower --batch-tokens"
            ) from error

    def _prefix(self, ids: Sequence[int]) -> Any:
        tokens = self.torch.tensor([list(ids)], device=self.device)
        return self.model.base_model(input_ids=tokens, use_cache=True).past_key_values

    def _suffixes(
        self,
        sequences: Sequence[Sequence[int]],
        starts: Sequence[int],
        shared: int,
        cache: Any,
        batch: Sequence[int],
        hidden: bool,
    ) -> Iterator[tuple[int, Any]]:
        torch = self.torch
        longest = max(len(sequences[k]) for k in batch) - shared
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros(len(batch), shared + longest, dtype=torch.long)
        for row, k in enumerate(batch):
            ids = sequences[k][shared:]
            tokens[row, : len(ids)] = torch.tensor(ids)
            mask[row, : shared + len(ids)] = 1
        inputs: dict[str, Any] = {
            "input_ids": tokens.to(self.device),
            "attention_mask": mask.to(self.device),
        }
        if self.caches:
            positions = torch.arange(shared, shared + longest, device=self.device)
            inputs["position_ids"] = positions.expand(len(batch), -1)
        if cache is not None:
            spread = copy.deepcopy(cache)
            spread.batch_repeat_interleave(len(batch))
            inputs["past_key_values"] = spread
        model = self.model.base_model if hidden else self.model
        output = model(**inputs, use_cache=cache is not None)
        wanted = output.last_hidden_state if hidden else output.logits
        for row, k in enumerate(batch):
            yield k, wanted[row, starts[k] - shared : len(sequences[k]) - shared].float()

    def pooled(self, sequences: Sequence[Sequence[int]]) -> Iterator[tuple[int, Any]]:
        """Yield (position, the logits of the model's own head), for models that pool themselves.

        Where a model's configuration names no pad token, its head may need batches of one.
        """
        torch = self.torch
        pad = self.model.config.get_text_config().pad_token_id
        budget = self.settings.batch_tokens if pad is not None else 0
        with torch.inference_mode(), self._memory():
            for batch in batches(sequences, 0, budget):
                longest = max(len(sequences[k]) for k in batch)
                tokens = torch.full((len(batch), longest), pad or 0)
                mask = torch.zeros_like(tokens)
                for row, k in enumerate(batch):
                    tokens[row, : len(sequences[k])] = torch.tensor(list(sequences[k]))
                    mask[row, : len(sequences[k])] = 1
                output = self.model(
                    input_ids=tokens.to(self.device), attention_mask=mask.to(self.device)
                )
                for row, k in enumerate(batch):
                    yield k, output.logits[row].float()

    def log_probabilities(self, encoded: Sequence[tuple[Sequence[int], int]]) -> list[torch.Tensor]:
        """Return, for each (ids, start), log p of each token from `start` on given those before."""
        torch = self.torch
        sequences = [list(ids) for ids, _ in encoded]
        starts = [start - 1 for _, start in encoded]  # the token before predicts the first
        found: list[Any] = [None] * len(sequences)
        for k, logits in self.tail(sequences, starts):
            targets = torch.tensor(sequences[k][starts[k] + 1 :], device=self.device)
            logp = torch.log_softmax(logits[:-1], dim=-1)
            found[k] = logp.gather(1, targets[:, None])[:, 0].cpu()
        return found

    def label_logits(
        self, sequences: Sequence[Sequence[int]], labels: Sequence[int]
    ) -> list[tuple[float, ...]]:
        """Return the next-token logits of these label ids after each sequence.

        The head is computed in float32 on the labels alone: in bfloat16 logits near 20 step by
        0.125, which makes ties. Only differences between labels have a meaning.
        """
        head = self.model.get_output_embeddings()
        ids = self.torch.tensor(list(labels), device=self.device)
        weight = head.weight[ids].float()
        bias = head.bias[ids].float() if getattr(head, "bias", None) is not None else 0.0
        config = self.model.config.get_text_config()
        cap = getattr(config, "final_logit_softcapping", None)
        scale = getattr(config, "logit_scale", None) or 1.0  # Cohere
        scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite
        found: list[Any] = [None] * len(sequences)
        for k, hidden in self.tail(sequences, [len(ids) - 1 for ids in sequences], hidden=True):
            logits = scale * (weight @ hidden[-1] + bias)
            logits = cap * self.torch.tanh(logits / cap) if cap else logits
            found[k] = tuple(float(logit) for logit in logits)
        return found

    def generate(
        self, sequences: Sequence[Sequence[int]], max_tokens: int
    ) -> Iterator[tuple[int, str, bool]]:
        """Yield (position, greedy continuation, whether it was cut off at `max_tokens`)."""
        torch = self.torch
        shared = min(common_prefix(sequences), *(len(ids) - 1 for ids in sequences))
        shared = shared if self.caches and len(sequences) > 1 else 0
        ends = self.model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends}
        pad = self.tokenizer.pad_token_id
        with torch.inference_mode(), self._memory(), one_thread(torch, self.device):
            cache = self._prefix(sequences[0][:shared]) if shared else None
            for k, ids in enumerate(sequences):
                tokens = torch.tensor([list(ids)], device=self.device)
                made = self.model.generate(
                    tokens,
                    attention_mask=torch.ones_like(tokens),
                    past_key_values=copy.deepcopy(cache),
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    pad_token_id=pad if pad is not None else self.tokenizer.eos_token_id,
                )[0, len(ids) :].tolist()
                reply = self.tokenizer.decode(made, skip_special_tokens=True)
                yield k, reply, not ends & set(made)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def one_thread(torch: Any, device: str) -> Iterator[None]:
    """Decode on one CPU thread: a token at a time leaves a second one nothing to do."""
    threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_loaded: dict[tuple[str, str, str, Settings], LocalModel] = {}


def load_local(reference: Reference, head: str, settings: Settings) -> LocalModel:
    """Return the model, loaded at most once while nothing else is asked for.

    One model is held at a time: a grid goes scorer by scorer.
    """
    key = (str(reference), resolve(reference).content, head, settings)
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = LocalModel(reference, head, settings)
    return _loaded[key]


def common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    """Return how many tokens all sequences begin with alike.

    >>> common_prefix([[1, 2, 3], [1, 2, 4], [1, 2]])
    2
    """
    shortest, longest = min(map(tuple, sequences)), max(map(tuple, sequences))
    for k, (ours, theirs) in enumerate(zip(shortest, longest, strict=False)):
        if ours != theirs:
            return k
    return min(len(shortest), len(longest))


def batches(sequences: Sequence[Sequence[int]], shared: int, budget: int) -> Iterator[list[int]]:
    """Yield batches of positions, longest first, each within the budget of padded tokens.

    A sequence over the budget makes a batch of its own.
    """
    order = sorted(range(len(sequences)), key=lambda k: (-len(sequences[k]), k))
    batch: list[int] = []
    for k in order:
        width = len(sequences[(batch or [k])[0]]) - shared
        if batch and (len(batch) + 1) * width > budget:
            yield batch
            batch = []
        batch.append(k)
    if batch:
        yield batch


def _caches_prefixes(local: LocalModel) -> bool:
    # Asked of the model itself: two tokens, then look at what it kept. Encoders keep nothing,
    # recurrent and sliding-window models keep what cannot simply be repeated.
    torch = local.torch
    tokens = torch.tensor([[0, 1]], device=local.device)
    with torch.inference_mode():
        try:
            output = local.model.base_model(input_ids=tokens, use_cache=True)
        except TypeError:
            return False
    cache = getattr(output, "past_key_values", None)
    if cache is None or not hasattr(cache, "batch_repeat_interleave"):
        return False
    sliding = getattr(cache, "is_sliding", [False])
    return type(cache).__name__ == "DynamicCache" and not any(sliding)
