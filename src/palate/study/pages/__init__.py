"""A study's pages: forms without script or cookie, for raters with a personal link."""

from palate.study.pages.serving import LINKS, serve_study

__all__ = ["LINKS", "serve_study"]
