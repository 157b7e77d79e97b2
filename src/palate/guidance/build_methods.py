"""From `--method NAME?option=…` and weights to methods."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from palate.errors import UsageError
from palate.guidance.candidates import Candidates, K
from palate.guidance.fusion import PRESETS, TOKEN_METHODS
from palate.guidance.methods import (
    BlockMethod,
    CandidateMethod,
    FusionMethod,
    Method,
    RejectionMethod,
)
from palate.guidance.segments import Blocks
from palate.specs import Spec

QUANTILE = 0.7
NAMES = (*TOKEN_METHODS, "blocks", "rejection")


def all_methods(texts: Sequence[str], weights: Sequence[float] = ()) -> list[Method]:
    """Return every method at each weight, equal ones once; weights are for those that take one.

    Raises `UsageError` as `build_methods`, and for a weight that no method takes.

    >>> [(method.spec, method.weight) for method in all_methods(["mod", "blocks"], [0.5])]
    [('mod', 0.5), ('blocks', None)]
    """
    without = [text for text in texts if text.partition("?")[0] not in TOKEN_METHODS]
    built = (
        method
        for text in texts
        for method in build_methods(
            text, () if text in without and len(without) < len(texts) else weights
        )
    )
    return list({(method.spec, method.weight): method for method in built}.values())


def build_methods(text: str, weights: Sequence[float] = ()) -> list[Method]:
    """Return a method at each weight, by default at its own.

    Raises `UsageError` for a name, an option or a weight that means nothing.

    >>> [(method.spec, method.weight) for method in build_methods("genarm", [0.5, 1])]
    [('genarm', 0.5), ('genarm', 1)]
    >>> build_methods("blocks?K=0")
    Traceback (most recent call last):
    palate.errors.SpecError: spec 'blocks?k=0': k='0' is not a whole number of 1 or more
    """
    spec = Spec.parse(text.replace("?K=", "?k=").replace("&K=", "&k="))  # as papers write it
    spec.refuse_reference()
    weights = list(dict.fromkeys(weights))
    if spec.kind in PRESETS:
        spec.only(())
        preset = PRESETS[spec.kind]
        fused = [FusionMethod(str(spec), w, preset) for w in weights or [preset.weight]]
        for method in fused:
            _ = method.law  # refuses a weight that is no number
        return [*fused]
    if spec.kind == "args":
        spec.only({"k"})
        k = spec.number("k", K, least=1)
        for weight in weights:
            Candidates(weight, k).check()
        return [CandidateMethod(str(spec), weight, k) for weight in weights or [1.0]]
    if spec.kind not in NAMES:
        near = get_close_matches(spec.kind, NAMES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"method {text!r}: expected one of {', '.join(NAMES)}{hint}")
    if weights:
        raise UsageError(f"weight {weights[0]:g}: {spec.kind} takes no weight")
    length = spec.number("length", Blocks().length, least=1)
    if spec.kind == "blocks":
        spec.only({"k", "length"})
        law = Blocks(spec.number("k", Blocks().proposals, least=1), length)
        return [BlockMethod(str(spec), law)]
    spec.only({"quantile", "beta", "length", "retries"})
    quantile = spec.positive("quantile", QUANTILE)
    if quantile >= 1:
        raise UsageError(f"method {text!r}: quantile: expected a number between 0 and 1")
    scale = spec.positive("beta", 1.0) if "beta" in spec.options else None
    return [
        RejectionMethod(str(spec), quantile, scale, length, spec.number("retries", 20, least=1))
    ]
