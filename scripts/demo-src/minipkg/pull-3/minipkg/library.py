"""libkern.so through ctypes."""

import ctypes
from functools import cache

import kern


@cache
def load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(kern.library_path()))
    library.kern_describe.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.kern_describe.restype = ctypes.c_size_t
    return library


def describe() -> str:
    """What the library holds, in one line. Needs no GPU."""
    out = ctypes.create_string_buffer(256)
    load().kern_describe(out, len(out))
    return out.value.decode()


def runtime_version() -> int:
    """The version of libcudart that libkern.so is bound to, as in 13000. Needs no GPU."""
    return int(load().kern_runtime_version())
