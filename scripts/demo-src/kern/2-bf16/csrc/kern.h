#pragma once

#include <stddef.h>
#include <stdint.h>

// The C interface of libkern.so. Each function returns 0 or a CUDA error's number.
extern "C" {
int kern_axpy_half(float a, const float *x, float *y, int n);
int kern_reduce_bf16(const float *x, int n, float *sum);

// Needs no GPU.
int kern_runtime_version(void);
size_t kern_describe(char *out, size_t size);
}
