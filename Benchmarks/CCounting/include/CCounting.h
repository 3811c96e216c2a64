// Counts what the process allocates and retains, by standing in front of malloc and of the Swift runtime's reference counting; and drives a
// hub from plain sockets without allocating anything itself, so that what is counted is the hub's.
#ifndef HUB_COUNTING_H
#define HUB_COUNTING_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t allocations, retains;
    /// Bytes that are allocated and not freed.
    int64_t live;
} hub_counts;

hub_counts hub_counts_now(void);

/// Starts or stops noting who allocates and retains.
void hub_counts_sites(int on);
/// Prints the addresses of those who did so at least that often: `addr2line -e PROGRAM ADDRESS` names them.
void hub_counts_print_sites(uint64_t least);

/// Starts or stops noting which way the blocks come that are taken; while it's on, allocating is slow.
void hub_counts_blocks(int on);
/// Prints the ways whose blocks are still held and weigh at least that much: bytes, blocks, and the callers from the nearest on, each as
/// FILE+ADDRESS for `addr2line -fe FILE ADDRESS`.
void hub_counts_print_blocks(int64_t least);

/// Connects to 127.0.0.1:port and upgrades to a WebSocket at `target`. -1 when that fails.
int hub_drive_open(int port, const char *target);
/// Sends one masked text frame (length below 126 or below 65,536). 0 when it left whole.
int hub_drive_send(int socket, const char *text);
/// Reads until `marker` has been seen `times` times on the socket, ten seconds at most. 0 when it was.
int hub_drive_expect(int socket, const char *marker, int times);
/// The same on each of `count` sockets, one after another.
int hub_drive_expect_each(const int *sockets, int count, const char *marker, int times);
/// Sends `text` on `publisher` and waits until each of `count` sockets has received `bytes` bytes more; `rounds` times, one at a time.
/// Allocates nothing. 0 when all came.
int hub_drive_rounds(int publisher, const char *text, const int *sockets, int count, size_t bytes, int rounds);
/// How many bytes come in on the socket after one `text` on `publisher`: reads until nothing more comes for 200 ms.
long hub_drive_measure(int publisher, const char *text, int socket);

#endif
