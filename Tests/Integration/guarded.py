"""A node as in production: tokens, API keys, origins."""

import json

from hub import Hub

KEY = "a key of at least thirty-two bytes for these tests"
PAGE = "https://app.example.com"
API_KEY = "test"


def guarded_hub(folder, **deadlines):
    """`deadlines`: those of its connections, where the defaults are too long for a test."""
    config = folder / "guarded.json5"
    config.write_text(json.dumps({
        "auth": {"keys": [{"alg": "HS256", "secret": KEY}], "origins": [PAGE]},
        "api": {"keys": [{"id": "test", "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "scopes": ["admin"]}]},
        "deadlines": deadlines}))
    config.chmod(0o600)
    node = Hub(folder, dev=False, config=config)
    node.api_key = API_KEY
    return node
