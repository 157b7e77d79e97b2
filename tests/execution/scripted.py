"""Scripted contestants that workers can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from palate.records import Judgement, Scores, Slate, Traits
from palate.seeding import unit


class Neighbourly:
    """Scores that depend on what else is in the call, as a padded batch's last bits do."""

    def __init__(self, fingerprint: str = "neighbourly") -> None:
        self.traits = Traits(fingerprint=fingerprint)
        self.calls = 0

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        self.calls += 1
        mates = sorted(slate.id for slate in slates)
        for k, slate in reversed(list(enumerate(slates))):
            shown = [part.text for part in slate.shown]
            values = tuple(unit(mates, k, shown, text) for text in slate.candidates)
            yield k, Scores(values=values)


class Mortal(Neighbourly):
    """Kills its own process once, after a few slates; a file remembers that it did."""

    def __init__(self, marker: Path, always: bool = False) -> None:
        super().__init__("mortal")
        self.marker, self.always = str(marker), always

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        for count, came in enumerate(super().score(slates)):
            yield came
            if count == 3 and (self.always or not Path(self.marker).exists()):
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)


class Raising(Neighbourly):
    """Breaks in the middle of the work."""

    def __init__(self, error: Exception) -> None:
        super().__init__("raising")
        self.error = error

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        yield from list(super().score(slates))[:2]
        raise self.error


class Sleeper(Neighbourly):
    """Never comes back."""

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        time.sleep(3600)
        yield from super().score(slates)


class Threads(Neighbourly):
    """Scores by what it may use: threads of the environment, and the process it runs in."""

    def __init__(self, folder: Path) -> None:
        super().__init__("threads")
        self.folder = str(folder)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        Path(self.folder, f"{os.getpid()}").write_text(os.environ.get("OMP_NUM_THREADS", "none"))
        time.sleep(2.0)
        yield from super().score(slates)


class Locked(Neighbourly):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Flaky:
    """An exact judge: the first call fails for some pairs, and a few replies are unreadable."""

    def __init__(self, failing: bool) -> None:
        self.traits = Traits(fingerprint="flaky", exact=True, pairs_only=True)
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
