"""docs/protocol.schema.json as two questions. Tests ask them of every message that they send or receive."""

import functools
import json
import pathlib

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
    error = jsonschema.exceptions.best_match(_validator(name).iter_errors(message))
    assert error is None, f"{error.json_path}: {error.message}, in the {side} message {_short(message)}"
    assert _validator(f"{side}Message").is_valid(message), f"not one of the {side} messages: {_short(message)}"


@functools.cache
def _validator(name):
    return jsonschema.Draft202012Validator({"$schema": SCHEMA["$schema"], "$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def _short(message):
    text = json.dumps(message, ensure_ascii=False)
    return text if len(text) <= 500 else text[:500] + "…"
