"""The model that training starts from, and a pad token that ends no turn."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from palate.engines import ChatTemplate
from palate.engines.text.chat_template import HELLO
from palate.errors import ModelError
from palate.marks import ADDED_PAD
from palate.models import ModelFolder, import_torch, import_transformers
from palate.models.loading import load_part, load_weights
from palate.records import Settings

Kind = Literal["classifier", "causal"]
KINDS: dict[Kind, str] = {"classifier": "a classifier", "causal": "a language model"}


class Base(NamedTuple):
    """A model in float32, and its tokenizer."""

    model: Any
    tokenizer: Any
    template: ChatTemplate
    notes: tuple[str, ...] = ()
    """What was said while they were loaded."""


def load_base(
    folder: ModelFolder,
    name: str,
    seed: int,
    kind: Kind = "classifier",
    settings: Settings | None = None,
) -> Base:
    """Load a causal model, or a classifier of one output whose missing head the seed draws.

    Seeds the global generators of Python, numpy and torch, as transformers does. A chat template
    of the settings becomes the tokenizer's own where it has none.

    Raises:
        ModelError: if it cannot be loaded so, or has no chat template.
    """
    base = _loaded(folder, name, seed, kind, settings)
    _set_pad(base.model, base.tokenizer, base.template)
    return base._replace(template=_template(base.model, base.tokenizer, settings))


def load_policy(
    folder: ModelFolder, name: str, seed: int, settings: Settings | None = None
) -> Base:
    """Load a language model that is trained on what it writes; its pad token may end a turn.

    Its vocabulary stays, since a frozen copy is loaded beside it. Raises as `load_base`.
    """
    base = _loaded(folder, name, seed, "causal", settings)
    if base.tokenizer.pad_token is None:
        base.tokenizer.pad_token = base.tokenizer.eos_token
    base.tokenizer.padding_side = "left"
    return base


def _template(model: Any, tokenizer: Any, settings: Settings | None) -> ChatTemplate:
    return ChatTemplate(tokenizer, settings, model.get_input_embeddings().num_embeddings)


def _loaded(
    folder: ModelFolder, name: str, seed: int, kind: Kind, settings: Settings | None
) -> Base:
    torch, transformers = import_torch(), import_transformers()
    transformers.set_seed(seed)
    notes, fresh = list(folder.notes), kind == "classifier"
    options: dict[str, Any] = {"fresh_head": True, "num_labels": 1} if fresh else {}
    try:
        tokenizer = load_part("AutoTokenizer", folder.path, name, notes)
        model = load_weights(name, kind, folder.path, notes, dtype=torch.float32, **options)
    except ModelError as error:
        why = str(error).removeprefix(f"{name}: ").removeprefix("cannot be loaded ").strip("()")
        raise ModelError(f"{name}: cannot be trained as {KINDS[kind]} ({why})") from error
    template = _template(model, tokenizer, settings)
    if template.source.given:
        tokenizer.chat_template = template.source.written
    _no_attention_dropout(model)
    return Base(model, tokenizer, template, tuple(notes))


def _set_pad(model: Any, tokenizer: Any, template: ChatTemplate) -> None:
    # A classifier's head reads the last token that is not pad, and a language model must not learn
    # that pad ends a turn: so no token that any conversation holds.
    written = set(template.conversation(HELLO, "Hello!"))
    written |= {tokenizer.eos_token_id, tokenizer.bos_token_id}
    candidates = (tokenizer.pad_token, tokenizer.unk_token)
    free = (t for t in candidates if t and tokenizer.convert_tokens_to_ids(t) not in written)
    pad = next(free, None)
    if pad is None:
        pad = ADDED_PAD
        tokenizer.add_special_tokens({"pad_token": pad})
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    tokenizer.pad_token = pad
    model.config.pad_token_id = tokenizer.pad_token_id
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id


def _no_attention_dropout(model: Any) -> None:
    # TRL switches off Dropout modules; attention holds its rate as a number.
    for module in model.modules():
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
