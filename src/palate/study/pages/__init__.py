"""A study's pages: forms without script or cookie, for raters with a personal link."""

from palate.study.pages.serving import serve_study

__all__ = ["serve_study"]
