"""Compiled layers: the norms, rotary factors and gates of a decoder as a few fused kernels.

They compute what is read as a tree, one row of any number of tokens, so that one compilation serves
all lengths. Writing, padded batches and a single token are computed as without them.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from palate.engines.local_attention import make_opaque, reads_tree
from palate.engines.local_forward import is_out_of_memory
from palate.engines.local_loading import HIDDEN_TOLERANCE, LoadedModel
from palate.errors import first_line
from palate.stores import cache_folder

CACHES = {"TORCHINDUCTOR_CACHE_DIR": "compiled", "TRITON_CACHE_DIR": "compiled/triton"}
"""Where compilers keep what they made, unless the user says where: folders of palate's cache."""
LIMIT = 64
"""Models of one class, and kinds of their layers, whose compiled code a process holds."""
_compiling = threading.Lock()


def compile_layers(local: LoadedModel, by_tree: Callable[[], Any]) -> None:
    """Compile a model's layers, and compare what `by_tree` reads through them and without.

    Where a compiler is missing or fails, or numbers differ, the layers stay as they are, and a note
    of the model says why.
    """
    layer_class = importlib.import_module("transformers.modeling_layers").GradientCheckpointingLayer
    layers = [it for it in local.model.base_model.modules() if isinstance(it, layer_class)]
    plain = [layer.forward for layer in layers]
    why = "" if layers else "none of them is a layer of transformers"
    if not local.read_mode.tree:
        why = f"it is read in {local.read_mode}"
    try:
        why = why or _compile(local, layers, by_tree)
    except Exception as error:  # what a compiler raises is anybody's guess
        if is_out_of_memory(error):
            raise
        why = f"{type(error).__name__}: {first_line(error)}"
    finally:
        for layer, forward in zip(layers, plain, strict=True):
            layer.forward = forward
    if why:
        local.notes.append(f"{local.reference}: its layers are not compiled ({why})")
        return
    for layer in layers:
        layer.forward = _in_trees(layer.forward, local.torch)


@contextmanager
def _caches() -> Iterator[None]:
    """Let compilers keep what they make in palate's cache, unless the user says where."""
    dirs = importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    taken, before = dirs.default_cache_dir(), {name: os.environ.get(name) for name in CACHES}
    here = {name: str(cache_folder() / folder) for name, folder in CACHES.items()}
    # Torch sets its default while it is imported.
    os.environ.update({k: v for k, v in here.items() if before[k] in (None, taken)})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _compile(local: LoadedModel, layers: Sequence[Any], by_tree: Callable[[], Any]) -> str:
    torch = local.torch
    options = {"cpp.dynamic_threads": True, "guard_filter_fn": _without_threads}
    # Each model adds to what its class's code was compiled for; beyond a limit torch gives up.
    limits = {"recompile_limit": LIMIT, "fail_on_recompile_limit_hit": True}
    with _compiling, _caches(), torch.inference_mode(), torch._dynamo.config.patch(limits):
        expected = by_tree()
        make_opaque()
        for layer in layers:  # which share their code, so one compilation serves those alike
            layer.forward = torch.compile(layer.forward, dynamic=True, options=options)
        apart = float((by_tree() - expected).norm() / expected.norm())
    close = apart <= HIDDEN_TOLERANCE[str(local.dtype).removeprefix("torch.")]
    return "" if close else f"they change its outputs by {apart:.1g}"


def _without_threads(guards: Sequence[Any]) -> list[bool]:
    # Else code that was compiled on two threads is none for a worker's one. The state's other
    # parts (no gradients, no autocast) are the same in every pass.
    return [guard.guard_type != "GLOBAL_STATE" for guard in guards]


def _in_trees(plain: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    # Nothing is compiled any more: several threads may not, and a failure would end a run.
    compiled = torch._dynamo.run(plain)

    @wraps(plain)
    def forward(*args: Any, **options: Any) -> Any:
        return (compiled if reads_tree() else plain)(*args, **options)

    return forward
