// y = a * x + y in half precision, one grid-wide cooperative group.
#include <vector>

#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include "common/check.h"
#include "kern.h"
#include "tinyfmt/tinyfmt.h"

namespace cg = cooperative_groups;

__global__ void axpy_half(__half a, const __half *x, __half *y, int n) {
    cg::grid_group grid = cg::this_grid();
    for (long i = grid.thread_rank(); i < n; i += grid.size()) {
        y[i] = __hfma(a, x[i], y[i]);
    }
}

int kern_axpy_half(float a, const float *x, float *y, int n) {
    std::vector<__half> hx(n), hy(n);
    for (int i = 0; i < n; i++) {
        hx[i] = __float2half(x[i]);
        hy[i] = __float2half(y[i]);
    }
    size_t bytes = n * sizeof(__half);
    __half *dx = nullptr, *dy = nullptr;
    COMMON_CHECK(cudaMalloc(&dx, bytes));
    COMMON_CHECK(cudaMalloc(&dy, bytes));
    COMMON_CHECK(cudaMemcpy(dx, hx.data(), bytes, cudaMemcpyHostToDevice));
    COMMON_CHECK(cudaMemcpy(dy, hy.data(), bytes, cudaMemcpyHostToDevice));
    __half scale = __float2half(a);
    void *arguments[] = {&scale, &dx, &dy, &n};
    COMMON_CHECK(cudaLaunchCooperativeKernel(axpy_half, dim3(32), dim3(256), arguments));
    COMMON_CHECK(cudaMemcpy(hy.data(), dy, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) y[i] = __half2float(hy[i]);
    COMMON_CHECK(cudaFree(dx));
    COMMON_CHECK(cudaFree(dy));
    return 0;
}

int kern_runtime_version(void) {
    int version = 0;
    COMMON_CHECK(cudaRuntimeGetVersion(&version));
    return version;
}

size_t kern_describe(char *out, size_t size) {
    return tinyfmt::Writer(out, size)
        .text("kern: axpy_half; CUDA ")
        .number(CUDART_VERSION)
        .text(", tinyfmt ")
        .number(TINYFMT_VERSION)
        .length();
}
