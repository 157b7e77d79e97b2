"""One file a kind of result: its tables, its picture, its part of a page."""
