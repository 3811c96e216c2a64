// Times contenders on the envelopes of a file. Usage of each program: NAME ENVELOPES.txt [MILLISECONDS]; prints
// "contender <tab> envelope <tab> ns". In a file whose name ends in .hex the envelopes are hexadecimal digits.
#define _GNU_SOURCE
#include "peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// CPU time of this process in nanoseconds, as in main.swift.
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static volatile long sink;

static void report(const struct contender *contender, const char *envelope, const char *text, size_t length, double window) {
    if (contender->scan(text, length) < 0) {
        fprintf(stderr, "%s refuses %s\n", contender->name, envelope);
        exit(1);
    }
    for (long batch = 16;; batch *= 2) {
        double start = now();
        for (long i = 0; i < batch; i++) sink += contender->scan(text, length);
        double took = now() - start;
        if (took >= window) {
            printf("%s\t%s\t%f\n", contender->name, envelope, took / (double)batch);
            return;
        }
    }
}

// Digits to bytes, in place.
static size_t unhex(char *text, size_t length) {
    for (size_t i = 0; i < length / 2; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        text[i] = (char)byte;
    }
    return length / 2;
}

int run(int argc, char **argv, const struct contender *list, int count) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: %s ENVELOPES.txt [MILLISECONDS]\n", argv[0]);
        return 2;
    }
    int is_hex = strlen(argv[1]) > 4 && !strcmp(argv[1] + strlen(argv[1]) - 4, ".hex");
    double window = (argc > 2 ? atof(argv[2]) : 40) * 1e6;
    static char line[65536];
    while (fgets(line, sizeof line, file)) {
        char *tab = strchr(line, '\t');
        if (!tab) continue;
        *tab = 0;
        size_t length = strcspn(tab + 1, "\n");
        char *text = calloc(1, length + PADDING);
        memcpy(text, tab + 1, length);
        if (is_hex) length = unhex(text, length);
        for (int i = 0; i < count; i++) report(&list[i], line, text, length, window);
        free(text);
    }
    fclose(file);
    return 0;
}
