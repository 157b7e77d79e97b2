"""Units computed by actors of Ray."""

from palate.execution.ray_runner.engine import RayRunner

__all__ = ["RayRunner"]
