// jansson reading one envelope. It makes a tree: the payload has to be written again to be handed on ("lossy" leaves that out).
#include "peers.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static long jansson(const char *text, size_t length, int writes) {
    json_t *root = json_loadb(text, length, 0, NULL);
    if (!root) return -1;
    long sum = 0;
    const char *names[] = {"type", "channel", "messageId"};
    for (int i = 0; i < 3; i++) {
        json_t *value = json_object_get(root, names[i]);
        if (json_is_string(value)) sum += (long)json_string_length(value);
    }
    json_t *id = json_object_get(root, "id");
    if (json_is_integer(id)) sum += json_integer_value(id);
    json_t *payload = json_object_get(root, "payload");
    if (payload && writes) {
        char *dump = json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY);
        sum += (long)strlen(dump);
        free(dump);
    }
    json_decref(root);
    return sum;
}
static long scan_jansson(const char *text, size_t length) { return jansson(text, length, 1); }
static long scan_jansson_lossy(const char *text, size_t length) { return jansson(text, length, 0); }

int main(int argc, char **argv) {
    static const struct contender list[] = {{"jansson-lossy", scan_jansson_lossy}, {"jansson", scan_jansson}};
    return run(argc, argv, list, 2);
}
