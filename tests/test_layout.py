"""The drawing of the floors is up to date, and CONTRIBUTING shows it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = Path("docs/images/layout.svg")


def test_the_drawing_of_the_floors_is_up_to_date(tmp_path: Path) -> None:
    drawn = tmp_path / PICTURE.name
    subprocess.run([sys.executable, ROOT / "tools" / "layout.py", drawn], check=True)
    assert drawn.read_bytes() == (ROOT / PICTURE).read_bytes(), "run python tools/layout.py"
    assert str(PICTURE) in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
