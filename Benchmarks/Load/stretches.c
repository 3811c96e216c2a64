// Preloaded into a node: how long its threads work between two looks at their sockets, which is what whoever comes meanwhile waits at least.
//
//   cc -O2 -shared -fPIC -o stretches.so stretches.c
//   STRETCHES=/tmp/file LD_PRELOAD=./stretches.so hubd …
//
// The file has a line for each thread that waits by epoll: its id, and for each slot of 50 ms (the last 4,096 of them, by the monotonic clock) which slot it
// was and the longest stretch that ended in it, in nanoseconds of the thread's CPU: what else runs on the machine doesn't count.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { threads = 16, slots = 4096, slot_ns = 50 * 1000 * 1000 };

struct line {
    uint64_t thread, unused;
    struct { uint64_t number, longest; } slots[slots];
};

static struct line *lines;
static atomic_int taken;
static int (*wait_for)(int, struct epoll_event *, int, int);
static __thread struct line *mine;
static __thread uint64_t began;

static uint64_t read_clock(clockid_t which) {
    struct timespec time;
    clock_gettime(which, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

__attribute__((constructor)) static void start(void) {
    wait_for = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    const char *path = getenv("STRETCHES");
    if (!path) return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, threads * sizeof(struct line))) abort();
    lines = mmap(NULL, threads * sizeof(struct line), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (lines == MAP_FAILED) abort();
    close(file);
}

static void note(uint64_t stretch) {
    if (!mine) {
        int place = taken++;
        if (place >= threads) return;
        mine = &lines[place];
        mine->thread = gettid();
    }
    uint64_t number = read_clock(CLOCK_MONOTONIC) / slot_ns;
    __typeof__(&mine->slots[0]) slot = &mine->slots[number % slots];
    if (slot->number != number) {
        slot->longest = 0;
        slot->number = number;
    }
    if (slot->longest < stretch) slot->longest = stretch;
}

int epoll_wait(int epoll, struct epoll_event *events, int capacity, int milliseconds) {
    if (lines && began) note(read_clock(CLOCK_THREAD_CPUTIME_ID) - began);
    int count = wait_for(epoll, events, capacity, milliseconds);
    began = read_clock(CLOCK_THREAD_CPUTIME_ID);
    return count;
}
