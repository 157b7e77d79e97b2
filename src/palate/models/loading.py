"""The one door for what is loaded: tokenizers, configurations, weights, embedders, and merges.

Whatever comes in is accounted for: tensors and keys of the configuration are read, or refused by
name; what libraries warn of becomes a note of the run. No other file calls `from_pretrained`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from palate.errors import ELSEWHERE, LoadError, ModelError, SpecError, first_line, needing
from palate.models.account import (
    account_config,
    account_tokenizer,
    check_files,
    check_quantization,
    is_harmless,
    quantization,
    tensor_problems,
)
from palate.models.runtime import import_torch, import_transformers, listening
from palate.specs import Reference

LOADERS = {
    "causal": "AutoModelForCausalLM",
    "classifier": "AutoModelForSequenceClassification",
    "encoder": "AutoModel",
}
TOKENIZERS = ("tokenizer.json", "*.model", "vocab.*", "*.tiktoken", "tekken.json", "*.py", "*.gguf")
"""Files that a tokenizer's vocabulary stands in; a class of its own may have others."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FIELD, PREFIX = "base_model_name_or_path", "base_model.model."
TASKS = {"causal": "CAUSAL_LM", "classifier": "SEQ_CLS", "encoder": "FEATURE_EXTRACTION"}
"""What an adapter is trained for, by what it is read as; its trainer may not have said."""
Shapes = Mapping[str, list[int]]
"""Of tensors by their names."""
RATES = re.compile("CrossEncoder|ForSequenceClassification$")
"""Models that sentence-transformers loads as embedders all the same."""
MOST_APART = 0.1
"""Share by which the outputs of a merged adapter may differ, for rounding in half precision."""
OUTPUTS = 7919
"""A number of outputs that no layer has by chance."""


def load_part(
    kind: str, folder: Path, name: object, notes: list[str] | None = None, **options: Any
) -> Any:
    """Return a folder's tokenizer, configuration or settings of generation.

    Raises `LoadError` where it cannot be loaded, naming a vocabulary's file that is not there, and
    `ModelError` for a key of config.json that numbers may depend on and nothing reads.
    """
    notes = [] if notes is None else notes
    loader = getattr(import_transformers(), kind)  # whose first import quiets its loggers
    known = kind != "AutoTokenizer" or any(any(folder.glob(it)) for it in TOKENIZERS)
    lacks = "" if known else f"no tokenizer.json in {folder}"
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
    kind = ""
    if "gguf_file" not in options:
        check_files(folder, name)
        kind = quantization(folder)
    if kind:
        check_quantization(kind, name)
    else:
        options.pop("device_map", None)
    stored = adapter_tensors(adapter) if adapter is not None else {}
    if adapter is not None and head == "classifier":
        code = options.get("trust_remote_code", False)
        options |= outputs_of(folder, stored, trust_remote_code=code)

    def why(error: Exception) -> str:
        return first_line(error) + (
            f"; its weights are {kind}, or else {ELSEWHERE}" if kind else ""
        )

    with listening(notes, name, folder, why):
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
    if kind and not hasattr(model.config, "quantization_config"):
        model.to(options["dtype"])  # without its kernels, transformers makes bfloat16 of them
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
    for module in (folder, *sorted(it for it in folder.iterdir() if it.is_dir())):
        pickle = module / "pytorch_model.bin"
        if pickle.is_file() and not any(module.glob("*.safetensors")):
            where = pickle.relative_to(folder)
            raise ModelError(f"{name}: {where} is a pickle, which palate does not load")
        check_files(module, name)

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
    settings = folder / "config_sentence_transformers.json"
    named = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    kinds = [str(named.get("model_type"))]
    if not (folder / "modules.json").is_file() and len(model) > 1:
        kinds += getattr(getattr(body, "config", None), "architectures", None) or []
    if other := next((it for it in kinds if RATES.search(it)), None):
        raise ModelError(f"{name}: a {other} rates texts, and gives no vector of a text")
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


class Adapter(NamedTuple):
    """Where an adapter lies, and what it was trained on."""

    folder: Path
    base: Reference


