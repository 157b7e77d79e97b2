"""How an endpoint is asked: options that every scorer on one shares, and that change no number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from palate.errors import SpecError
from palate.records import Settings
from palate.specs import Spec

NETWORK = {
    "key_env", "concurrency", "timeout", "retries", "rpm", "tpm", "price_in", "price_out",
    "limit_field", "batch",
}  # fmt: skip
SHARED = NETWORK - {"limit_field", "batch"}
DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")


def canonical(spec: Spec) -> str:
    """Return a spec without the options that say how to ask, not what."""
    kept = {name: value for name, value in spec.options.items() if name not in NETWORK}
    return str(spec.model_copy(update={"options": kept}))


def http_options(spec: Spec, settings: Settings, example: str) -> dict[str, Any]:
    """Return the fields of `HttpSettings` but the model; raises `SpecError` naming the option."""
    if "base_url" not in spec.options:
        raise SpecError(f"{spec}: an endpoint needs ?base_url={example}")
    return {
        "base_url": spec.options["base_url"],
        "key_env": spec.options.get("key_env", "PALATE_API_KEY"),
        "concurrency": spec.number("concurrency", 8, least=1),
        "timeout_s": spec.number("timeout", 120, least=1),
        "retries": spec.number("retries", 5),
        "cache": settings.cache,
        **_given(spec, ("rpm", "tpm"), lambda name: spec.number(name, 0, least=1)),
        **_given(spec, ("price_in", "price_out"), lambda name: _decimal(spec, name)),
    }


def _given(spec: Spec, names: Iterable[str], read: Any) -> dict[str, Any]:
    return {name: read(name) for name in names if name in spec.options}


def _decimal(spec: Spec, name: str) -> float:
    value = spec.options[name]
    if not DECIMAL.match(value):
        raise SpecError(f"spec {str(spec)!r}: {name}={value!r} is not a number such as 0.5")
    return float(value)
