"""An audit's part of a page: ids of rows and posts stay with the data."""

import json
from pathlib import Path

from opened_page import page_of

from palate.construction import audit


def test_ids_of_faulty_rows_are_not_on_the_page(tmp_path: Path) -> None:
    words = " ".join(f"word{k}" for k in range(13))
    row = {
        "id": "secret-row", "user_id": "ann", "question": "Tea?", "chosen": words,
        "rejected": "No.", "profile": [{"id": "secret-post", "text": words}],
    }  # fmt: skip
    file = tmp_path / "teas.jsonl"
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    result = audit(file, root=tmp_path / "runs")
    assert "secret-post" in result.rows[0].details["leak"]
    page = page_of(tmp_path / "runs", tmp_path)
    assert "What an audit of the pairs says" in page and "secret" not in page
