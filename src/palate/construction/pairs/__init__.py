"""Pairs whose answers a language model writes to what users' own posts say of their taste."""

from palate.construction.pairs.options import PairsOptions
from palate.construction.pairs.pipeline import build_pairs, plan_pairs
from palate.construction.pairs.result import PairsBuild, PairsSummary

__all__ = ["PairsBuild", "PairsOptions", "PairsSummary", "build_pairs", "plan_pairs"]
