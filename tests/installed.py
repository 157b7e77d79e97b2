"""A package beside palate, as pip leaves it: a module and its entry points."""

from pathlib import Path


def install(folder: Path, name: str, points: str, source: str) -> None:
    """Write `NAME_plugin` into a folder, which the caller puts on `sys.path`."""
    (folder / f"{name}_plugin.py").write_text(source)
    info = folder / f"{name}_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
