"""docs/protocol.schema.json as two questions. Tests ask them of every message that they send or receive."""

import functools
import json
import pathlib
import re

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "protocol.schema.json").read_text("utf-8"))


def check_client(message):
    """Raises AssertionError when a client may not send that. Unknown fields are allowed."""
    _check(message, "client", f"client{_capital(message.get('type'))}" if isinstance(message, dict) else None)


def check_server(message):
    """Raises AssertionError when the hub may not send that: unknown fields are refused too, docs/protocol.md must name them."""
    name = None
    if isinstance(message, dict):
        kind = message.get("type")
        name = f"system{_capital(message.get('event'))}" if kind == "system" else f"server{_capital(kind)}"
    _check(message, "server", name)


def _capital(word):
    return word[:1].upper() + word[1:] if isinstance(word, str) else ""


def _check(message, side, name):
    # By its type first: "is not valid under any of the given schemas" helps nobody.
    assert name in SCHEMA["$defs"], f"the protocol has no such {side} message: {_short(message)}"
    forms, rest = set(), {}
    for key, value in message.items():
        if _is_page(value):
            # Each item by itself: a page of history has hundreds, of a few forms in ever other company.
            items = {(name, key, _form(item)): item for item in value}
            forms |= items.keys()
            rest[key] = [item for form, item in items.items() if form not in _valid_forms] or value[:1]
        else:
            rest[key] = value
    forms.add((name, tuple((key, len(value) if _is_page(value) else _form_of(key, value)) for key, value in message.items())))
    if forms <= _valid_forms:
        return
    error = jsonschema.exceptions.best_match(_validator(name).iter_errors(rest))
    assert error is None, f"{error.json_path}: {error.message}, in the {side} message {_short(message)}"
    assert _validator(f"{side}Message").is_valid(rest), f"not one of the {side} messages: {_short(message)}"
    if len(_valid_forms) < 50_000:
        _valid_forms.update(forms)


# A validation takes milliseconds, of which a test with bots has none: 97 % of test_recovery was spent here. What's the same in every respect
# that the schema asks about is asked once.
_valid_forms = set()


def _form(value):
    """What a schema can tell of the value: words stay, a run of digits becomes one digit and one of letters one letter, beside the length; a number
    is its sign and size; an array is the set of its items' forms, and its size."""
    kind = type(value)
    if kind is dict:
        return tuple((key, _form_of(key, item)) for key, item in value.items())
    if kind is list:
        return len(value), frozenset(map(_form, value))
    if kind is str:
        return value if value.isalpha() and len(value) <= 16 else (_LETTERS.sub("a", _DIGITS.sub("1", value[:80])), len(value))
    if kind is int:
        return value if -2 < value < 2 else (value < 0, value.bit_length())
    return value if kind is bool or value is None else kind


def _is_page(value):
    return type(value) is list and value and type(value[0]) is dict


def _form_of(key, value):
    # A payload is the application's: the schema asks something of an object's fields only.
    return type(value) if key == "payload" and type(value) is not dict else _form(value)


# A zero in front stays: positions may not have one.
_DIGITS, _LETTERS = re.compile("[1-9][0-9]*"), re.compile("[a-z]+")


@functools.cache
def _validator(name):
    return jsonschema.Draft202012Validator({"$schema": SCHEMA["$schema"], "$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def _short(message):
    text = json.dumps(message, ensure_ascii=False)
    return text if len(text) <= 500 else text[:500] + "…"
