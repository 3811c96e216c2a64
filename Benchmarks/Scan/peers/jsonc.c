// json-c reading one envelope: a tree, as jansson. A program of its own, since the two share names.
#include "peers.h"
#include <json-c/json.h>
#include <string.h>

static long jsonc(const char *text, size_t length, int writes) {
    static struct json_tokener *tokener;
    if (!tokener) {
        tokener = json_tokener_new_ex(32);
        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    }
    json_tokener_reset(tokener);
    struct json_object *root = json_tokener_parse_ex(tokener, text, (int)length);
    if (!root) return -1;
    long sum = 0;
    const char *names[] = {"type", "channel", "messageId"};
    struct json_object *value;
    for (int i = 0; i < 3; i++)
        if (json_object_object_get_ex(root, names[i], &value)) sum += json_object_get_string_len(value);
    if (json_object_object_get_ex(root, "id", &value)) sum += json_object_get_int64(value);
    if (writes && json_object_object_get_ex(root, "payload", &value))
        sum += (long)strlen(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
    return sum;
}
static long scan_jsonc(const char *text, size_t length) { return jsonc(text, length, 1); }
static long scan_jsonc_lossy(const char *text, size_t length) { return jsonc(text, length, 0); }

int main(int argc, char **argv) {
    static const struct contender list[] = {{"json-c-lossy", scan_jsonc_lossy}, {"json-c", scan_jsonc}};
    return run(argc, argv, list, 2);
}
