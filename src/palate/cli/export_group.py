"""palate export: a command for every trainer that folders are written for."""

from __future__ import annotations

import typer

from palate.cli.lazy import add_lazy

export = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Write a folder from which another trainer trains a policy on a scorer's rewards.",
)
for name, line in {
    "trl": "For TRL's RLOO and GRPO: data, reward file, start script.",
    "verl": "For verl's PPO: data, reward file, settings, start script.",
    "openrlhf": "For OpenRLHF's PPO: data, reward file, start script.",
}.items():
    add_lazy(export, name, line, "palate.cli.export:exporter", name)
