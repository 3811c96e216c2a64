// simdjson (C++) reading one envelope, in both of its ways.
#include "peers.h"
#include <simdjson.h>

using namespace simdjson;

// "On demand" finds the payload's bytes, but checks only the UTF-8 and the brackets of what it skips: `{"a":tru}` passes.
static long scan_simdjson_ondemand(const char *text, size_t length) {
    static ondemand::parser parser;
    ondemand::document document;
    if (parser.iterate(text, length, length + PADDING).get(document)) return -1;
    ondemand::object object;
    if (document.get_object().get(object)) return -1;
    long sum = 0;
    for (auto field : object) {
        std::string_view key;
        if (field.unescaped_key().get(key)) return -1;
        if (key == "payload") {
            ondemand::object payload;
            std::string_view raw;
            if (field.value().get_object().get(payload) || payload.raw_json().get(raw)) return -1;
            sum += long(raw.size());
        } else if (key == "id") {
            int64_t id;
            if (field.value().get_int64().get(id)) return -1;
            sum += id;
        } else if (key == "type" || key == "channel" || key == "messageId") {
            std::string_view value;
            if (field.value().get_string().get(value)) return -1;
            sum += long(value.size());
        }
    }
    // No token may follow.
    return document.current_location().error() == OUT_OF_BOUNDS ? sum : -1;
}

// The tree checks everything, and forgets where the payload stood: it has to be written again.
static long scan_simdjson_dom(const char *text, size_t length) {
    static dom::parser parser;
    dom::element root;
    if (parser.parse(text, length, false).get(root)) return -1;
    long sum = 0;
    for (const char *name : {"type", "channel", "messageId"}) {
        std::string_view value;
        if (!root[name].get(value)) sum += long(value.size());
    }
    int64_t id;
    if (!root["id"].get(id)) sum += id;
    dom::element payload;
    if (!root["payload"].get(payload)) sum += long(minify(payload).size());
    return sum;
}

int main(int argc, char **argv) {
    static const struct contender list[] = {{"simdjson-ondemand", scan_simdjson_ondemand}, {"simdjson-dom", scan_simdjson_dom}};
    return run(argc, argv, list, 2);
}
