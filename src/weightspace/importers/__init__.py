"""Reading networks: torch.export, ONNX and bare checkpoints become neural graphs."""

from weightspace.importers.files import Checkpoint, read_states
from weightspace.importers.from_module import from_module, module_spec

__all__ = ["Checkpoint", "from_module", "module_spec", "read_states"]
