// node's `ws` through what a client does in its life. Arguments: URL of the hub (ws:// or wss://), "deflate" or "plain", the largest message's
// bytes, and for wss the file of the authority. Ends with 0 and "done", or throws.
"use strict";
const assert = require("assert");
const fs = require("fs");
const WebSocket = require("ws");

const [url, compression, limitText, ca] = process.argv.slice(2);
const limit = Number(limitText);
const options = { perMessageDeflate: compression === "deflate", ca: ca && fs.readFileSync(ca), maxPayload: 4 * limit };

/** A connection whose messages, pongs and end are waited for one after the other. */
class Link {
  constructor(user, protocol) {
    this.events = [];
    this.waiting = [];
    this.socket = new WebSocket(`${url}/v1/ws?user=${user}`, [protocol], options);
    const note = (event) => (this.waiting.length ? this.waiting.shift()(event) : this.events.push(event));
    this.socket.on("message", (data, isBinary) => note({ data, isBinary }));
    this.socket.on("pong", (data) => note({ pong: data.toString() }));
    this.socket.on("close", (code, reason) => note({ code, reason: reason.toString() }));
    this.socket.on("error", (error) => note({ error }));
  }

  next() {
    if (this.events.length) return Promise.resolve(this.events.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  async envelope(fits) {
    for (;;) {
      const event = await this.next();
      assert(event.data, JSON.stringify(event, (_, value) => (value instanceof Error ? String(value) : value)));
      const envelope = JSON.parse(event.data.toString());
      if (fits(envelope)) return envelope;
    }
  }

  async open() {
    const welcome = await this.envelope((e) => e.event === "welcome");
    assert.strictEqual(welcome.limits.messageBytes, limit);
    assert.strictEqual(this.socket.extensions.includes("permessage-deflate"), compression === "deflate");
    return this;
  }

  async request(envelope, sent) {
    (sent || ((text) => this.socket.send(text)))(JSON.stringify(envelope));
    return this.envelope((e) => e.id === envelope.id);
  }
}

/** A chat whose envelope has exactly this many bytes. */
function chat(id, bytes) {
  const envelope = { type: "chat", id, channel: "room:ws", payload: "" };
  envelope.payload = "ü" + "x".repeat(bytes - Buffer.byteLength(JSON.stringify(envelope)) - 2);
  return envelope;
}

async function main() {
  const link = await new Link("node", "hub.v1.json").open();
  assert.strictEqual(link.socket.protocol, "hub.v1.json");
  assert.strictEqual((await link.request({ type: "subscribe", id: 1, channel: "room:ws" })).type, "ack");

  // Text, and its way back.
  link.socket.send(JSON.stringify({ type: "chat", id: 2, channel: "room:ws", payload: { text: "größer 世界 😀" } }));
  const received = await link.envelope((e) => e.type === "chat");
  assert.strictEqual(received.payload.text, "größer 世界 😀");

  // The same in three fragments, the second one cut within a character, a ping in between.
  const bytes = Buffer.from(JSON.stringify({ type: "chat", id: 3, channel: "room:ws", payload: { text: "世" } }));
  const cut = bytes.indexOf(0xe4) + 1;
  const asText = { binary: false, compress: compression === "deflate" };
  link.socket.send(bytes.subarray(0, 5), { ...asText, fin: false });
  link.socket.send(bytes.subarray(5, cut), { ...asText, fin: false });
  link.socket.ping("between");
  link.socket.send(bytes.subarray(cut), { ...asText, fin: true });
  let sawPong = false;
  for (let text; text !== "世"; ) {
    const event = await link.next();
    if (event.pong !== undefined) {
      assert.strictEqual(event.pong, "between");
      sawPong = true;
    } else if (event.data) {
      const envelope = JSON.parse(event.data.toString());
      if (envelope.type === "chat") text = envelope.payload.text;
    } else assert.fail(JSON.stringify(event));
  }
  assert(sawPong);

  // A message of exactly the limit is one like any other.
  const largest = chat(4, limit);
  assert.strictEqual(Buffer.byteLength(JSON.stringify(largest)), limit);
  link.socket.send(JSON.stringify(largest));
  assert.strictEqual((await link.envelope((e) => e.type === "chat")).payload, largest.payload);

  // A clean close is answered with its own code.
  link.socket.close(1000, "bye");
  let end = await link.next();
  while (end.code === undefined) end = await link.next();
  assert.strictEqual(end.code, 1000);

  // One byte more ends the connection, whole or in fragments.
  for (const inFragments of [false, true]) {
    const large = await new Link("large", "hub.v1.json").open();
    const text = JSON.stringify(chat(5, limit + 1));
    if (inFragments) {
      for (let start = 0; start < text.length; start += 65536) {
        large.socket.send(text.slice(start, start + 65536), { fin: start + 65536 >= text.length });
      }
    } else large.socket.send(text);
    const end = await large.next();
    assert.strictEqual(end.code, 1009, JSON.stringify(end));
  }

  // MessagePack in binary messages; a text there is refused.
  const packed = new Link("packed", "hub.v1.msgpack");
  const welcome = await packed.next();
  assert(welcome.isBinary && welcome.data.includes("welcome"));
  packed.socket.send(Buffer.concat([Buffer.from([0x82, 0xa4]), Buffer.from("type"), Buffer.from([0xa4]), Buffer.from("ping"), Buffer.from([0xa2]), Buffer.from("id"), Buffer.from([7])]));
  const pong = await packed.next();
  assert(pong.isBinary && pong.data.includes("pong"));
  packed.socket.send("text");
  assert.strictEqual((await packed.next()).code, 1003);
  console.log("done");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
