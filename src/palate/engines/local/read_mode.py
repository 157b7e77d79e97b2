"""Which way a model can read: a tree of shared beginnings, or padded batches.

Asked of the model itself, never of a list of names: a small tree is read, and each of its sequences
alone; if the two agree and no layer asked for what a tree does not give, the tree it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palate.engines.local.attention import NAME, Layout, register
from palate.engines.local.forward import forward_pack
from palate.engines.local.loading import LoadedModel, ReadMode
from palate.engines.local.memory import is_out_of_memory
from palate.engines.local.tree import build_tree, packs
from palate.errors import ModelError
from palate.models.account import LACKING

SHARED, OWN = 24, 7
"""Tokens of the probe's beginning and of its two ends."""
CLOSE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""How far hidden states may differ: root mean square, relative to theirs. In bfloat16 a batch of
two alone moves them by 0.04 on processors that multiply matrices in tiles."""


def find_read_mode(local: LoadedModel, attention: str | None, head: str = "causal") -> ReadMode:
    """Return how this model is read, and leave its attention set for it.

    Raises `ModelError` for a language model whose tokens see what follows them.
    """
    if attention not in (None, "tree"):
        return ReadMode(False, f"attention={attention}")
    plain: list[Any] = []
    before = local.model.config._attn_implementation
    register()
    try:
        sequences = _sequences(local)
        with local.torch.inference_mode():
            plain += (_alone(local, ids) for ids in sequences)
        local.model.set_attn_implementation(NAME)
        read_mode = _probe(local, sequences, plain)
    except Exception as error:  # what a model raises that cannot is anybody's guess
        if is_out_of_memory(error):
            raise
        read_mode = ReadMode(False, f"its layers do not take it: {type(error).__name__}")
    if head == "causal" and len(plain) == 2 and _see_ahead(*plain):
        raise ModelError(
            f"{local.reference}: its tokens see what follows them; this is {LACKING[head]}"
        )
    if not read_mode.tree:
        local.model.set_attn_implementation(before)
    return read_mode


def _sequences(local: LoadedModel) -> list[list[int]]:
    size = local.model.get_input_embeddings().weight.shape[0]
    tokens = [(7 * k * k + 3 * k + 1) % size for k in range(SHARED + 2 * OWN)]
    return [tokens[: SHARED + OWN], [*tokens[:SHARED], *tokens[-OWN:]]]


def _probe(
    local: LoadedModel, sequences: Sequence[Sequence[int]], plain: Sequence[Any]
) -> ReadMode:
    torch = local.torch
    (pack,) = packs(build_tree(sequences, least=1), 10 * SHARED)
    layout = Layout(pack.segments)
    with torch.inference_mode():
        by_tree = forward_pack(local, pack, layout, False).float()
    layers = getattr(local.model.config.get_text_config(), "num_hidden_layers", None)
    if layout.unsupported:
        return ReadMode(False, ", ".join(dict.fromkeys(layout.unsupported)))
    if layers is None or layout.layer != layers:
        return ReadMode(False, f"{layout.layer} of {layers} layers attend")
    if layout.reach is not None and layout.reach < SHARED + OWN:
        return ReadMode(False, f"a layer sees {layout.reach} tokens")
    first, *leaves = (segment.sequences[0] for segment in pack.segments)
    theirs = torch.cat([plain[first][:SHARED], *(plain[k][SHARED:] for k in leaves)])
    close = CLOSE[str(local.dtype).removeprefix("torch.")]
    apart = float((by_tree - theirs).norm() / theirs.norm())
    if not apart <= close:
        return ReadMode(False, f"a tree changes its outputs by {apart:.1g}")
    local.layers = layout.layer
    return ReadMode(True, reach=layout.reach)


def _see_ahead(first: Any, second: Any) -> bool:
    # The two begin alike and end differently.
    apart = (first[:SHARED] - second[:SHARED]).norm() / first[:SHARED].norm()
    return bool(apart > CLOSE["float32"])


def _alone(local: LoadedModel, ids: Sequence[int]) -> Any:
    tokens = local.torch.tensor([list(ids)], device=local.device)
    return local.model.base_model(input_ids=tokens).last_hidden_state[0].float()
