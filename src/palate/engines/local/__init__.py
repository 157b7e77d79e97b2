"""A model in this process: what sequences share is read once, and nothing is padded."""

from palate.engines.local.forward import Wanted
from palate.engines.local.generation import Sample, generate, sample
from palate.engines.local.loading import Route
from palate.engines.local.model import LocalModel, load_local, route_of

__all__ = [
    "LocalModel",
    "Route",
    "Sample",
    "Wanted",
    "generate",
    "load_local",
    "route_of",
    "sample",
]
