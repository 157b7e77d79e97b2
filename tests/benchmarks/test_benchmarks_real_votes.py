"""Mirrored couples of real voters."""

from pathlib import Path

from palate.benchmarks import load_benchmark


def test_real_votes_make_2874_couples_of_209_users(real_data: Path) -> None:
    path = str(real_data / "convincing_arguments.jsonl.gz")
    pairs = load_benchmark(path, mirrored="only")
    assert (len(pairs.couples), len(pairs.pairs)) == (2874, 5748)
    assert len({pair.user_id for pair in pairs.pairs}) == 209
    for one, other in ((pairs.pairs[i], pairs.pairs[j]) for i, j in pairs.couples):
        assert one.user_id != other.user_id
        assert (one.text, one.chosen, one.rejected) == (other.text, other.rejected, other.chosen)
    assert {pair.split for pair in pairs.pairs} == {"test"}
    assert len(pairs.limit(10).couples) == 10
