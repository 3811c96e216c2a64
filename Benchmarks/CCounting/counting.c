#define _GNU_SOURCE
#include "CCounting.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

// Who calls, for finding what a count is made of: return addresses and how often. Off until hub_counts_sites(1).
enum { sites_max = 4096 };
static struct { _Atomic(void *) caller; _Atomic uint64_t times; } sites[sites_max];
static _Atomic int sites_on;

static void note(void *caller) {
    if (!atomic_load_explicit(&sites_on, memory_order_relaxed)) return;
    size_t place = ((uintptr_t)caller * 0x9E3779B97F4A7C15u) >> 52;
    for (int i = 0; i < sites_max; i++, place = (place + 1) % sites_max) {
        void *held = atomic_load(&sites[place].caller);
        if (!held && !atomic_compare_exchange_strong(&sites[place].caller, &held, caller) && held != caller) continue;
        if (held && held != caller) continue;
        atomic_fetch_add(&sites[place].times, 1);
        return;
    }
}

void hub_counts_sites(int on) { atomic_store(&sites_on, on); }

void hub_counts_print_sites(uint64_t least) {
    for (int i = 0; i < sites_max; i++) {
        Dl_info info;
        void *caller = atomic_load(&sites[i].caller);
        uint64_t times = atomic_load(&sites[i].times);
        if (!caller || times < least) continue;
        uintptr_t base = dladdr(caller, &info) ? (uintptr_t)info.dli_fbase : 0;
        printf("%8lu  0x%lx  %s\n", (unsigned long)times, (unsigned long)((uintptr_t)caller - base), base ? info.dli_fname : "?");
    }
}

// The C library's own entry points: glibc documents that a program may define malloc and friends itself, and keeps these for it.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Atomic uint64_t allocations, retains;
// What is allocated and not freed, with the word that the C library keeps before each block.
static _Atomic int64_t live;

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

static void *taken(void *block) {
    count(&allocations);
    if (block) atomic_fetch_add_explicit(&live, (int64_t)(malloc_usable_size(block) + sizeof(size_t)), memory_order_relaxed);
    return block;
}

static void given(void *block) {
    if (block) atomic_fetch_sub_explicit(&live, (int64_t)(malloc_usable_size(block) + sizeof(size_t)), memory_order_relaxed);
}

void *malloc(size_t size) { note(__builtin_return_address(0)); return taken(__libc_malloc(size)); }
void *calloc(size_t count_, size_t size) { return taken(__libc_calloc(count_, size)); }
void *realloc(void *block, size_t size) { given(block); return taken(__libc_realloc(block, size)); }
void *memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }
void free(void *block) { given(block); __libc_free(block); }
int posix_memalign(void **result, size_t alignment, size_t size) {
    *result = taken(__libc_memalign(alignment, size));
    return *result ? 0 : 12;
}

// The Swift runtime's: calls from our own code resolve to these, which count and pass on.
#define FORWARD(name)                                                   \
    void *name(void *object) {                                          \
        static void *(*real)(void *);                                   \
        if (!real) real = (void *(*)(void *))dlsym(RTLD_NEXT, #name);   \
        count(&retains);                                                \
        note(__builtin_return_address(0));                              \
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
    hub_counts counts = {atomic_load(&allocations), atomic_load(&retains), atomic_load(&live)};
    return counts;
}
