"""Read a made-up Stack Exchange dump of a given size, and print what memory its questions take.

    python tools/dump_memory.py [--megabytes 1000] [--folder FOLDER] [--limit-mib 300]
        [--questions N]

The dump lies in a new folder below FOLDER (TMPDIR without it), and is taken away at the end. Peak
memory is what the kernel counts for this process (VmHWM). Exits 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from own_text_memory import WORDS, peak_mib

from palate.construction.question_sources import open_source

POST_WORDS, ANSWERS, PARTNERS = 200, 2, 500
POSTS_PER_USER = 20
VOCABULARY = [f"w{k}" for k in range(WORDS)]
FIRST = datetime(2010, 1, 1)
ROW = (
    '  <row Id="{id}" PostTypeId="{sort}" {more} CreationDate="{day}" OwnerUserId="{user}" '
    'Body="&lt;p&gt;{text}&lt;/p&gt;&#xA;" />\n'
)


def words(stream: random.Random, n: int) -> str:
    """Return so many made-up words."""
    return " ".join(stream.choices(VOCABULARY, k=n))


def write(path: Path, size: int) -> None:
    """Write questions, each with two answers, until there are so many bytes."""
    stream, k = random.Random(0), 0
    n_users = max(3, size // (POSTS_PER_USER * POST_WORDS * 6))
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        while file.tell() < size:
            asked = f'Title="{words(stream, 9)}" Tags="|tea|"'
            for more in (asked, *(f'ParentId="{k + 1}"',) * ANSWERS):
                k += 1
                row = {
                    "id": k, "sort": 1 if more == asked else 2, "more": more,
                    "day": (FIRST + timedelta(minutes=k)).isoformat(),
                    "user": stream.randrange(n_users), "text": words(stream, POST_WORDS),
                }  # fmt: skip
                file.write(ROW.format(**row))
        file.write("</posts>\n")


def main() -> int:
    """Write, read, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--limit-mib", type=float, default=300)
    parser.add_argument("--questions", type=int, default=None, help="read so many (default: all)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        path = Path(name) / "Posts.xml"
        write(path, int(given.megabytes * 1e6))
        before, started = peak_mib(), time.process_time()
        with open_source(path, "stackexchange") as source:
            opened = time.process_time() - started
            n_questions = n_posts = n_partners = 0
            for question in islice(source.questions(), given.questions):
                n_questions, n_posts = n_questions + 1, n_posts + len(question.profile)
                if n_questions <= PARTNERS:
                    n_partners += source.partner(question, 0) is not None
        result = {
            "megabytes": round(path.stat().st_size / 1e6), "before_mib": round(before),
            "peak_mib": round(peak_mib()), "seconds_to_open": round(opened),
            "seconds": round(time.process_time() - started), "questions": n_questions,
            "profile_posts": n_posts, "partners": n_partners,
        }  # fmt: skip
    sys.stdout.write(json.dumps(result) + "\n")
    return int(result["peak_mib"] > given.limit_mib)


if __name__ == "__main__":
    sys.exit(main())
