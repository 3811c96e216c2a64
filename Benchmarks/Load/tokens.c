// fanload with a token for each connection: "@7 " in a request's target becomes line 7 of the file that TOKENS names.
//
//   cc -O2 -DFANLOAD='"…/fanload.c"' -o load tokens.c -lz
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

static char **lines;
static size_t lines_count;

static void read_lines(void) {
    const char *path = getenv("TOKENS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while (file && (length = getline(&line, &room, file)) > 0) {
        if (lines_count % 1024 == 0) lines = realloc(lines, (lines_count + 1024) * sizeof *lines);
        if (!lines) exit(3);
        lines[lines_count++] = strndup(line, strcspn(line, "\n"));
    }
    free(line);
    if (file) fclose(file);
    if (lines_count == 0) {
        fprintf(stderr, "no tokens: TOKENS must name a file of them\n");
        exit(3);
    }
}

static ssize_t send_with_token(int socket, const void *bytes, size_t count, int flags) {
    char request[8192];
    const char *mark = count > 4 && !memcmp(bytes, "GET ", 4) ? memchr(bytes, '@', count) : NULL;
    if (!mark) return send(socket, bytes, count, flags);
    if (!lines) read_lines();
    char *end;
    size_t number = strtoul(mark + 1, &end, 10), front = (size_t)(mark - (const char *)bytes), rest = count - (size_t)(end - (const char *)bytes);
    if (number >= lines_count || front + strlen(lines[number]) + rest > sizeof request) {
        errno = EINVAL;
        return -1;
    }
    size_t middle = strlen(lines[number]);
    memcpy(request, bytes, front);
    memcpy(request + front, lines[number], middle);
    memcpy(request + front + middle, end, rest);
    ssize_t sent = send(socket, request, front + middle + rest, flags);
    return sent == (ssize_t)(front + middle + rest) ? (ssize_t)count : -1;
}

#define send send_with_token
#include FANLOAD
