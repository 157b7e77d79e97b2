"""A reward server: trainers ask over HTTP what a scorer gives an answer for a user."""

from palate.serve.app import ServeSettings, create_app
from palate.serve.run import serve

__all__ = ["ServeSettings", "create_app", "serve"]
