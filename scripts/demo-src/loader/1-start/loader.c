/* A file into memory, through io_uring where liburing is there. */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

extern int cudaRuntimeGetVersion(int *version);

int loader_has_uring(void) {
#ifdef HAVE_LIBURING
    return 1;
#else
    return 0;
#endif
}

int loader_cudart(void) {
    int version = 0;
    return cudaRuntimeGetVersion(&version) == 0 ? version : -1;
}

long loader_read(const char *path, void *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    long got = -1;
    if (fd < 0) return -1;
#ifdef HAVE_LIBURING
    struct io_uring ring;
    struct io_uring_cqe *cqe;
    if (io_uring_queue_init(1, &ring, 0) == 0) {
        io_uring_prep_read(io_uring_get_sqe(&ring), fd, out, (unsigned)size, 0);
        if (io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &cqe) == 0) {
            got = cqe->res;
            io_uring_cqe_seen(&ring, cqe);
        }
        io_uring_queue_exit(&ring);
    }
#else
    got = read(fd, out, size);
#endif
    close(fd);
    return got;
}
