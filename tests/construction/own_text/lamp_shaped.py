"""LaMP-shaped files: users who wrote headlines of the same articles, and other headlines before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLACES = ("harbour", "market", "station", "library")
ASK = "Generate a headline for the following article: "


def article(k: int, user: int | str = "") -> str:
    """Return an article of some twenty words; no two share thirteen in a row."""
    return " ".join(f"{PLACES[k % 4]}{k}{user}w{j}" for j in range(20))


def headline(user: int | str, k: int) -> str:
    """Return a headline that shares too few words with any other."""
    return " ".join(f"h{user}x{k}y{j}" for j in range(6 + k % 3))


def item(name: str, text: str, title: str, date: str | None = None) -> dict[str, Any]:
    """Return an item of a profile."""
    return {"id": name, "text": text, "title": title} | ({"date": date} if date else {})


def clean(users: int = 4, articles: int = 2, items: int = 4) -> list[dict[str, Any]]:
    """Return questions with their outputs; nothing in them leaks."""
    return [
        {
            "id": f"{user}{k}", "user_id": f"u{user}", "date": "2016-01-01",
            "input": ASK + article(k), "output": headline(user, k),
            "profile": [
                item(f"{user}-{j}", article(10 + j, user), headline(user, 10 + j),
                     f"2015-01-0{j + 1}")
                for j in range(items)
            ],
        }
        for user in range(users)
        for k in range(articles)
    ]  # fmt: skip


def write(folder: Path, rows: list[dict[str, Any]], task: str = "LaMP_4") -> Path:
    """Write questions and outputs; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = [{k: v for k, v in row.items() if k != "output"} for row in rows if "input" in row]
    golds = [{"id": row["id"], "output": row["output"]} for row in rows if "output" in row]
    (folder / "dev_questions.json").write_text(json.dumps(questions), encoding="utf-8")
    text = json.dumps({"task": task, "golds": golds})
    (folder / "dev_outputs.json").write_text(text, encoding="utf-8")
    return folder


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a plain file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
