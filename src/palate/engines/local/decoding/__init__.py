"""Writing, a token at a time: rows that go on from prompts, greedy replies, samples."""

from palate.engines.local.decoding.ensemble import Member, ModelEnsemble
from palate.engines.local.decoding.greedy import generate
from palate.engines.local.decoding.kv_rows import KVRows
from palate.engines.local.decoding.sampling import Continuation, draw, sample

__all__ = ["Continuation", "KVRows", "Member", "ModelEnsemble", "draw", "generate", "sample"]
