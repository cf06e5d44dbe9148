"""weightspace: trained neural networks as data."""

__version__ = "0.1.0"
