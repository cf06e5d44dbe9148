"""Reading networks: torch.export, ONNX and bare checkpoints become neural graphs."""

from weightspace.importers.chains import Chain, recognise_chain, recognise_chains
from weightspace.importers.checkpoint import from_checkpoint, from_state
from weightspace.importers.files import Checkpoint, read_states
from weightspace.importers.from_module import from_module, module_spec
from weightspace.importers.onnx import from_onnx, onnx_module

__all__ = [
    "Chain",
    "Checkpoint",
    "from_checkpoint",
    "from_module",
    "from_onnx",
    "from_state",
    "module_spec",
    "onnx_module",
    "read_states",
    "recognise_chain",
    "recognise_chains",
]