def find_adapter(folder: Path) -> Adapter | None:
    """Return the adapter in a folder; None for a model with weights of its own.

    Raises `ModelError` where a folder holds both: transformers would add the adapter to weights
    that may hold it already.
    """
    if not (folder / CONFIG).is_file():
        return None
    weights = sorted(file.name for file in folder.glob("*.safetensors") if file.name != WEIGHTS)
    if weights:
        raise ModelError(
            f"model {folder}: {weights[0]} and {CONFIG} lie side by side, so the adapter may be "
            f"applied twice; move {CONFIG} away if it is merged, else {weights[0]}"
        )
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"adapter {folder}: no {WEIGHTS} in it")
    return Adapter(folder.resolve(), _base(folder))


def _base(folder: Path) -> Reference:
    try:
        written = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        name, revision = str(written.get(FIELD) or ""), written.get("revision")
    except (ValueError, AttributeError) as error:
        raise ModelError(f"adapter {folder}: {CONFIG} is no JSON object ({error})") from error
    if name and Path(name).expanduser().is_dir():
        return Reference(place="folder", name=name)
    where = f"write where it lies into `{FIELD}` of {folder / CONFIG}"
    if not name or Path(name).is_absolute() or name.startswith((".", "~")):
        problem = f"its base {name} is not there" if name else "it names no base"
        raise ModelError(f"adapter {folder}: {problem}; {where}")
    try:
        base = Reference.parse(name)
    except SpecError as error:
        raise ModelError(f"adapter {folder}: its base {name} is not there; {where}") from error
    fixed = {"revision": revision} if base.place == "hub" and revision else {}
    return base.model_copy(update=fixed)


def adapter_tensors(adapter: Adapter) -> Shapes:
    """Return the shapes of an adapter's tensors by their names in the base, where it has them."""
    from safetensors import safe_open

    try:
        with safe_open(adapter.folder / WEIGHTS, "pt") as file:
            return {
                key.removeprefix(PREFIX): list(file.get_slice(key).get_shape())
                for key in file.keys()  # noqa: SIM118 - which is no mapping
            }
    except Exception as error:  # what a broken file raises is anybody's guess
        raise LoadError(f"adapter {adapter.folder}: {WEIGHTS} ({first_line(error)})") from error


def outputs_of(folder: Path, stored: Shapes, **code: bool) -> dict[str, int]:
    """Return how many outputs an adapter's own head has, as an option; none without one.

    Which tensor the head is, is asked of the model: one that grows with the number of outputs.
    """
    torch, auto = import_torch(), import_transformers()
    config = auto.AutoConfig.from_pretrained(folder, num_labels=OUTPUTS, **code)
    with torch.device("meta"):
        empty = auto.AutoModelForSequenceClassification.from_config(config, **code)
    heads = [name for name, it in empty.named_parameters() if it.shape[0] == OUTPUTS]
    rows = [stored[name][0] for name in heads if name in stored]
    return {"num_labels": rows[0]} if rows else {}


