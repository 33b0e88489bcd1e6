// Sum of a vector in bfloat16 with float accumulation: a warp-sized tile per step.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>

#include "common/buffer.h"
#include "common/check.h"
#include "kern.h"

namespace cg = cooperative_groups;

__global__ void reduce_bf16(const __nv_bfloat16 *x, int n, float *sum) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float mine = 0.0f;
    for (int i = block.thread_rank(); i < n; i += block.size()) {
        mine += __bfloat162float(x[i]);
    }
    float total = cg::reduce(warp, mine, cg::plus<float>());
    if (warp.thread_rank() == 0) atomicAdd(sum, total);
}

__global__ void to_bf16(const float *x, __nv_bfloat16 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(x[i]);
}

int kern_reduce_bf16(const float *x, int n, float *sum) {
    common::Buffer<float> floats(n), total(1);
    common::Buffer<__nv_bfloat16> halves(n);
    COMMON_CHECK(floats.status());
    COMMON_CHECK(total.status());
    COMMON_CHECK(halves.status());
    COMMON_CHECK(cudaMemcpy(floats.get(), x, n * sizeof(float), cudaMemcpyHostToDevice));
    COMMON_CHECK(cudaMemset(total.get(), 0, sizeof(float)));
    to_bf16<<<(n + 255) / 256, 256>>>(floats.get(), halves.get(), n);
    reduce_bf16<<<1, 256>>>(halves.get(), n, total.get());
    COMMON_CHECK(cudaGetLastError());
    COMMON_CHECK(cudaMemcpy(sum, total.get(), sizeof(float), cudaMemcpyDeviceToHost));
    return 0;
}
