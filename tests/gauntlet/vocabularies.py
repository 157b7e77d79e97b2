"""Kinds of tokenizers, each trained here on a few lines, with the chat templates they come with."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

SIZE = 600
"""Tokens at most, of every kind."""
LINES = (
    "You will see a question and two responses. Judge which response is better.",
    "You will see what one person wrote or expects, their question, and one response.",
    "Rate how well the response suits this person, from what is shown of them.",
    "What the person who asks wrote earlier: Two responses follow. Their order means nothing.",
    "Which response would this person prefer? Answer with one letter, A or B.",
    "How good is it on a scale from 1 (worst) to 9 (best)? Answer with one digit.",
    "<response_a> tea </response_a> <response_b> coffee </response_b> <post> </post>",
    "0 1 2 3 4 5 6 7 8 9 A B user assistant system : [INST] [/INST] <|user|> <|assistant|>",
    "I cook on an open fire, eat late, and cannot stand recipes that need a scale.",
    "A slow stew of beans and smoked paprika, left on the embers until midnight.",
    "Tea or coffee? Coffee, black, in a tin mug. Neither: it is late. My kettle sings.",
)
PAD, BOS, EOS, UNKNOWN = NAMES = ("<pad>", "<s>", "</s>", "<unk>")
"""Their ids are 0, 1, 2 and 3 whatever the kind."""
BRACKETS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")

TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ENDS_WITH_EOS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN_MARKS = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
INSTRUCTIONS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
ONE_EOS = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% else %}{{ eos_token }}{% endif %}"
)
SEPARATED = (
    "[CLS] {% for m in messages %}{{ m.role }} : {{ m.content }} [SEP] {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)


class Vocabulary(NamedTuple):
    """How a kind is trained, its template, and which token is `pad`, if any."""

    train: Callable[[], tokenizers.Tokenizer]
    template: str
    pad: str | None = PAD
    names: tuple[str, ...] = NAMES


def byte_bpe() -> tokenizers.Tokenizer:
    """Train byte-level BPE, as in GPT-2, Llama 3 and Qwen."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=[*NAMES, "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    return made


def byte_bpe_that_adds_bos() -> tokenizers.Tokenizer:
    """Train the same with BOS put before every text."""
    made = byte_bpe()
    made.post_processor = _framed(f"{BOS} $A", {BOS: 1})
    return made


def metaspace() -> tokenizers.Tokenizer:
    """Train BPE with `▁` for a space and bytes for the rest, as in Mistral's."""
    made = _with_bytes()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return made


def legacy_metaspace() -> tokenizers.Tokenizer:
    """Train the same with `▁` put before every stretch of text, as Llama 2's does."""
    made = _with_bytes()
    marks = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    made.normalizer = normalizers.Sequence(marks)
    return made


def _with_bytes() -> tokenizers.Tokenizer:
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    specials = [*NAMES, *(f"<0x{k:02X}>" for k in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=specials, show_progress=False)
    trained.train_from_iterator(LINES, trainer)
    model = json.loads(trained.to_str())["model"]
    made = tokenizers.Tokenizer(
        models.BPE(
            vocab=model["vocab"],
            merges=[tuple(pair) for pair in model["merges"]],
            unk_token=UNKNOWN,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    made.post_processor = _framed(f"{BOS} $A", {BOS: 1})
    return made


def unigram() -> tokenizers.Tokenizer:
    """Train a unigram model with `▁`, as in T5, ALBERT and DeBERTa."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=SIZE, special_tokens=list(NAMES), unk_token=UNKNOWN, show_progress=False
    )
    made.train_from_iterator(LINES, trainer)
    made.post_processor = _framed(f"$A {EOS}", {EOS: 2})
    return made


def wordpiece() -> tokenizers.Tokenizer:
    """Train WordPiece, as in BERT."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=SIZE, special_tokens=list(BRACKETS), show_progress=False
    )
    made.train_from_iterator(LINES, trainer)
    made.post_processor = _framed("[CLS] $A [SEP]", {"[CLS]": 1, "[SEP]": 2})
    return made


def _framed(single: str, ids: dict[str, int]) -> Any:
    return processors.TemplateProcessing(single=single, special_tokens=list(ids.items()))


VOCABULARIES = {
    "byte BPE": Vocabulary(byte_bpe, TURNS),
    "pad is eos": Vocabulary(byte_bpe, ENDS_WITH_EOS, pad=EOS),
    "no pad": Vocabulary(byte_bpe, TURNS, pad=None),
    "BOS twice": Vocabulary(byte_bpe_that_adds_bos, "{{ bos_token }}" + TURNS),
    "▁": Vocabulary(metaspace, INSTRUCTIONS),
    "legacy ▁": Vocabulary(legacy_metaspace, PLAIN_MARKS),
    "unigram": Vocabulary(unigram, ONE_EOS),
    "WordPiece": Vocabulary(wordpiece, SEPARATED, pad="[PAD]", names=BRACKETS),
}


@cache
def _trained(kind: str) -> str:
    return VOCABULARIES[kind].train().to_str()


def write_tokenizer(kind: str, folder: Path, template: str | None = None) -> int | None:
    """Write a kind of tokenizer into a model's folder; return the id of its `pad`."""
    vocabulary = VOCABULARIES[kind]
    backend = tokenizers.Tokenizer.from_str(_trained(kind))
    _, bos, eos, unknown = vocabulary.names[:4]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=bos,
        eos_token=eos,
        unk_token=unknown,
        pad_token=vocabulary.pad,
    )
    tokenizer.chat_template = template or vocabulary.template
    tokenizer.save_pretrained(folder)
    return tokenizer.pad_token_id
