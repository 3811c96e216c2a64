#define _GNU_SOURCE
#include "CCounting.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Who holds what is live: for each block that was taken since hub_counts_blocks(1) the way to its allocation. One lock, no memory but its own.
enum { blocks_max = 1 << 20, ways_max = 1 << 13, frames_max = 16 };
static struct { void *block; uint32_t way, size; } blocks[blocks_max];
static struct { void *frames[frames_max]; int depth; int64_t bytes, count; } ways[ways_max];
static _Atomic int blocks_on;
static atomic_flag blocks_lock = ATOMIC_FLAG_INIT;
static _Thread_local int is_noting;

static size_t home(const void *block) { return ((uintptr_t)block * 0x9E3779B97F4A7C15u) >> 44; }

static uint32_t way_of(void **frames, int depth) {
    uint64_t hash = 0;
    for (int i = 0; i < depth; i++) hash = (hash ^ (uintptr_t)frames[i]) * 0x9E3779B97F4A7C15u;
    size_t place = hash >> 51;
    for (size_t looked = 0; looked < ways_max; looked++, place = (place + 1) % ways_max) {
        if (ways[place].depth == depth && !memcmp(ways[place].frames, frames, sizeof *frames * (size_t)depth)) return (uint32_t)place;
        if (ways[place].depth) continue;
        memcpy(ways[place].frames, frames, sizeof *frames * (size_t)depth);
        ways[place].depth = depth;
        return (uint32_t)place;
    }
    return 0;
}

static void block_taken(void *block, size_t size) {
    if (!atomic_load_explicit(&blocks_on, memory_order_relaxed) || is_noting) return;
    void *frames[frames_max];
    is_noting = 1;
    int depth = backtrace(frames, frames_max);
    is_noting = 0;
    while (atomic_flag_test_and_set(&blocks_lock)) {}
    uint32_t way = way_of(frames, depth);
    size_t place = home(block);
    while (blocks[place].block) place = (place + 1) % blocks_max;
    blocks[place].block = block;
    blocks[place].way = way;
    blocks[place].size = (uint32_t)size;
    ways[way].bytes += (int64_t)size;
    ways[way].count++;
    atomic_flag_clear(&blocks_lock);
}

static void block_given(void *block) {
    if (!atomic_load_explicit(&blocks_on, memory_order_relaxed)) return;
    while (atomic_flag_test_and_set(&blocks_lock)) {}
    size_t hole = home(block);
    while (blocks[hole].block && blocks[hole].block != block) hole = (hole + 1) % blocks_max;
    if (blocks[hole].block) {
        ways[blocks[hole].way].bytes -= blocks[hole].size;
        ways[blocks[hole].way].count--;
        blocks[hole].block = NULL;
        for (size_t next = (hole + 1) % blocks_max; blocks[next].block; next = (next + 1) % blocks_max) {
            if (((next - home(blocks[next].block)) & (blocks_max - 1)) < ((next - hole) & (blocks_max - 1))) continue;
            blocks[hole] = blocks[next];
            blocks[next].block = NULL;
            hole = next;
        }
    }
    atomic_flag_clear(&blocks_lock);
}

void hub_counts_blocks(int on) { atomic_store(&blocks_on, on); }

void hub_counts_print_blocks(int64_t least) {
    for (int i = 0; i < ways_max; i++) {
        if (!ways[i].depth || ways[i].bytes < least) continue;
        printf("%10ld bytes in %ld blocks:", (long)ways[i].bytes, (long)ways[i].count);
        for (int frame = 2; frame < ways[i].depth; frame++) {
            Dl_info info;
            uintptr_t base = dladdr(ways[i].frames[frame], &info) ? (uintptr_t)info.dli_fbase : 0;
            const char *file = base ? strrchr(info.dli_fname, '/') : NULL;
            printf(" %s+0x%lx", file ? file + 1 : "?", (unsigned long)((uintptr_t)ways[i].frames[frame] - base));
        }
        printf("\n");
    }
}

static _Atomic uint64_t allocations, retains;
// What is allocated and not freed, with the word that the C library keeps before each block.
static _Atomic int64_t live;

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

static void *taken(void *block) {
    count(&allocations);
    if (!block) return block;
    size_t size = malloc_usable_size(block) + sizeof(size_t);
    atomic_fetch_add_explicit(&live, (int64_t)size, memory_order_relaxed);
    block_taken(block, size);
    return block;
}

static void given(void *block) {
    if (!block) return;
    atomic_fetch_sub_explicit(&live, (int64_t)(malloc_usable_size(block) + sizeof(size_t)), memory_order_relaxed);
    block_given(block);
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
