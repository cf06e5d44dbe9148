"""The training loop's glue."""

from weightspace.train.fitting import Budget, Fitted, Interrupted, fit_task
from weightspace.zoo.allocator import keep_freed_memory

__all__ = ["Budget", "Fitted", "Interrupted", "fit_task", "keep_freed_memory"]
