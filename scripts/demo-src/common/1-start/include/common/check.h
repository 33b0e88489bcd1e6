#pragma once

#include <cuda_runtime.h>

// Leaves the function with the CUDA error's number, as kern's C functions report it.
#define COMMON_CHECK(call)                                 \
    do {                                                   \
        cudaError_t status_ = (call);                      \
        if (status_ != cudaSuccess) return (int)status_;   \
    } while (0)
