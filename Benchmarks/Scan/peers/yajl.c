// yajl reading one envelope. Events: it keeps the payload opaque: only its first and last byte are noted.
#include "peers.h"
#include <string.h>
#include <yajl/yajl_parse.h>

struct yajl_state {
    yajl_handle handle;
    int depth;
    int field;
    size_t payload_start, payload_end;
    long sum;
};

enum { OTHER, TYPE, ID, CHANNEL, MESSAGE_ID, PAYLOAD };

static int field_of(const char *key, size_t length) {
    if (length == 4 && !memcmp(key, "type", 4)) return TYPE;
    if (length == 2 && !memcmp(key, "id", 2)) return ID;
    if (length == 7 && !memcmp(key, "channel", 7)) return CHANNEL;
    if (length == 9 && !memcmp(key, "messageId", 9)) return MESSAGE_ID;
    if (length == 7 && !memcmp(key, "payload", 7)) return PAYLOAD;
    return OTHER;
}

static int y_value(struct yajl_state *s) {
    if (s->depth == 1 && s->field == PAYLOAD) s->payload_end = yajl_get_bytes_consumed(s->handle);
    return 1;
}
static int y_open(void *context) {
    struct yajl_state *s = context;
    if (s->depth == 1 && s->field == PAYLOAD) s->payload_start = yajl_get_bytes_consumed(s->handle) - 1;
    return ++s->depth <= 32;
}
static int y_close(void *context) {
    struct yajl_state *s = context;
    s->depth--;
    return y_value(s);
}
static int y_key(void *context, const unsigned char *key, size_t length) {
    struct yajl_state *s = context;
    if (s->depth == 1) s->field = field_of((const char *)key, length);
    return 1;
}
static int y_string(void *context, const unsigned char *text, size_t length) {
    struct yajl_state *s = context;
    (void)text;
    if (s->depth == 1 && s->field != OTHER) s->sum += (long)length;
    return y_value(s);
}
static int y_number(void *context, const char *text, size_t length) {
    return y_string(context, (const unsigned char *)text, length);
}
static int y_bool(void *context, int value) {
    (void)value;
    return y_value(context);
}
static int y_null(void *context) { return y_value(context); }

static const yajl_callbacks callbacks = {y_null, y_bool, NULL, NULL, y_number, y_string, y_open, y_key, y_close, y_open, y_close};

static long scan_yajl(const char *text, size_t length) {
    struct yajl_state state = {0};
    // There is no reset: a handle serves one text.
    state.handle = yajl_alloc(&callbacks, NULL, &state);
    yajl_config(state.handle, yajl_dont_validate_strings, 1);
    int isGood = yajl_parse(state.handle, (const unsigned char *)text, length) == yajl_status_ok &&
                 yajl_complete_parse(state.handle) == yajl_status_ok;
    yajl_free(state.handle);
    return isGood ? state.sum + (long)(state.payload_end - state.payload_start) : -1;
}

int main(int argc, char **argv) {
    static const struct contender list[] = {{"yajl", scan_yajl}};
    return run(argc, argv, list, 1);
}
