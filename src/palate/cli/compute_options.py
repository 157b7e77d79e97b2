"""Options of how scorers compute, as records of which a command takes the one it needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from palate.cli import options as flags
from palate.engines.http.batch_files import RequestFile
from palate.errors import UsageError
from palate.execution import Shard
from palate.records import Settings
from palate.session import Session


@dataclass(frozen=True)
class Devices:
    """The seed, and where a model computes."""

    seed: flags.Seed = 0
    dtype: flags.Dtype = None
    device: flags.Device = None
    template_date: flags.TemplateDate = None
    chat_template: flags.ChatTemplate = None

    def settings(self) -> Settings:
        """Return checked settings; raises `UsageError` naming the flag that is wrong."""
        given = asdict(self).items()
        return flags.make_settings(**{k: v for k, v in given if k in Settings.model_fields})


@dataclass(frozen=True)
class Models(Devices):
    """Where a model computes, and what endpoints' replies may cost."""

    cache: flags.Cache = None
    max_cost: flags.MaxCost = None

    def session(self) -> Session:
        """Return what the command keeps; raises `UsageError` naming the flag that is wrong."""
        return Session(cache=self.cache, max_cost=self.max_cost)


@dataclass(frozen=True)
class Computing(Models):
    """What scores are computed with, in this process and behind endpoints."""

    batch_tokens: flags.BatchTokens = 4096
    retry_unscored: flags.Retry = False
    engine: flags.Engine = None

    def session(self) -> Session:
        """Return what the command keeps; raises `UsageError` naming the flag that is wrong."""
        return Session(cache=self.cache, max_cost=self.max_cost, engine=self.engine)


@dataclass(frozen=True)
class ComputingLocally(Computing):
    """What else there is to say of models in this process."""

    attention: flags.Attention = None
    trust_remote_code: flags.Trust = False


@dataclass(frozen=True)
class ComputingTwice(ComputingLocally):
    """Which part is computed, and which rows a second time: rounding and changed replies."""

    shard: flags.Shard = None
    noise_rows: flags.NoiseRows = None
    ask_again: flags.AskAgain = 0.0
    requests: flags.Requests = None

    def part(self) -> Shard | None:
        """Return the part that is computed; raises `UsageError` for what does not go with it."""
        if self.shard is not None and self.retry_unscored:
            raise UsageError("--shard: leave out --retry-unscored; the last command asks again")
        return None if self.shard is None else Shard.parse(self.shard)

    def request_file(self) -> RequestFile | None:
        """Return where requests are written; raises `UsageError` for what does not go with it."""
        if self.requests is not None and self.cache is None:
            raise UsageError(f"--requests {self.requests}: needs --cache DIR, for the replies")
        for flag in ("retry_unscored", "ask_again", "max_cost", "engine", "shard"):
            if self.requests is not None and getattr(self, flag):
                raise UsageError(f"--requests sends nothing: leave out --{flag.replace('_', '-')}")
        return None if self.requests is None else RequestFile(self.requests.expanduser())
