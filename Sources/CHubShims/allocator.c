#include <malloc.h>

// Before main: what is freed at the end of the heap goes back to the system beyond 128 KB, and blocks of 128 KB and more have pages of their own.
// These are the C library's own limits; said once, they stay. Left alone, the library raises both to many times the largest block that was ever freed,
// up to 64 MB, so that a node keeps for good what one herd of clients took for a moment (decision 0230). mallopt is a C function that Swift's Glibc
// module doesn't show.
__attribute__((constructor)) static void settle_allocator(void) {
    mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}
