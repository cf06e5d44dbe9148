"""Calling functions of compiled libraries with tensors."""

from __future__ import annotations

import ctypes

from torch import Tensor


class Pointers(ctypes.Structure):
    """A structure of up to five pointers; those that are not given are null."""

    _fields_ = [(f"place_{place}", ctypes.c_void_p) for place in range(5)]

    @classmethod
    def of(cls, *tensors: Tensor) -> Pointers:
        """Pointers to contiguous tensors, which must outlive the structure."""
        assert all(tensor.is_contiguous() for tensor in tensors)
        return cls(*(tensor.data_ptr() for tensor in tensors))


def call(library: ctypes.CDLL, name: str, *arguments: Tensor | ctypes.Structure) -> None:
    """Call a function; contiguous tensors are passed as pointers, structures by reference."""
    library[name](
        *(
            ctypes.c_void_p(_contiguous(each).data_ptr())
            if isinstance(each, Tensor)
            else ctypes.byref(each)
            for each in arguments
        )
    )


def _contiguous(tensor: Tensor) -> Tensor:
    assert tensor.is_contiguous()
    return tensor
