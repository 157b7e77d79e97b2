"""How alike the study's scorers tell users apart, from the runs that study.py left in WORK.

python -m studies.forecast.alike WORK
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.runs import load_runs

ALIKE = 0.9


def main() -> None:
    """Print how many scorers these would be if each differed from all others."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    runs = load_runs(Path(sys.argv[1]) / "runs" / "tasting")
    columns = []
    for run in runs:
        margins, (a, b) = run.verdicts.margins, run.verdicts.couples.T
        columns.append(margins[a] + margins[b])
    names, r = [run.cell[1] for run in runs], correlations(np.array(columns))
    above = r[np.triu_indices(len(names), 1)]
    sys.stdout.write(
        f"{len(names)} scorers, as {effective(r):.1f} unlike ones; median |r| of "
        f"{above.size} pairs {np.median(above):.2f}, {np.mean(above > ALIKE):.1%} above {ALIKE}\n"
    )
    for i, j in zip(*np.triu_indices(len(names), 1), strict=True):
        if r[i, j] > ALIKE:
            sys.stdout.write(f"{r[i, j]:.2f}  {names[i]}  {names[j]}\n")


def correlations(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |r| of each two scorers over the couples that all score; shape (scorers, couples)."""
    return np.abs(np.corrcoef(contrasts[:, np.isfinite(contrasts).all(axis=0)]))


def effective(r: NDArray[np.float64]) -> float:
    """Return n² / Σ r²: n where no two are correlated, 1 where all are the same.

    >>> effective(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    1.8
    """
    return float(len(r) ** 2 / (r**2).sum())


if __name__ == "__main__":
    main()
