"""Earlier results on disk: documents and vectors, by the hash of what made them."""

from palate.stores.documents import Documents
from palate.stores.store import Store, cache_folder
from palate.stores.vectors import Keys, Vectors, as_keys

__all__ = ["Documents", "Keys", "Store", "Vectors", "as_keys", "cache_folder"]
