// libmpack reading one envelope: a stream of tokens. Counting what is open, the fields and the payload's place are ours, as in a scanner of
// our own. Strings aren't checked to be UTF-8.
#include "peers.h"
#include <mpack.h>
#include <string.h>

enum { OTHER, TYPE, ID, CHANNEL, MESSAGE_ID, PAYLOAD };

static int field_of(const char *key, size_t length) {
    if (length == 4 && !memcmp(key, "type", 4)) return TYPE;
    if (length == 2 && !memcmp(key, "id", 2)) return ID;
    if (length == 7 && !memcmp(key, "channel", 7)) return CHANNEL;
    if (length == 9 && !memcmp(key, "messageId", 9)) return MESSAGE_ID;
    if (length == 7 && !memcmp(key, "payload", 7)) return PAYLOAD;
    return OTHER;
}

static long scan_libmpack(const char *bytes, size_t length) {
    mpack_tokbuf_t tokens = MPACK_TOKBUF_INITIAL_VALUE;
    const char *at = bytes;
    size_t left = length;
    unsigned long open[33];
    int depth = 0, field = OTHER, is_key = 0;
    const char *start = bytes;
    long sum = 0;
    do {
        mpack_token_t token, chunk;
        const char *text = NULL;
        start = depth == 1 ? at : start;
        if (mpack_read(&tokens, &at, &left, &token) != MPACK_OK) return -1;
        switch (token.type) {
        case MPACK_TOKEN_STR:
        case MPACK_TOKEN_BIN:
        case MPACK_TOKEN_EXT:
            if (token.length > left) return -1;
            text = at;
            if (token.length && mpack_read(&tokens, &at, &left, &chunk) != MPACK_OK) return -1;
            break;
        case MPACK_TOKEN_MAP:
        case MPACK_TOKEN_ARRAY:
            if (token.length > left || depth == 32) return -1;
            if (token.length) {
                open[++depth] = token.type == MPACK_TOKEN_MAP ? 2ul * token.length : token.length;
                if (depth == 1) is_key = 1;
                continue;
            }
            break;
        default: break;
        }
        if (depth == 1 && is_key) {
            field = text ? field_of(text, token.length) : OTHER;
        } else if (depth == 1 && field != OTHER && field != PAYLOAD) {
            sum += token.length;
        }
        while (depth && --open[depth] == 0) depth--;
        if (depth <= 1) {
            if (!is_key && field == PAYLOAD) sum += at - start;
            is_key = !is_key;
        }
    } while (depth);
    return left ? -1 : sum;
}

int main(int argc, char **argv) {
    static const struct contender list[] = {{"libmpack", scan_libmpack}};
    return run(argc, argv, list, 1);
}
