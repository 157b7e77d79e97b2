"""Write the JSON Schemas of everything that palate writes.

    python tools/schemas.py [FOLDER]

Each is generated from the record that is written and read; a test compares them with docs/schemas.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

# Before any record is made: the text below a field is its description.
BaseModel.model_config = ConfigDict(use_attribute_docstrings=True)

from palate.data import Account  # noqa: E402

Account.__pydantic_config__["use_attribute_docstrings"] = True

from palate.comparison import Comparison, Grid  # noqa: E402
from palate.records import Record  # noqa: E402
from palate.runs import SCHEMA, Manifest, Result, Tabular  # noqa: E402
from palate.specs import load, registered  # noqa: E402

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file name, schema) of each document and of each kind of row."""
    yield "manifest", _of(Manifest)
    results: list[type[Result]] = [load("palate.results", kind) for kind in sorted(
        registered("palate.results")
    )]  # fmt: skip
    documents: list[type[Tabular]] = [Grid, Comparison, *results]
    for document in documents:
        yield document.kind, _document(document)
    for result in results:
        yield f"{result.kind}.rows", _of(result.row_type)


def _of(record: type[Record]) -> dict[str, Any]:
    return {"$schema": DIALECT, **record.model_json_schema(by_alias=True)}


def _document(document: type[Tabular]) -> dict[str, Any]:
    schema = _of(document.content_type)
    head = {"schema": {"const": SCHEMA}, "kind": {"const": document.kind}}
    return {
        **schema,
        "title": document.kind,
        "properties": {**head, **schema["properties"]},
        "required": [*head, *schema.get("required", ())],
    }


def main() -> None:
    """Write them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas():
        text = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}.json\n")


if __name__ == "__main__":
    main()
