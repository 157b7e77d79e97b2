"""Long sentences: the share of a page's sentences that have more than 25 words.

python tests/prose.py                 # every page, worst first
python tests/prose.py docs/ppo.md     # the long sentences of a page
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 25
MOST_LONG = 0.2
"""The largest share of a page's sentences that may be longer."""
NO_PROSE = re.compile(r"^( *)```.*?^\1```$|<!--.*?-->", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
END = re.compile(r'(?<=[.!?])[)"*]*\s+(?=[A-Z0-9(*"`])')


def pages() -> list[Path]:
    """Return the pages that are read as prose."""
    front = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
    return [*front, *sorted((ROOT / "docs").rglob("*.md"))]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page without blocks, tables, headings and pictures.

    A span of code and a link's text count as they are read: code is one word.
    """
    paragraphs: list[str] = [""]
    for line in NO_PROSE.sub("\n\n", text).splitlines():
        if not line.strip() or line.lstrip()[0] in "|#!":
            paragraphs.append("")
        elif ITEM.match(line):
            paragraphs.append(ITEM.sub("", line, count=1))
        else:
            paragraphs[-1] += f" {line.strip().removeprefix('> ')}"
    plain = (CODE.sub("`code`", LINK.sub(r"\1", part)).strip() for part in paragraphs)
    return [sentence for part in plain if part for sentence in END.split(part)]


def long_share(path: Path) -> float:
    """Return the share of a page's sentences that have more than 25 words."""
    listed = sentences(path.read_text(encoding="utf-8"))
    return sum(is_long(sentence) for sentence in listed) / max(len(listed), 1)


def is_long(sentence: str) -> bool:
    """Return whether a sentence has more than 25 words."""
    return len(sentence.split()) > MOST_WORDS


def main() -> int:
    """Print the share of every page, or the long sentences of the pages that are given."""
    lines: list[str] = []
    for name in sys.argv[1:]:
        listed = sentences(Path(name).read_text(encoding="utf-8"))
        lines += [f"{len(s.split()):4d}  {s}" for s in listed if is_long(s)]
    if not lines:
        for path in sorted(pages(), key=long_share, reverse=True):
            n = len(sentences(path.read_text(encoding="utf-8")))
            lines.append(f"{long_share(path):4.0%} of {n:4d}  {path.relative_to(ROOT)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
