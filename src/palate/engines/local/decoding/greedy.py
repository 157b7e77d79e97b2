"""The likeliest continuation, by the model's own generation settings."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence

from palate.engines.local.memory import within_memory
from palate.engines.local.model import LocalModel
from palate.engines.local.threads import one_thread


def generate(
    local: LocalModel, sequences: Sequence[Sequence[int]], max_tokens: int
) -> Iterator[tuple[int, str, bool]]:
    """Yield (position, greedy continuation, whether it was cut off at `max_tokens`).

    The model's own generation settings hold, such as a penalty on repetition.
    """
    torch = local.torch
    otherwise = "out of memory while writing a reply; use a smaller model or dtype"
    shared = _shared(sequences) if local.read_mode.tree and local.read_mode.reach is None else 0
    if sequences and local.sides.of(max(map(len, sequences)) + max_tokens):
        shared = 0  # read by itself it would get the factors of its own length
    pad = local.tokenizer.pad_token_id
    cache = None
    with local.in_use():
        for k, ids in enumerate(sequences):
            with _pass(local), within_memory(f"{local.reference}: {otherwise}"):
                if shared and not k:
                    tokens = torch.tensor([list(ids[:shared])], device=local.device)
                    cache = local.model.base_model(input_ids=tokens, use_cache=True).past_key_values
                tokens = torch.tensor([list(ids)], device=local.device)
                whole = len(ids) + max_tokens
                grows = local.sides.crossed(local.reference, len(ids), whole)
                generated = local.model.generate(
                    tokens,
                    attention_mask=torch.ones_like(tokens),
                    past_key_values=copy.deepcopy(cache),
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    pad_token_id=pad if pad is not None else local.tokenizer.eos_token_id,
                    **({"use_cache": False} if grows else {}),
                )[0, len(ids) :].tolist()
            reply = local.text(generated)
            yield k, reply, not local.ends & set(generated)


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
