"""The training loop's glue."""

from weightspace.train.allocator import keep_freed_memory
from weightspace.train.fitting import Budget, Fitted, Interrupted, fit_task

__all__ = ["Budget", "Fitted", "Interrupted", "fit_task", "keep_freed_memory"]
