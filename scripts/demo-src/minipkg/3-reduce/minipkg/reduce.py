"""Sums on the GPU."""

import ctypes
from array import array
from collections.abc import Iterable

from minipkg.library import load


def reduce_bf16(values: Iterable[float]) -> float:
    """The sum of the values in bfloat16. Raises OSError with CUDA's error number."""
    x = array("f", values)
    total = ctypes.c_float()
    address, n = x.buffer_info()
    error = load().kern_reduce_bf16(ctypes.c_void_p(address), n, ctypes.byref(total))
    if error:
        raise OSError(error, "CUDA error")
    return total.value
