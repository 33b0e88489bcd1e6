"""Kernels by name, and what each needs before its first launch."""

_PREPARED_LAUNCHERS = {
    "axpy_half": "kern_axpy_half",
    "reduce_bf16": "kern_reduce_bf16",
}

# Elements from which a launch is worth its overhead.
SMALLEST_LAUNCH = 4096


def launcher(name: str) -> str:
    try:
        return _PREPARED_LAUNCHERS[name]
    except KeyError:
        known = ", ".join(sorted(_PREPARED_LAUNCHERS))
        raise LookupError(f"no kernel {name!r}; known: {known}") from None
