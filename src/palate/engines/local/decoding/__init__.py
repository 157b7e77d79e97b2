"""Writing, a token at a time: rows that go on from prompts, greedy replies, samples."""

from palate.engines.local.decoding.greedy import generate
from palate.engines.local.decoding.members import Member, Members
from palate.engines.local.decoding.rows import Rows
from palate.engines.local.decoding.sampling import Continuation, draw, sample

__all__ = ["Continuation", "Member", "Members", "Rows", "draw", "generate", "sample"]
