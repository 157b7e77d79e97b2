"""Units computed by actors of Ray Data."""

from palate.execution.over_ray.engine import OverRay

__all__ = ["OverRay"]
