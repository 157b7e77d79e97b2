"""Which of a user's posts matter for a question."""

from palate.retrieval.ranking import Ranking, build_ranking

__all__ = ["Ranking", "build_ranking"]
