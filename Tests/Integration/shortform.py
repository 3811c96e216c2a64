"""The short form of MessagePack, by the tables of docs/vectors/short.json and PyPI's msgpack: an implementation that isn't ours."""

import json
import pathlib

import msgpack

TABLES = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs/vectors/short.json").read_text())
FIELDS, WORDS, WORDED = TABLES["fields"], TABLES["words"], TABLES["worded"]


def pack(envelope):
    return msgpack.packb(_shorten(envelope))


def unpack(message):
    return _lengthen(msgpack.unpackb(message, strict_map_key=False))


def _shorten(value):
    if isinstance(value, list):
        return [_shorten(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {FIELDS.index(name) if name in FIELDS else name: _number(name, element) for name, element in value.items()}


def _number(name, value):
    if name == "payload":
        return value
    if name == "channels" and isinstance(value, dict):
        # By channel: a channel may be named as a field is.
        return {channel: _shorten(entry) for channel, entry in value.items()}
    if name in WORDED and value in WORDS:
        return WORDS.index(value)
    return _shorten(value)


def _lengthen(value):
    if isinstance(value, list):
        return [_lengthen(element) for element in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, element in value.items():
        name = FIELDS[key] if isinstance(key, int) else key
        if name == "payload" and isinstance(key, int):
            found[name] = element
        elif isinstance(key, int) and name in WORDED and isinstance(element, int):
            found[name] = WORDS[element]
        else:
            found[name] = _lengthen(element)
    return found
