"""Reading ONNX files: a graph becomes a module, and the module a neural graph."""

from weightspace.importers.onnx.from_onnx import from_onnx, graph_of, onnx_module
from weightspace.importers.onnx.network import OnnxNetwork

__all__ = ["OnnxNetwork", "from_onnx", "graph_of", "onnx_module"]
