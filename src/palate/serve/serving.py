"""serve(scorer, context) → a reward server, until it is told to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palate.benchmarks import Data, dataset_of
from palate.errors import UsageError
from palate.evaluation import Rater, Work
from palate.records import Context, Settings
from palate.records.arguments import checked
from palate.rewards import Reward, reward
from palate.session import Session, default_session

if TYPE_CHECKING:
    from palate.serve.service import ServeSettings


@checked
def serve(
    scorer: Rater,
    context: str | Context = "none",
    *,
    benchmark: Data | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_waiting: int = 1024,
    key_env: str | None = None,
    feedback: Path | str | None = None,
    test_share: float = 0.0,
    end_of_turn: Sequence[str] = (),
    listening: Callable[[str], None] = lambda _: None,
    session: Session | None = None,
    settings: Settings | None = None,
) -> None:
    """Serve a scorer as a reward over HTTP, until SIGTERM or SIGINT; then finish what waits.

    With a `benchmark` its rows and users are known by their ids. `port` 0 takes a free one;
    `listening` is called with the URL. More than `max_waiting` answers are told to come back.
    `key_env` names the environment variable that holds the bearer token, `feedback` the file
    (.jsonl) to which users' choices are appended, with the share `test_share` of questions in the
    split `test`, and `end_of_turn` what ends the policy's turn besides the usual tokens. Call it in
    the main thread, which receives signals.

    Raises:
        UsageError: without palate[serve], for an address that cannot be had, and what
            `palate.reward` refuses.
        And what loading data raises.
    """
    settings, session = settings or Settings(), session or default_session()
    served = serve_settings(
        max_waiting, key_env, feedback, end_of_turn, test_share=test_share, seed=settings.seed
    )
    from palate.serve.app import run_server

    work = Work.of(session, settings)
    (spec,), (context_spec,) = work.scorers(scorer), work.contexts(context)
    pairs = None if benchmark is None else dataset_of(benchmark, settings.seed)

    def load() -> Reward:
        return reward(scorer, context, benchmark=pairs, session=session, settings=settings)

    run_server(load, f"{spec} · {context_spec}", served, host=host, port=port, listening=listening)


def serve_settings(
    max_waiting: int,
    key_env: str | None,
    feedback: Path | str | None,
    end_of_turn: Sequence[str],
    *,
    test_share: float = 0.0,
    seed: int = 0,
) -> ServeSettings:
    """Return checked settings; raises `UsageError` naming what is wrong or missing."""
    if test_share and feedback is None:
        raise UsageError(f"--test-share {test_share:g}: of which choices? Name --feedback FILE")
    try:
        from palate.serve.feedback import FeedbackFile
        from palate.serve.server import read_key
        from palate.serve.service import ServeSettings
    except ModuleNotFoundError as error:
        raise UsageError(
            f"palate serve needs pip install 'palate[serve]' ({error.name} is missing)"
        ) from error
    return ServeSettings(
        max_waiting=max_waiting,
        key=read_key(key_env),
        feedback=None if feedback is None else FeedbackFile(Path(feedback), test_share, seed),
        ends=tuple(end_of_turn),
    )
