"""Texts as HTML, and what pages share: escaping, templates, colours."""

from palate.html.printable import UNSAFE, printable
from palate.html.templates import colours, environment, to_html

__all__ = ["UNSAFE", "colours", "environment", "printable", "to_html"]
