"""A reward server: trainers ask over HTTP what a scorer gives an answer for a user."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palate.serve.serving import serve, serve_settings

if TYPE_CHECKING:
    from palate.serve.app import ServeSettings, create_app
    from palate.serve.app_server import AppServer, listen
    from palate.serve.run import run_server

__all__ = [
    "AppServer",
    "ServeSettings",
    "create_app",
    "listen",
    "run_server",
    "serve",
    "serve_settings",
]

# They need palate[serve], and `palate.serve` is a name of the core.
_LATER = {
    "AppServer": "app_server",
    "ServeSettings": "app",
    "create_app": "app",
    "listen": "app_server",
    "run_server": "run",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
