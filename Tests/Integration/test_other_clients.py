"""Other people's clients through a connection's life: node's ws and aiohttp, over ws and wss, with permessage-deflate and without. (Python's
websockets, curl and Chromium are the clients of the other tests.)"""

import asyncio
import json
import os
import pathlib
import shutil
import subprocess

import msgpack
import pytest

from certificates import Certificate, secure_settings, trusting
from hub import Hub, free_port, running

LIMIT = 1024 * 1024
CLIENTS = pathlib.Path(__file__).parent / "clients"

both_schemes = pytest.mark.parametrize("scheme", ["ws", "wss"])
both_compressions = pytest.mark.parametrize("compression", ["deflate", "plain"])


@pytest.fixture(scope="module")
def certificate(folder):
    return Certificate(folder, "clients", "localhost")


@pytest.fixture(scope="module")
def hub(folder, certificate):
    port = free_port()
    settings = secure_settings(port, certificate, **{"limits.messageBytes": "1MB", "limits.bodyBytes": "2MB", "limits.outboundBytes": "8MB"})
    with running(Hub(folder, name="clients", settings=settings)) as node:
        node.addresses = {"ws": f"ws://127.0.0.1:{node.port}", "wss": f"wss://localhost:{port}"}
        yield node


@both_schemes
@both_compressions
def test_node_ws(hub, certificate, scheme, compression):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node or not any(pathlib.Path(place, "ws").exists() for place in ("/usr/share/nodejs", "/usr/lib/nodejs")):
        pytest.skip("NO NODE CLIENT IS TESTED HERE: Debian's packages nodejs and node-ws are missing (scripts/test installs them)")
    told = subprocess.run(
        [node, CLIENTS / "ws.js", hub.addresses[scheme], compression, str(LIMIT), *([certificate.cert] if scheme == "wss" else [])],
        capture_output=True, text=True, timeout=60, env={**os.environ, "NODE_PATH": "/usr/share/nodejs:/usr/lib/nodejs"})
    assert told.returncode == 0 and told.stdout == "done\n", told.stdout + told.stderr


aiohttp = pytest.importorskip("aiohttp", reason="NO AIOHTTP CLIENT IS TESTED HERE: the package is missing (Tests/Integration/requirements.txt)")


class Link:
    """One connection of aiohttp's, opened and welcomed."""

    def __init__(self, session, address, user, compression, protocol="hub.v1.json", **options):
        self.opening = session.ws_connect(
            f"{address}/v1/ws?user={user}", protocols=[protocol], compress=15 if compression == "deflate" else 0, autoping=False,
            max_msg_size=4 * LIMIT, **options)
        self.compression = compression

    async def __aenter__(self):
        self.socket = await self.opening
        welcome = await self.receive()
        assert welcome["event"] == "welcome" and welcome["limits"]["messageBytes"] == LIMIT
        assert bool(self.socket.compress) == (self.compression == "deflate")
        return self

    async def __aexit__(self, *_):
        await self.socket.close()

    async def receive(self):
        message = await asyncio.wait_for(self.socket.receive(), 10)
        assert message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY), message
        return json.loads(message.data) if message.type == aiohttp.WSMsgType.TEXT else msgpack.unpackb(message.data)

    async def pong(self):
        # The chat's ack may come before it.
        while (message := await asyncio.wait_for(self.socket.receive(), 10)).type == aiohttp.WSMsgType.TEXT:
            pass
        assert message.type == aiohttp.WSMsgType.PONG, message
        return message.data

    async def expect(self, type):
        while True:
            envelope = await self.receive()
            if envelope["type"] == type:
                return envelope

    async def end(self):
        # The frame's own code: `close_code` becomes 1006 when the server's end of the stream comes before aiohttp's own close has left.
        message = await asyncio.wait_for(self.socket.receive(), 10)
        assert message.type == aiohttp.WSMsgType.CLOSE, message
        return message.data


def chat(number, size):
    """The text of a chat that has exactly `size` bytes."""
    envelope = {"type": "chat", "id": number, "channel": "room:aiohttp", "payload": ""}
    envelope["payload"] = "ü" + "x" * (size - len(json.dumps(envelope)) - 2)
    text = json.dumps(envelope, ensure_ascii=False)
    assert len(text.encode()) == size
    return text


@both_schemes
@both_compressions
def test_aiohttp(hub, certificate, scheme, compression):
    address = hub.addresses[scheme]
    options = {"ssl": trusting(certificate)} if scheme == "wss" else {}

    async def live():
        async with aiohttp.ClientSession() as session:
            async with Link(session, address, "aio", compression, **options) as link:
                assert link.socket.protocol == "hub.v1.json"
                await link.socket.send_json({"type": "subscribe", "id": 1, "channel": "room:aiohttp"})
                assert (await link.expect("ack"))["id"] == 1
                await link.socket.send_json({"type": "chat", "id": 2, "channel": "room:aiohttp", "payload": {"text": "größer 世界 😀"}})
                assert (await link.expect("chat"))["payload"]["text"] == "größer 世界 😀"
                await link.socket.ping(b"are you there")
                assert await link.pong() == b"are you there"
                # A message of exactly the limit is one like any other.
                largest = chat(3, LIMIT)
                await link.socket.send_str(largest)
                assert (await link.expect("chat"))["payload"] == json.loads(largest)["payload"]
                # A clean close is answered with its own code.
                assert await link.socket.close(code=1000, message=b"bye")
                assert link.socket.close_code == 1000
            async with Link(session, address, "large", compression, **options) as link:
                await link.socket.send_str(chat(4, LIMIT + 1))
                assert await link.end() == 1009
            # MessagePack in binary messages; a text there is refused.
            async with Link(session, address, "packed", compression, protocol="hub.v1.msgpack", **options) as link:
                assert link.socket.protocol == "hub.v1.msgpack"
                await link.socket.send_bytes(msgpack.packb({"type": "ping", "id": 7}))
                assert (await link.receive())["type"] == "pong"
                await link.socket.send_str("text")
                assert await link.end() == 1003

    asyncio.run(live())
