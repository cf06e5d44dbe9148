"""Reading networks: torch.export, ONNX and bare checkpoints become neural graphs."""

from weightspace.importers.from_module import from_module, module_spec

__all__ = ["from_module", "module_spec"]
