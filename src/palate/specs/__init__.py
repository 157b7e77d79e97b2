"""The grammar of `kind:reference?option=value`, and the registries that resolve kinds."""

from palate.specs.reference import Reference
from palate.specs.registry import load, registered
from palate.specs.spec import Spec

__all__ = ["Reference", "Spec", "load", "registered"]
