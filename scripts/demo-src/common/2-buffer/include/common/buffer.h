#pragma once

#include <cstddef>

#include <cuda_runtime.h>

namespace common {

// Device memory that is freed when it goes out of scope.
template <typename T>
class Buffer {
public:
    explicit Buffer(std::size_t n) { status_ = cudaMalloc(&data_, n * sizeof(T)); }
    ~Buffer() { cudaFree(data_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    cudaError_t status() const { return status_; }
    T *get() const { return data_; }

private:
    T *data_ = nullptr;
    cudaError_t status_;
};

}  // namespace common