def add_adapter(
    name: object, head: str, model: Any, adapter: Adapter, stored: Shapes, notes: list[str]
) -> Any:
    """Return the base with the adapter merged into it, a plain transformers model again.

    Raises `ModelError` for an adapter of another task, one that cannot be merged, or one that does
    not fit this base.
    """
    with needing(f"{name}: an adapter needs", "train"):
        import peft
    with listening(notes, name, adapter.folder):
        config = peft.PeftConfig.from_pretrained(str(adapter.folder))
    if config.task_type not in (None, TASKS[head]):
        raise ModelError(f"{name}: an adapter for {config.task_type}; this needs {TASKS[head]}")
    if config.is_prompt_learning:
        raise ModelError(f"{name}: {config.peft_type.value} changes no weights; it is not read")
    # peft drops what it does not know, and a newer one may have computed with it.
    written = json.loads((adapter.folder / CONFIG).read_text(encoding="utf-8"))
    known = {field.name for field in fields(config)} | {"runtime_config"}
    for key in sorted(it for it, value in written.items() if value and it not in known):
        raise ModelError(f"{name}: {CONFIG} holds {key}, which this version of peft ignores")
    failed = f"does not fit its base {adapter.base}"  # such as sizes of another
    with listening(notes, name, adapter.folder, failed=failed):
        # Training that adds tokens keeps embeddings for all of them beside the adapter.
        inputs = model.get_input_embeddings().weight
        key = next((key for key, it in model.named_parameters() if it is inputs), "")
        rows = stored.get(key, inputs.shape)[0]
        if rows != len(inputs):
            model.resize_token_embeddings(rows, mean_resizing=False)
        config.inference_mode = False  # so that peft tells what was trained
        adapted = peft.get_peft_model(model, config)
        trained = {_stored_as(key) for key, it in adapted.named_parameters() if it.requires_grad}
        keys = adapted.load_adapter(str(adapter.folder), "default", torch_device="cpu")
        before = _outputs(adapted.eval())
        lost = _changes_nothing(adapted, before)
        merged = merge(adapted)
    for key in (*keys.missing_keys, *keys.unexpected_keys):
        raise ModelError(f"{name}: {failed} ({key})")
    lacking = trained - set(map(_stored_as, stored))
    for key in sorted(it for it in lacking if it.endswith("bias")):
        raise ModelError(f"{name}: {CONFIG} says that {key} was trained, and {WEIGHTS} lacks it")
    if lost:
        why = f"it is untrained, or what it learnt is not in {WEIGHTS}"
        raise ModelError(f"{name}: the adapter changes nothing of {adapter.base}; {why}")
    apart = (_outputs(merged) - before).norm() / before.norm()
    if not apart < MOST_APART:
        raise ModelError(
            f"{name}: merged into its base, the adapter gives other numbers than unmerged "
            f"(apart by {apart:.0%}); what {CONFIG} asks for cannot be merged"
        )
    return merged


def _stored_as(key: str) -> str:
    """Return a parameter's name without what peft puts around it, and does not always store."""
    return re.sub(r"\.(default|base_layer|modules_to_save)(?=\.)", "", key.removeprefix(PREFIX))


def _outputs(model: Any) -> Any:
    """Return what a model gives for a few tokens."""
    torch = import_torch()
    rows = model.get_input_embeddings().weight.shape[0]
    ids = torch.arange(1, 9).mul(rows // 9)[None].to(model.device)
    if isinstance(end := model.config.eos_token_id, int):
        ids[0, -1] = end  # where heads of T5 and BART read
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    with torch.inference_mode():
        return model(input_ids=ids, **more)[0].float()


def _changes_nothing(adapted: Any, outputs: Any) -> bool:
    """Tell whether peft's model gives these outputs without its adapter too."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [it for it in adapted.modules() if isinstance(it, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    same = bool((_outputs(adapted) == outputs).all())
    for layer in layers:
        layer.enable_adapters(True)
    # Of single tokens that were trained none may be among those read.
    return same and not any("trainable_tokens" in type(it).__module__ for it in layers)


def merge(adapted: Any) -> Any:
    """Return peft's model with its adapters merged into the base, a plain model again.

    Where an adapter reads one of two matrices that are tied, the two are untied first: merged into
    the shared one it would change both. Raises `ModelError` where that does not part them.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    model = adapted.get_base_model()
    ends = model.get_input_embeddings(), model.get_output_embeddings()
    # Tokens that are trained by themselves are tied by peft, which merges them so.
    touched = any(
        isinstance(it, BaseTunerLayer) and "trainable_tokens" not in type(it).__module__
        for it in ends
    )
    inputs, head = (getattr(it, "base_layer", it) for it in ends)
    weight: Any = getattr(head, "weight", None)
    if touched and weight is getattr(inputs, "weight", None) and weight is not None:
        head.weight = import_torch().nn.Parameter(weight.detach().clone(), weight.requires_grad)
        model.config.tie_word_embeddings = False
        model.config.get_text_config().tie_word_embeddings = False
    # peft wraps one of the layers that share it, such as T5's `shared` and not its stacks'.
    places = list(model.named_parameters(remove_duplicate=False))
    changed = {id(it) for key, it in places if key.endswith(".base_layer.weight")}
    for key, it in places:
        if id(it) in changed and not re.search(r"\.(base_layer|original_module)\.", key):
            raise ModelError(f"{key} shares a matrix that the adapter changes elsewhere alone")
    try:
        return adapted.merge_and_unload(safe_merge=True)
    except ValueError as error:  # its check of the sums
        raise ModelError(f"an adapter cannot be merged ({first_line(error)})") from error
