"""The one door for what is loaded: tokenizers, configurations, weights, embedders, and merges.

Whatever comes in is accounted for: tensors and keys of the configuration are read, or refused by
name; what libraries warn of becomes a note of the run. No other file calls `from_pretrained`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palate.errors import ModelError, first_line, needing
from palate.models.account import (
    account_config,
    account_tokenizer,
    damaged,
    doubled,
    is_harmless,
    tensor_problems,
)
from palate.models.listening import listening
from palate.models.merging import Adapter, adapter_tensors, add_adapter, outputs_of
from palate.models.runtime import import_transformers

LOADERS = {
    "causal": "AutoModelForCausalLM",
    "classifier": "AutoModelForSequenceClassification",
    "encoder": "AutoModel",
}
TOKENIZERS = ("tokenizer.json", "*.model", "vocab.*", "*.tiktoken", "tekken.json", "*.py", "*.gguf")
"""Files that a tokenizer's vocabulary stands in; a class of its own may have others."""


def load_part(
    kind: str, folder: Path, name: object, notes: list[str] | None = None, **options: Any
) -> Any:
    """Return a folder's tokenizer, configuration or settings of generation.

    Raises `LoadError` where it cannot be loaded, naming a vocabulary's file that is not there, and
    `ModelError` for a key of config.json that numbers may depend on and nothing reads.
    """
    notes = [] if notes is None else notes
    loader = getattr(import_transformers(), kind)  # whose first import quiets its loggers
    there = kind != "AutoTokenizer" or any(any(folder.glob(it)) for it in TOKENIZERS)
    lacks = "" if there else f"no tokenizer.json in {folder}"
    with listening(notes, name, folder, lambda error: lacks or first_line(error)):
        part = loader.from_pretrained(folder, **options)
    if kind == "AutoConfig":
        account_config(part, folder, name, notes)
    if kind == "AutoTokenizer":
        account_tokenizer(part, folder, name, notes)
    return part


def load_weights(
    name: object,
    head: str,
    folder: Path,
    notes: list[str],
    adapter: Adapter | None = None,
    *,
    fresh_head: bool = False,
    **options: Any,
) -> Any:
    """Return the transformers model of a folder; raises `ModelError` with the tensor's name.

    Refused are tensors that lack, that no layer reads or whose shape differs, a model whose
    configuration names another class, and keys of it that nothing reads. With `fresh_head` a
    classifier's own head may lack, and is drawn at random.
    """
    loader = getattr(import_transformers(), LOADERS[head])
    if (problem := doubled(folder)) is not None:
        raise ModelError(f"{name}: {problem}")
    stored = adapter_tensors(adapter) if adapter is not None else {}
    if adapter is not None and head == "classifier":
        code = options.get("trust_remote_code", False)
        options |= outputs_of(folder, stored, trust_remote_code=code)
    with listening(notes, name, folder, lambda error: damaged(folder) or first_line(error)):
        model, info = loader.from_pretrained(
            folder,
            output_loading_info=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # which are refused below, by name
            **options,
        )
    for problem in tensor_problems(model, head, info, stored, fresh_head):
        raise ModelError(f"{name}: {problem}")
    if "gguf_file" not in options:  # which has no config.json
        account_config(model.config, folder, name, notes)
    return model if adapter is None else add_adapter(name, head, model, adapter, stored, notes)


def fill(module: Any, tensors: Any) -> None:
    """Give a module these tensors, or a file's, by name; raises `RuntimeError` unless all fit."""
    from safetensors.torch import load_file

    stored = load_file(tensors) if isinstance(tensors, Path) else tensors
    module.load_state_dict(stored, strict=True)


def load_embedder(name: object, folder: Path, notes: list[str], **options: Any) -> Any:
    """Return a sentence-transformers model; refuses tensors as `load_weights` does."""
    import_transformers()  # its progress bars go off
    with needing("embedders need", "local"):
        from sentence_transformers import SentenceTransformer
    for pickle in sorted(folder.glob("*/pytorch_model.bin")):
        if not any(pickle.parent.glob("*.safetensors")):
            where = pickle.relative_to(folder)
            raise ModelError(f"{name}: {where} is a pickle, which palate does not load")

    def why(error: Exception) -> str:
        unfit = sorted(it[0] for info in infos for it in info.mismatched_keys)
        return f"{unfit[0]} has another shape in the weights" if unfit else first_line(error)

    with listening(notes, name, folder, why), _reports() as infos:
        model = SentenceTransformer(
            str(folder),
            local_files_only=True,
            model_kwargs={"use_safetensors": True, "dtype": "float32"},
            **options,
        )
    body = getattr(model[0], "auto_model", None)
    for info in infos:
        lacking = sorted(it for it in info.missing_keys if not it.startswith("pooler."))
        unread = sorted(it for it in info.unexpected_keys if not is_harmless(body, "encoder", it))
        for verb, key in (*(("lack", it) for it in lacking), *(("hold", it) for it in unread)):
            raise ModelError(f"{name}: the weights {verb} {key}, and its vectors would be others")
    if body is not None:
        account_config(body.config, Path(body.config.name_or_path or folder), name, notes)
    return model


@contextmanager
def _reports() -> Iterator[list[Any]]:
    """Give what transformers reports of each load, which sentence-transformers passes to nobody."""
    modeling: Any = importlib.import_module("transformers.modeling_utils")
    plain, infos = modeling.log_state_dict_report, list[Any]()

    def report(*parts: Any, **named: Any) -> None:
        infos.extend(it for it in (*parts, *named.values()) if hasattr(it, "mismatched_keys"))
        plain(*parts, **named)

    modeling.log_state_dict_report = report
    try:
        yield infos
    finally:
        modeling.log_state_dict_report = plain
