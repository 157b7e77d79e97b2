"""The work that is measured: prompts and responses of real words, of seeded lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from palate.benchmarks import load_benchmark
from palate.engines import LocalModel, Reader, local_loading
from palate.errors import SpecError
from palate.models import ModelFolder, import_torch, import_transformers
from palate.records import Settings
from palate.seeding import rng

SPREAD = (0.4, 1.6)
"""Lengths are uniform between these multiples of their mean."""
RESPONSE = 128


class BenchCase(NamedTuple):
    """Slates of one shape; means are in tokens."""

    name: str
    prefix: int
    candidates: int
    slates: int
    repeats: int = 1
    response: int = RESPONSE


PAIRS = {256: 12, 512: 12, 1024: 8, 1500: 8, 2048: 4}
FULL = (
    *(
        BenchCase(f"pairs, P = {prefix}", prefix, 2, slates, 5 if prefix == 1500 else 1)
        for prefix, slates in PAIRS.items()
    ),
    BenchCase("best of 16, P = 1024", 1024, 16, 2, 5),
)
QUICK = (BenchCase("pairs, P = 1024", 1024, 2, 3), BenchCase("best of 8, P = 512", 512, 8, 2))


@dataclass(frozen=True)
class BenchWork:
    """Per slate, its sequences; a response starts at `start` of each."""

    slates: tuple[tuple[tuple[int, ...], ...], ...]
    starts: tuple[int, ...]

    @property
    def groups(self) -> list[list[tuple[Sequence[int], int]]]:
        """The slates as an engine takes them."""
        return [
            [(ids, start) for ids in slate]
            for slate, start in zip(self.slates, self.starts, strict=True)
        ]

    @property
    def rows(self) -> list[tuple[Sequence[int], int]]:
        """Every response by itself, in the order of the data."""
        return [row for group in self.groups for row in group]


def draw_work(local: LocalModel, case: BenchCase, seed: int = 0) -> BenchWork:
    """Draw slates whose prompts and responses are runs of the bundled benchmark's words.

    For a model without a tokenizer they are runs of seeded token ids.
    """
    ids = _words(local) if local.tokenizer else _numbers(local, seed)
    stream = rng("bench", seed, case.name)

    def run(mean: int) -> tuple[int, ...]:
        length = round(mean * stream.uniform(*SPREAD))
        first = int(stream.integers(len(ids)))
        return tuple(ids[(first + k) % len(ids)] for k in range(length))

    slates, starts = [], []
    for _ in range(case.slates):
        prompt = run(case.prefix)
        slates.append(tuple(prompt + run(case.response) for _ in range(case.candidates)))
        starts.append(len(prompt))
    return BenchWork(tuple(slates), tuple(starts))


def _words(local: LocalModel) -> list[int]:
    pairs = load_benchmark("tasting").pairs
    texts = [text for pair in pairs for text in (*(p.text for p in pair.profile), pair.chosen)]
    text = "\n\n".join(dict.fromkeys(texts))
    return [int(token) for token in local.tokenizer(text, add_special_tokens=False)["input_ids"]]


def _numbers(local: LocalModel, seed: int) -> list[int]:
    size = local.model.config.get_text_config().vocab_size
    return [int(token) for token in rng("bench tokens", seed).integers(size, size=50_000)]


PREFIX = "random:"
FIELDS = (
    "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "vocab_size",
)  # fmt: skip
SHAPES = {
    "0.1b": (576, 1536, 30, 9, 3, 49152),
    "1b": (2048, 8192, 16, 32, 8, 128256),
    "3b": (3072, 8192, 28, 24, 8, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128256),
}
"""The shapes of SmolLM2-135M and of Llama 3.1 and 3.2."""
POSITIONS = 8192


def random_config(spec: str) -> Any:
    """Return the configuration of `random:SIZE`; raises `SpecError` for a size that is none."""
    size = spec.removeprefix(PREFIX)
    if size not in SHAPES:
        raise SpecError(f"model {spec!r}: {PREFIX} is followed by one of {', '.join(SHAPES)}")
    shape: dict[str, Any] = dict(zip(FIELDS, SHAPES[size], strict=True))
    tied = size != "8b"
    config = import_transformers().LlamaConfig
    return config(max_position_embeddings=POSITIONS, tie_word_embeddings=tied, **shape)


def random_model(spec: str, settings: Settings) -> LocalModel:
    """Return a decoder without a tokenizer, made where it runs, and then set up as any other."""
    torch, transformers, config = import_torch(), import_transformers(), random_config(spec)

    def made(*_: Any, device_map: dict[str, str], **options: Any) -> Any:
        torch.manual_seed(settings.seed)
        with torch.device(device_map[""]):
            return transformers.AutoModelForCausalLM.from_config(config, **options)

    name: Any = spec
    reader = Reader(name, settings, ModelFolder(Path(spec), spec))
    reader.tokenizer = None
    with patch.object(local_loading, "load_weights", made):
        return LocalModel(reader, "causal")
