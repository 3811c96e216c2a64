// How the state of connections lies in memory, and what that is worth to a delivery: an object for each connection, one array of structs (the
// slab that HubNet has), or an array for each field.
//
//   cc -O2 -o layout layout.c && ./layout [ROUNDS]
//   ./layout LAYOUT WORK TURNS     one of them, so many turns and nothing else, for cachegrind: objects slab arrays none; channel rooms
//
// What is done is what `broadcast` and `flush` of HubNet do with 10,000 connections, field by field, but for the `send` itself: a range is
// queued at each member, then each connection that got one is gone through, and what it would write is added up. "channel": one frame to all
// of them in the order of their indexes. "rooms": 1,000 frames to 10 connections each, which lie anywhere.
//
// In a second run each delivery also reads and writes 4 KB of another 64 MB, as a stand-in for what the kernel's `send` does to the caches. The
// same without any connection's state ("none") is taken off, so what's left is the state's own.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { connections = 10000, rooms = 1000, members = 10, frame = 316, roundsMax = 101, isDirty = 2, isWithheld = 2097152 };
enum layout { objects, slab, arrays, none, layouts };
enum work { channel, smallRooms, works };
static const char *const layoutNames[] = {"objects", "slab", "arrays", "none"}, *const workNames[] = {"channel", "rooms"};

// A connection's 128 bytes in HubNet, the first 64 of which a delivery touches.
struct connection {
    int32_t descriptor;
    uint32_t generation;
    uint8_t phase, form;
    uint16_t code;
    uint32_t flags, pendingStart, pendingEnd, segmentHead, segmentTail, pongStart;
    uint8_t pongs;
    void *backlog;
    uint64_t lastInbound;
    void *rest[8];
} __attribute__((aligned(64)));

static struct connection *own[connections], *slots;
static struct {
    int32_t descriptor[connections];
    uint8_t phase[connections], form[connections], pongs[connections];
    uint32_t flags[connections], pendingStart[connections], pendingEnd[connections], segmentHead[connections], pongStart[connections];
    void *backlog[connections];
} fields;
static uint32_t everyone[connections], inRooms[rooms * members], dirty[connections];
static int dirtyCount, disturbs;
static uint64_t sum;
static char *others;
enum { othersBytes = 64 << 20, disturbedBytes = 4096 };

static uint32_t chance(void) {
    static uint64_t state = 42;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
static void shuffle(uint32_t *list, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = chance() % i, held = list[i - 1];
        list[i - 1] = list[j];
        list[j] = held;
    }
}

// What stands for the kernel's work of one send. Every eighth line: the hardware fetches ahead what is read line by line.
static inline void disturb(void) {
    static uint32_t place;
    if (!disturbs) return;
    for (uint32_t line = 0; line < disturbedBytes / 64; line++) others[(place + line * 512) & (othersBytes - 1)]++;
    place += 64 + 512 * (disturbedBytes / 64);
}

// The same two loops for each layout: `AT(field)` is the field of connection `i`.
#define LOOPS(name, AT)                                                                                        \
    __attribute__((noinline)) static void queue_##name(const uint32_t *list, int count, uint32_t start) {      \
        for (int at = 0; at < count; at++) {                                                                   \
            uint32_t i = list[at], end = start + frame;                                                        \
            if (i >= connections || AT(phase) != 6 || AT(form) != 0) continue;                                 \
            if (AT(pendingEnd) == start) {                                                                     \
                AT(pendingEnd) = end;                                                                          \
                continue;                                                                                      \
            }                                                                                                  \
            if (!(AT(flags) & isDirty)) AT(flags) |= isDirty, dirty[dirtyCount++] = i;                         \
            AT(pendingStart) = start;                                                                          \
            AT(pendingEnd) = end;                                                                              \
        }                                                                                                      \
    }                                                                                                          \
    __attribute__((noinline)) static void flush_##name(void) {                                                 \
        for (int at = 0; at < dirtyCount; at++) {                                                              \
            uint32_t i = dirty[at];                                                                            \
            AT(flags) &= ~(uint32_t)isDirty;                                                                   \
            if (AT(phase) == 0) continue;                                                                      \
            AT(pongs) = 0;                                                                                     \
            if (AT(pongStart) || !AT(pendingEnd) || (AT(flags) & isWithheld)) continue;                        \
            uint32_t head = AT(segmentHead), start = AT(pendingStart), end = AT(pendingEnd);                   \
            AT(pendingEnd) = 0;                                                                                \
            AT(segmentHead) = ~0u;                                                                             \
            if (head != ~0u || AT(backlog)) continue;                                                          \
            sum += (uint64_t)AT(descriptor) + end - start;                                                     \
            disturb();                                                                                         \
        }                                                                                                      \
        dirtyCount = 0;                                                                                        \
    }
