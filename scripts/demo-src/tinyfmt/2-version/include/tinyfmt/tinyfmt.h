#pragma once

#include <cstddef>
#include <cstdio>

#define TINYFMT_VERSION 10100

namespace tinyfmt {

// Appends to a buffer of fixed size and never writes past its end.
class Writer {
public:
    Writer(char *out, std::size_t size) : out_(out), size_(size) {
        if (size_ > 0) out_[0] = '\0';
    }

    Writer &text(const char *s) { return put("%s", s); }
    Writer &number(long n) { return put("%ld", n); }
    Writer &version(int v) { return number(v / 10000).text(".").number(v / 100 % 100); }
    std::size_t length() const { return used_; }

private:
    template <typename T>
    Writer &put(const char *format, T value) {
        if (used_ < size_) {
            int n = std::snprintf(out_ + used_, size_ - used_, format, value);
            if (n > 0) used_ += static_cast<std::size_t>(n);
            if (used_ >= size_) used_ = size_ > 0 ? size_ - 1 : 0;
        }
        return *this;
    }

    char *out_;
    std::size_t size_;
    std::size_t used_ = 0;
};

}  // namespace tinyfmt
