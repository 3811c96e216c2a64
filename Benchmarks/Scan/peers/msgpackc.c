// msgpack-c reading one envelope: a tree in a zone that is used again. A tree has no places, so handing the payload on means writing it
// again. Strings aren't checked to be UTF-8.
#include "peers.h"
#include <msgpack.h>
#include <string.h>

static msgpack_zone zone;
static msgpack_sbuffer out;

static int is(const msgpack_object *key, const char *name, size_t length) {
    return key->type == MSGPACK_OBJECT_STR && key->via.str.size == length && !memcmp(key->via.str.ptr, name, length);
}

static long scan_msgpackc(const char *bytes, size_t length) {
    msgpack_object root;
    size_t offset = 0;
    msgpack_zone_clear(&zone);
    if (msgpack_unpack(bytes, length, &offset, &zone, &root) != MSGPACK_UNPACK_SUCCESS || offset != length) return -1;
    if (root.type != MSGPACK_OBJECT_MAP) return -1;
    long sum = 0;
    for (uint32_t i = 0; i < root.via.map.size; i++) {
        msgpack_object_kv *field = &root.via.map.ptr[i];
        if (is(&field->key, "type", 4) || is(&field->key, "channel", 7) || is(&field->key, "messageId", 9)) {
            sum += (long)field->val.via.str.size;
        } else if (is(&field->key, "id", 2)) {
            sum += (long)field->val.via.u64;
        } else if (is(&field->key, "payload", 7)) {
            msgpack_packer packer;
            msgpack_sbuffer_clear(&out);
            msgpack_packer_init(&packer, &out, msgpack_sbuffer_write);
            msgpack_pack_object(&packer, field->val);
            sum += (long)out.size;
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    static const struct contender list[] = {{"msgpack-c", scan_msgpackc}};
    msgpack_zone_init(&zone, 2048);
    msgpack_sbuffer_init(&out);
    return run(argc, argv, list, 1);
}
