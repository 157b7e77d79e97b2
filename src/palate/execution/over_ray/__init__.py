"""Units computed by actors of Ray."""

from palate.execution.over_ray.engine import OverRay

__all__ = ["OverRay"]