#define OBJECT(field) (own[i]->field)
#define SLOT(field) (slots[i].field)
#define ARRAY(field) (fields.field[i])
LOOPS(objects, OBJECT)
LOOPS(slab, SLOT)
LOOPS(arrays, ARRAY)
static void queue_none(const uint32_t *list, int count, uint32_t start) {
    for (int at = 0; at < count; at++) sum += list[at] + start;
    dirtyCount += count;
}
static void flush_none(void) {
    for (; dirtyCount > 0; dirtyCount--) disturb();
}

static void turn(enum layout layout, enum work work) {
    static void (*const queues[])(const uint32_t *, int, uint32_t) = {queue_objects, queue_slab, queue_arrays, queue_none};
    static void (*const flushes[])(void) = {flush_objects, flush_slab, flush_arrays, flush_none};
    if (work == channel) queues[layout](everyone, connections, 16);
    // Frames of rooms lie apart in the arena: no range is made longer.
    else for (uint32_t r = 0; r < rooms; r++) queues[layout](inRooms + r * members, members, 16 + r * (frame + 1));
    flushes[layout]();
}

static void prepare(void) {
    struct connection fresh = {.phase = 6, .segmentHead = ~0u};
    uint32_t order[connections];
    for (uint32_t i = 0; i < connections; i++) order[i] = everyone[i] = inRooms[i] = i;
    shuffle(order, connections);
    shuffle(inRooms, connections);
    slots = aligned_alloc(64, sizeof *slots * connections);
    // Objects as they lie after connections have come and gone: in no order, with other things between them.
    for (uint32_t k = 0; k < connections; k++) {
        own[order[k]] = aligned_alloc(64, sizeof **own);
        char *between = malloc(16 + chance() % 512);
        if (between) between[0] = 1;
    }
    for (uint32_t i = 0; i < connections; i++) {
        fresh.descriptor = (int32_t)i + 8;
        slots[i] = *own[i] = fresh;
        fields.descriptor[i] = fresh.descriptor;
        fields.phase[i] = 6;
        fields.segmentHead[i] = ~0u;
    }
    others = malloc(othersBytes);
    memset(others, 1, othersBytes);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

int main(int argc, char **argv) {
    static double took[2][works][layouts][roundsMax];
    prepare();
    if (argc == 4) {
        enum layout layout = objects;
        while (layout < none && strcmp(layoutNames[layout], argv[1])) layout++;
        enum work work = strcmp(argv[2], "rooms") ? channel : smallRooms;
        for (int n = atoi(argv[3]); n > 0; n--) turn(layout, work);
        return sum == 1;
    }
    int rounds = argc > 1 ? atoi(argv[1]) : 41;
    if (rounds < 1 || rounds > roundsMax) return fprintf(stderr, "layout: 1 to %d rounds\n", roundsMax), 2;
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(0, &core);
    sched_setaffinity(0, sizeof core, &core);
    for (int round = 0; round < rounds; round++)
        for (disturbs = 0; disturbs < 2; disturbs++)
            for (int w = 0; w < works; w++)
                for (int k = 0; k < layouts; k++) {
                    enum layout layout = (enum layout)((k + round) % layouts);
                    int turns = disturbs ? 2 : 10;
                    turn(layout, (enum work)w);
                    double before = now();
                    for (int n = 0; n < turns; n++) turn(layout, (enum work)w);
                    took[disturbs][w][layout][round] = (now() - before) / turns / connections;
                }
    printf("ns of a delivery to one of %d connections, without the send; medians of %d rounds (quartiles)\n", connections, rounds);
    for (disturbs = 0; disturbs < 2; disturbs++)
        for (int w = 0; w < works; w++) {
            printf("%s, %s\n", workNames[w], disturbs ? "4 KB of other memory touched for each delivery" : "nothing else touched");
            for (int layout = 0; layout < none; layout++) {
                double *own = took[disturbs][w][layout], *bare = took[disturbs][w][none], left[roundsMax];
                for (int round = 0; round < rounds; round++) left[round] = own[round] - (disturbs ? bare[round] : 0);
                qsort(left, (size_t)rounds, sizeof *left, ascending);
                printf("  %-8s %7.1f  (%.1f to %.1f)\n", layoutNames[layout], left[rounds / 2], left[rounds / 4], left[rounds - 1 - rounds / 4]);
            }
        }
    return sum == 1;
}
