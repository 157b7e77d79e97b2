"""Warnings of libraries while a model is loaded: notes of the run, but for harmless ones."""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from palate.errors import LoadError, first_line

LIBRARIES = ("transformers", "transformers_modules", "peft", "sentence_transformers", "tokenizers")
LONGEST = 240
"""Characters of a warning that a note repeats."""
HARMLESS = {
    r"layers were not sharded": "of plans for several devices: a model is read whole",
    r" LOAD REPORT": "each of its tensors is accounted for, or refused by name",
    r"`(torch_dtype|rope_scaling|use_return_dict)` is deprecated": "the same field, renamed",
    r"Unrecognized keys in `rope_parameters`": "the account of config.json refuses or names them",
    r"`trust_remote_code`.* no effect": "the class is built in, and runs no code of the folder",
    r"`num_labels=\d+` which is incompatible": "names of labels: outputs are those of the weights",
    r"generation flags are not valid|generation config.*invalid": "palate samples by itself",
    r"`tokenizer_class` is .* ByteLevel": "tokenizer.json is read as its author wrote it",
    r"fast path is not available": "the slower kernels compute the same",
    r"Input and output embeddings are no longer tied": "untied on purpose, before merging",
    r"tied layer is part of the adapter|tied_target_modules": "palate unties the two",
    r"not writable": "torch copies what gguf maps into memory",
    r"Merges were not in checkpoint": "an old GGUF file: the vocabulary's order gives its merges",
    r"`runtime_config` key": "peft's settings of another process",
    r"new embeddings will be initialized|new lm_head weights": "an adapter's own rows follow",
}
"""Warnings that say nothing of the numbers, by pattern, and why."""
TIMELESS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
"""Of names that later versions of a library drop; palate fixes those it was tested with."""
_turn = threading.RLock()


@contextmanager
def listening(
    notes: list[str],
    name: object,
    place: Path,
    why: Callable[[Exception], str] = first_line,
    failed: str = "cannot be loaded",
) -> Iterator[list[str]]:
    """Add what libraries warn of meanwhile to the notes, each once, under a model's name.

    Gives the list that their full texts go into, the harmless ones too. Whatever is raised becomes
    a `LoadError` with `why`, which says more than they do.
    """
    texts: list[str] = []
    ear = logging.Handler(logging.WARNING)
    ear.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    names = {*LIBRARIES, *logging.root.manager.loggerDict}
    loggers = [logging.getLogger(it) for it in names if it.partition(".")[0] in LIBRARIES]
    # What was warned of once in this process would stay unsaid for the next model.
    getattr(getattr(logging.Logger, "warning_once", None), "cache_clear", lambda: None)()
    with _turn, warnings.catch_warnings(record=True, action="always") as raised:
        disabled = logging.root.manager.disable
        before = [
            (logger.level, logger.handlers, logger.propagate, logger.disabled) for logger in loggers
        ]
        try:
            logging.disable(logging.NOTSET)  # what is refused must not hang on who hears it
            for logger in loggers:
                logger.setLevel(logging.WARNING)
                logger.handlers, logger.propagate, logger.disabled = [ear], False, False
            yield texts
        except Exception as error:  # what a broken folder raises is anybody's guess
            raise LoadError(f"{name}: {failed} ({why(error)})") from error
        finally:
            logging.disable(disabled)
            for logger, (level, handlers, propagate, off) in zip(loggers, before, strict=True):
                logger.setLevel(level)
                logger.handlers, logger.propagate, logger.disabled = handlers, propagate, off
    texts += [str(it.message) for it in raised if not issubclass(it.category, TIMELESS)]
    for text in texts:
        if not any(re.search(pattern, text) for pattern in HARMLESS):
            short = " ".join(text.replace(str(place), str(name)).split())
            short = short if len(short) <= LONGEST else f"{short[:LONGEST]}…"
            if (note := f"{name}: a library warns: {short}") not in notes:
                notes.append(note)
