"""What each cell must read: `equal`, or the exact line of its refusal."""

from __future__ import annotations

from families import FAMILIES
from shelf import HEADS, configuration, has_head

LANGUAGE_MODEL = (
    "likelihood",
    "lift",
    "implicit",
    "autoregressive",
    "judge",
    "rating",
    "replies",
)
LABELS = ("1 label", "2 labels", "5 labels")
NO_CLASSIFIER = "this is no trained classifier (see: palate train classifier)"
NO_LANGUAGE_MODEL = "this is no language model that can write or read off probabilities"
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


def expected(name: str, column: str) -> str:
    """Return what a cell must read."""
    decoder = FAMILIES[name].kind == "decoder"
    if column == "reads":
        return FAMILIES[name].reads
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
        return "equal"
    if column == "classifier of no head" or not has_head(name, "steps"):
        return _lacks(POOLED.get(name, "score.weight"), NO_CLASSIFIER)
    if name in OTHER_NAMES:
        return _lacks("score.weight", NO_CLASSIFIER)
    if name == "DistilBERT":
        return _lacks("pre_classifier.bias", NO_CLASSIFIER)
    if decoder or name in ("DeBERTa V2", "ModernBERT"):
        return _foreign(name, "steps", "labels")
    return _lacks(POOLED[name], NO_CLASSIFIER)


def waits_for(name: str, column: str, tokenizer: str | None = None) -> str | None:
    """Return the row of the list of defects that a cell waits for, if any."""
    numeric = {*LANGUAGE_MODEL, *LABELS} - {"replies"}
    kind = tokenizer or FAMILIES[name].tokenizer
    if "computes something else" in expected(name, column):
        return "row M9"
    if name == "Phi 3, LongRoPE" and column in numeric:
        return "row M10"
    judged = FAMILIES[name].kind == "decoder" and column in ("judge", "rating")
    if judged and kind in ("legacy ▁", "unigram"):
        return "row M12"
    return None


def _not_causal(name: str, head: str) -> str:
    if not has_head(name, "decoder"):
        return _unknown(name, "decoder")
    if name in TIED or (name in ("BERT", "RoBERTa") and head == "encoder"):
        return _foreign(name, head, "decoder")
    first = {"BERT": "cls.predictions.bias", "RoBERTa": "lm_head.bias", "Phi": "lm_head.bias"}
    return _lacks(first.get(name, "lm_head.weight"), NO_LANGUAGE_MODEL)


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
