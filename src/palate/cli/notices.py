"""palate's own log lines, on stderr."""

from __future__ import annotations

import logging
import sys


class PrintableFormatter(logging.Formatter):
    """Log lines with control characters made visible."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        from palate.reports import printable  # reports load numpy; few calls have a notice

        return printable(super().format(record))


def notices() -> None:
    """Send palate's own log lines to stderr, as it is now: an earlier call's may be closed."""
    log = logging.getLogger("palate")
    for handler in [it for it in log.handlers if isinstance(it.formatter, PrintableFormatter)]:
        log.removeHandler(handler)
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(PrintableFormatter("palate: %(message)s"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
