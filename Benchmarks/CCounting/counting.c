#define _GNU_SOURCE
#include "CCounting.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

// The C library's own entry points: glibc documents that a program may define malloc and friends itself, and keeps these for it.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static _Atomic uint64_t allocations, retains;

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

void *malloc(size_t size) { count(&allocations); return __libc_malloc(size); }
void *calloc(size_t count_, size_t size) { count(&allocations); return __libc_calloc(count_, size); }
void *realloc(void *block, size_t size) { count(&allocations); return __libc_realloc(block, size); }
void *memalign(size_t alignment, size_t size) { count(&allocations); return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { count(&allocations); return __libc_memalign(alignment, size); }
int posix_memalign(void **result, size_t alignment, size_t size) {
    count(&allocations);
    *result = __libc_memalign(alignment, size);
    return *result ? 0 : 12;
}

// The Swift runtime's: calls from our own code resolve to these, which count and pass on.
#define FORWARD(name)                                                   \
    void *name(void *object) {                                          \
        static void *(*real)(void *);                                   \
        if (!real) real = (void *(*)(void *))dlsym(RTLD_NEXT, #name);   \
        count(&retains);                                                \
        return real(object);                                            \
    }
FORWARD(swift_retain)
FORWARD(swift_bridgeObjectRetain)
FORWARD(swift_unknownObjectRetain)

void *swift_retain_n(void *object, uint32_t times) {
    static void *(*real)(void *, uint32_t);
    if (!real) real = (void *(*)(void *, uint32_t))dlsym(RTLD_NEXT, "swift_retain_n");
    atomic_fetch_add_explicit(&retains, times, memory_order_relaxed);
    return real(object, times);
}

hub_counts hub_counts_now(void) {
    hub_counts counts = {atomic_load(&allocations), atomic_load(&retains)};
    return counts;
}
