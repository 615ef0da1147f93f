"""The one place that names this version; every release records it."""

__version__ = "0.1.0"
