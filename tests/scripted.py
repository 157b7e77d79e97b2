"""Scripted scorers, which workers can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from palate.execution import ray_runner
from palate.records import Component, Judgement, ScorerInfo, Scores, Slate
from palate.seeding import unit


class ByFunction:
    """A scorer object as users write them: no base class, one method."""

    def __init__(self, function: Callable[[Slate, str], float | None], **info: Any) -> None:
        self.function, self.slates = function, []
        self.info = ScorerInfo(fingerprint=repr(sorted(info)), **info)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        for k, slate in enumerate(slates):
            self.slates.append(slate)
            yield k, Scores(values=tuple(self.function(slate, text) for text in slate.candidates))


class Neighbourly:
    """Scores that depend on what else is in the call, as a padded batch's last bits do."""

    def __init__(self, fingerprint: str = "neighbourly") -> None:
        self.info = ScorerInfo(fingerprint=fingerprint)
        self.calls = 0

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        self.calls += 1
        mates = sorted(slate.id for slate in slates)
        for k, slate in reversed(list(enumerate(slates))):
            shown = [part.text for part in slate.shown]
            known = (self.info.fingerprint, mates, k, shown)
            values = tuple(unit(*known, text) for text in slate.candidates)
            yield k, Scores(values=values)


class Twofold(Neighbourly):
    """Two computations, the second without context, and their difference."""

    def __init__(self) -> None:
        super().__init__("twofold")
        blind = Component(Neighbourly("blind"), without_context=True)
        self.components = (Component(Neighbourly("shown")), blind)

    def combine(self, parts: Sequence[Scores]) -> Scores:
        shown, blind = (part.values for part in parts)
        return Scores(values=tuple(a - b for a, b in zip(shown, blind, strict=True)))


class Mortal(Neighbourly):
    """Kills its own process after some slates, some of which have gone out; a file remembers it."""

    def __init__(self, marker: Path, always: bool = False) -> None:
        super().__init__("mortal")
        self.marker, self.always = str(marker), always

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        dies = self.always or not Path(self.marker).exists()
        for count, came in enumerate(super().score(slates)):
            if dies and count in (2, 3):
                time.sleep(1.5 * ray_runner.REPLY_EVERY_S)
            if dies and count == 3:
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield came


class Exact(Mortal):
    """Dies as often as it is built; what it gave before counts alone."""

    def __init__(self, marker: Path) -> None:
        super().__init__(marker, always=True)
        self.info = ScorerInfo(fingerprint="exact", exact=True)


class Raising(Neighbourly):
    """Breaks in the middle of the work."""

    def __init__(self, error: Exception) -> None:
        super().__init__("raising")
        self.error = error

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        yield from list(super().score(slates))[:2]
        raise self.error


class Unloadable(Raising):
    """Breaks where a worker builds it, or kills the worker."""

    def __setstate__(self, state: dict[str, object]) -> None:
        error = state["error"]
        if isinstance(error, SystemExit):
            os.kill(os.getpid(), signal.SIGKILL)
        raise error  # type: ignore[misc]


class Sleeper(Neighbourly):
    """Never comes back; a file says that it began."""

    def __init__(self, marker: Path) -> None:
        super().__init__("sleeper")
        self.marker = str(marker)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        Path(self.marker).touch()
        time.sleep(3600)
        yield from super().score(slates)


class Threads(Neighbourly):
    """Writes down each process that it is built in; computes when two are there."""

    def __init__(self, folder: Path) -> None:
        super().__init__("threads")
        self.folder = str(folder)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ |= state
        with Path(self.folder, f"{os.getpid()}").open("a") as file:
            file.write(f"{os.environ.get('OMP_NUM_THREADS')}\n")

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        deadline = time.monotonic() + 60
        while len(list(Path(self.folder).iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        with Path(self.folder, f"{os.getpid()}").open("a") as file:
            file.write("unit\n")
        yield from super().score(slates)


class Locked(Neighbourly):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Flaky:
    """An exact judge: the first call fails for some pairs, and a few replies are unreadable."""

    def __init__(self, failing: bool) -> None:
        self.info = ScorerInfo(fingerprint="flaky", exact=True, pairs_only=True)
        self.failing, self.asked = failing, 0

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        for k, slate in enumerate(slates):
            self.asked += 1
            draw = unit("flaky", slate.id)
            if draw < 0.2 and self.failing:
                yield k, Judgement(margin=None, orders=(None, None), reason="HTTP 503", outage=True)
            elif draw > 0.9:
                unread = Judgement(
                    margin=None, orders=(1.0, None), reason="unreadable", raw=("B", "?")
                )
                yield k, unread
            else:
                yield k, Judgement(margin=draw - 0.5, orders=(draw - 0.5, draw - 0.5))
