"""palate export hub: figures of runs as files that the hub shows beside a model and a data set."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.cli.console import show_text
from palate.errors import SpecError, UsageError, writing
from palate.files import write_whole
from palate.runs import Run, load_runs, read_manifest, slug
from palate.specs import Reference, Spec

FIRST_LINE = "# Written by palate export hub.\n"


def export_hub(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold them.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the files.")],
    dataset: Annotated[str, typer.Option(metavar="ORG/NAME", help="The data set on the hub.")],
) -> None:
    """Write what the hub shows: .eval_results/*.yaml of each model, eval.yaml of the data set.

    A task is a context, a value an accuracy; notes name scorer, interval and run.
    """
    try:
        import yaml
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError as error:
        raise UsageError("export hub needs pip install 'huggingface-hub>=2.4'") from error
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise UsageError(f"--dataset {dataset}: expected ORG/NAME")
    loaded = load_runs(runs)
    names = sorted({run.summary.benchmark for run in loaded})
    if len(names) > 1:
        raise UsageError(f"runs of {', '.join(names)}: name those of one data set")
    entries: dict[str, list[Any]] = defaultdict(list)
    tasks, left_out = {}, []
    for run in loaded:
        figures, model = run.summary, _model(run)
        if model is None or run.accuracy is None or figures.oracle:
            left_out.append(f"{figures.scorer} under {figures.context}")
            continue
        assert run.folder is not None, "it was read from a folder"
        identity, task = read_manifest(run.folder).identity, slug(figures.context)
        tasks[task] = {"id": task, "config": "default", "split": identity.get("split") or "test"}
        low, high = figures.accuracy.low, figures.accuracy.high
        interval = "" if low is None else f", 95 % interval {low:.3f} to {high:.3f}"
        entry = EvalResultEntry(
            dataset_id=dataset,
            task_id=task,
            value=run.accuracy,
            dataset_revision=identity.get("revision"),
            notes=f"{figures.scorer}: accuracy of {figures.accuracy.n:,}{interval}; palate "
            f"{run.folder.name}",
        )
        entries[model].append(entry)
    file = f"{slug(names[0])}.yaml"
    documents: dict[Path, Any] = {
        output / slug(model.replace("/", "--")) / ".eval_results" / file: (
            eval_result_entries_to_yaml(results)
        )
        for model, results in entries.items()
    }
    documents[output / "eval.yaml"] = {
        "name": names[0],
        "description": "Accuracy of reward models that are shown a part of the user.",
        "evaluation_framework": "palate",
        "tasks": list(tasks.values()),
    }
    if not entries:
        raise UsageError("no run is of a model on the hub, so there is nothing to write")
    for path in documents:
        if path.exists() and not _is_written_here(path):
            raise UsageError(f"{path}: is there and is not palate's; choose another -o")
    for path, document in documents.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            write_whole(path, FIRST_LINE + text)
        show_text(str(path))
    if left_out:
        show_text(f"left out, of no model on the hub or oracles: {', '.join(left_out)}")


def _is_written_here(path: Path) -> bool:
    return path.is_file() and path.read_bytes().startswith(FIRST_LINE.encode())


def _model(run: Run) -> str | None:
    """Return the name of the model on the hub that a run scores with; None for any other."""
    try:
        reference = Reference.parse(Spec.parse(run.summary.scorer).reference or "")
    except SpecError:
        return None
    return reference.name if reference.place == "hub" else None
