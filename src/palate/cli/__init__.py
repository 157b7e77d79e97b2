"""The command line."""

from palate.cli.app import app, main
