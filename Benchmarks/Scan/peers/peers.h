// One contender of the benchmark, and what runs it.
#pragma once
#include <stddef.h>

// Readable bytes behind each text: simdjson wants them.
#define PADDING 64

#ifdef __cplusplus
extern "C" {
#endif

struct contender {
    const char *name;
    // Finds type, id, channel, messageId and the payload. Sums up what it found, so that nothing is optimized away; -1: refused.
    long (*scan)(const char *text, size_t length);
};

int run(int argc, char **argv, const struct contender *list, int count);

#ifdef __cplusplus
}
#endif
