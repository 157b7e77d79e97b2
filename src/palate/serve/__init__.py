"""A reward server: trainers ask over HTTP what a scorer gives an answer for a user."""

from palate.serve.serving import serve, serve_settings
