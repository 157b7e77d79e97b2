"""What each cell must read: `equal`, or the exact line of its refusal."""

from __future__ import annotations

import re

from families import FAMILIES
from shelf import HEADS, configuration, has_head
from variants import END, GGUFS, VARIANTS

LANGUAGE_MODEL = ("likelihood", "lift", "implicit", "autoregressive", "judge", "rating", "replies")
LABELS = ("1 label", "2 labels", "5 labels")
NO_CLASSIFIER = "this is no trained classifier (see: palate train classifier)"
NO_LANGUAGE_MODEL = "this is no language model that can write or read off probabilities"
AS_TEXT = "use verdict=text"
WITHOUT_EOS = ("byte BPE", "no pad", "BOS twice")
"""Tokenizers whose templates end no turn with EOS."""
NO_EOS = "Each example must contain at least one <eos> token."
NO_PAD = "self.model.config.pad_token_id has to be defined."
NO_POSITIONS = (
    "ne() received an invalid combination of arguments - got (NoneType), but expected one of:"
)
REFUSED = {
    "wrong key": "refused: .*(rope_parameters|beta_quick).*",
    "renamed tensor": r"refused: .*\.\d+\.\S*weight.*",
}
"""Variants that no family may read: the line names the key, or the tensor."""
EMBEDDED = ("adapter: tied head", "adapter: tokens")
"""Of an encoder and a decoder that share embeddings peft changes one's alone, until it merges."""
GGUF_FILES = ("GGUF", "GGUF, scaled")
NO_GGUF = "not a GGUF that transformers can read"
POOLED = {
    "BERT": "bert.pooler.dense.bias",
    "RoBERTa": "classifier.dense.bias",
    "DistilBERT": "classifier.bias",
    "ALBERT": "albert.pooler.bias",
    "DeBERTa V2": "classifier.bias",
    "ModernBERT": "classifier.bias",
    "T5": "classification_head.dense.bias",
    "BART": "classification_head.dense.bias",
}
"""The first tensor that a language model lacks of a classifier, where it is not `score.weight`."""
OTHER_NAMES = ("Falcon", "Falcon, ALiBi", "GPT-2", "GPT-Neo", "GPT-NeoX", "BLOOM", "MPT")
"""Decoders whose process reward models name their head otherwise than their classifiers."""
TIED = (
    *("Gemma 2", "Falcon", "Falcon, ALiBi", "GPT-2", "GPT-Neo", "OPT", "BLOOM", "MPT"),
    "SmolLM 3",
)
"""Decoders whose language-model head is their embedding: a classifier holds all of one."""


def expected(name: str, column: str, tokenizer: str | None = None) -> str:
    """Return what a cell must read, with the family's own tokenizer or another kind."""
    decoder = FAMILIES[name].kind == "decoder"
    tokenizer = tokenizer or FAMILIES[name].tokenizer
    if column == "reads":
        return FAMILIES[name].reads
    if column == "judge" and tokenizer == "unigram":  # its prompt ends with a space
        return f"refused: MODEL: 'A' makes one token with the end of the prompt; {AS_TEXT}"
    if column in LANGUAGE_MODEL:
        return "equal" if decoder else _not_causal(name, FAMILIES[name].kind)
    if column == "likelihood of a classifier":
        if not has_head(name, "labels"):
            return "equal"
        return _not_causal(name, "labels")
    if column == "similarity":
        return "equal"
    if not has_head(name, "labels"):
        return _unknown(name, "labels")
    if column in LABELS:
        if (name, tokenizer) == ("RoBERTa", "no pad"):  # which counts positions from pad
            return _own_head(NO_POSITIONS)
        if FAMILIES[name].kind != "encoder-decoder" or tokenizer not in WITHOUT_EOS:
            return "equal"
        return _own_head(NO_PAD if tokenizer == "no pad" else NO_EOS)
    if column == "classifier of no head" or not has_head(name, "steps"):
        return _lacks(POOLED.get(name, "score.weight"), NO_CLASSIFIER)
    if name in OTHER_NAMES:
        return _lacks("score.weight", NO_CLASSIFIER)
    first = {"DistilBERT": "pre_classifier.bias", "DeBERTa V2": "pooler.dense.bias"}
    if name in first:
        return _lacks(first[name], NO_CLASSIFIER)
    if decoder or name == "ModernBERT":
        return _foreign(name, "steps", "labels")
    return _lacks(POOLED[name], NO_CLASSIFIER)


def is_expected(outcome: str, name: str, column: str, tokenizer: str | None = None) -> bool:
    """Tell whether a cell reads what it must; what others word is held by the names in it."""
    if column in REFUSED:
        return re.fullmatch(REFUSED[column], outcome) is not None
    if column == END:
        return outcome == expected(name, "replies")
    if column in GGUF_FILES and name not in GGUFS:
        return NO_GGUF in outcome and outcome.startswith("refused: ")
    if FAMILIES[name].kind == "encoder-decoder" and column in EMBEDDED:
        return (
            outcome == "equal" or re.fullmatch("refused: .*(shared|embed).*", outcome) is not None
        )
    if column in VARIANTS:
        return outcome == "equal"
    return outcome == expected(name, column, tokenizer)


def _not_causal(name: str, head: str) -> str:
    if not has_head(name, "decoder"):
        return _unknown(name, "decoder")
    if name in TIED or (name in ("BERT", "RoBERTa") and head == "encoder"):
        return _foreign(name, head, "decoder")
    first = {"BERT": "cls.predictions.bias", "RoBERTa": "lm_head.bias", "Phi": "lm_head.bias"}
    return _lacks(first.get(name, "lm_head.weight"), NO_LANGUAGE_MODEL)


def _own_head(why: str) -> str:
    return (
        f"refused: MODEL: its own head refuses a conversation ({why}); "
        "mend its chat template (--chat-template) or config.json"
    )


def _lacks(key: str, so: str) -> str:
    return f"refused: MODEL: the weights lack {key}; {so}"


def _unknown(name: str, head: str) -> str:
    return (
        f"refused: MODEL: cannot be loaded (Unrecognized configuration class "
        f"{type(configuration(name))} for this kind of AutoModel: {HEADS[head].__name__}.)"
    )


def _foreign(name: str, stored: str, loaded: str) -> str:
    named, read = (
        HEADS[head]._model_mapping[type(configuration(name))].__name__ for head in (stored, loaded)
    )
    return (
        f"refused: MODEL: config.json says {named}, which computes something else than {read}; "
        f"correct `architectures` there if it is a {read}"
    )
