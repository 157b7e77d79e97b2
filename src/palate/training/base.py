"""The model that training starts from: one output, and a pad token that ends no turn."""

from __future__ import annotations

from typing import Any, NamedTuple

from palate.engines import ChatTemplate
from palate.errors import ModelError
from palate.models import ModelFolder, import_torch, import_transformers
from palate.records import Message

ADDED_PAD = "<|pad|>"


class Base(NamedTuple):
    """A sequence classifier with one output in float32, and its tokenizer."""

    model: Any
    tokenizer: Any
    template: ChatTemplate


def load_base(folder: ModelFolder, name: str, seed: int) -> Base:
    """Load a causal model or a classifier; a head that is not there is drawn from the seed.

    Seeds the global generators of Python, numpy and torch, as transformers does.

    Raises:
        ModelError: if it cannot be loaded with one output, or has no chat template.
    """
    torch, transformers = import_torch(), import_transformers()
    transformers.set_seed(seed)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder.path)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder.path, num_labels=1, dtype=torch.float32
        )
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{name}: cannot be trained as a classifier ({reason})") from error
    if not tokenizer.chat_template:
        raise ModelError(f"{name}: the tokenizer has no chat template; use an instruct model")
    _set_pad(model, tokenizer)
    _no_attention_dropout(model)
    return Base(model, tokenizer, ChatTemplate(tokenizer))


def _set_pad(model: Any, tokenizer: Any) -> None:
    # The head reads the last token that is not pad: a pad that also ends turns would move it.
    hello = (Message(role="user", content="Hello?"),)
    written = set(ChatTemplate(tokenizer).conversation(hello, "Hello!"))
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


def _no_attention_dropout(model: Any) -> None:
    # TRL switches off Dropout modules; attention holds its rate as a number.
    for module in model.modules():
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
