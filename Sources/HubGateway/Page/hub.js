"use strict";
// A client in plain JavaScript, to be copied. It knows nothing of the page it's on. The contract is docs/protocol.md.

/** What a close code asks of a client (protocol: close codes). One that isn't here: come back with backoff. */
const afterClose = {
  1000: "stop", 1002: "stop", 1003: "stop", 1007: "stop", 1008: "stop", 1009: "stop", 4001: "stop", 4003: "stop",
  4002: "now", 4008: "now", 4011: "now",        // a new token, or a resume, at once
  1012: "told", 1013: "told", 4009: "told",     // not before the number of milliseconds in the reason
};

/**
 * One connection to a hub, kept alive: reconnects, subscribes again from its last positions, watches again, and sends again what was
 * not acknowledged, under the same message id, so that nothing is lost and nothing comes twice.
 *
 * `on` holds callbacks, all optional: state(name, detail), publication(p), signal(p) for typing and read, presence(change), gap(channel),
 * members(channel, {users, occupancy}, change): who is there (user → devices), and what made it so, null for a whole list.
 * `token` is an async function for hubs that want one (a hub in development mode takes ?user= in the URL).
 */
class HubConnection {
  #socket = null;
  #requestId = 0;
  #requests = new Map();        // request id → {resolve, reject}: gone with the socket
  #unacked = new Map();         // message id → {envelope, resolve, reject}: survives it
  #channels = new Map();        // channel → last position, or null
  #members = new Map();         // channel whose members are followed → {users, occupancy, sequence}, or null
  #watched = new Set();
  #versions = new Map();        // user → version: an older presence never overwrites a newer one
  #seen = new Set();            // message ids of late, to drop what comes twice
  #status = null;
  #failures = 0;
  #openedAt = 0;
  #timers = {};

  constructor(url, { on = {}, token = null } = {}) { Object.assign(this, { url, on, token }); }

  open() {
    clearTimeout(this.#timers.retry);
    this.#state("connecting");
    const socket = this.#socket = new WebSocket(this.url, "hub.v1.json");
    socket.onopen = async () => { if (this.token) this.#send({ type: "connect", token: await this.token() }); };
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => this.#closed(event.code, event.reason);
    this.#expectLife(10_000);   // to the welcome; the browser alone would wait for minutes
  }

  /** Goodbye: offline at once, without the grace period of a lost connection. */
  leave() {
    if (this.#socket?.readyState === WebSocket.OPEN) { this.#send({ type: "leave" }); this.#socket.close(1000); }
    this.#closed(1000, "");
  }

  /** `members`: who is in the channel too, and who comes and goes. */
  async subscribe(channel, { members = false } = {}) {
    this.#channels.set(channel, null);
    if (members) this.#members.set(channel, null);
    if (this.online) await this.#subscribeNow(channel).catch((error) => { if (!error.lost) throw error; });
  }

  /** A chat or event. Resolves with its ack, however many connections that takes; rejects when the hub refuses it for good. */
  publish(type, channel, payload, messageId = randomId()) {
    return new Promise((resolve, reject) => {
      const entry = { envelope: { type, channel, messageId, payload }, since: this.#channels.get(channel), resolve, reject };
      this.#unacked.set(messageId, entry);
      if (this.online) this.#publishNow(entry);
    });
  }

  /** Typing or read: worth nothing later, so it's dropped while there is no connection. */
  signal(type, channel, payload) { if (this.online) this.#send({ type, channel, payload }); }

  watch(user) {
    this.#watched.add(user);
    if (this.online) this.#watchNow([user]);
  }

  presence(status) {
    this.#status = status;
    if (this.online) this.#send({ type: "presence", payload: { status } });
  }

  // Below: how it is done.

  #state(name, detail) {
    this.online = name === "online";
    this.on.state?.(name, detail);
  }

  #send(envelope) { if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(envelope)); }

  #request(envelope) {
    return new Promise((resolve, reject) => {
      const id = ++this.#requestId;
      this.#requests.set(id, { resolve, reject });
      this.#send({ ...envelope, id });
    });
  }

  #receive(envelope) {
    this.#expectLife(this.ping ? this.ping + 10_000 : 10_000);
    switch (envelope.type) {
      case "ack": return this.#settle(envelope, "resolve");
      case "error": return this.#settle(envelope, "reject");
      case "chat": case "event": return this.#publication(envelope);
      case "typing": case "read": return this.on.signal?.(envelope);
      case "presence": return envelope.changes.forEach((change) => this.#change(change));
      case "members": return this.#membersChanged(envelope);
      case "system": return this.#system(envelope);
    }                           // unknown types come from newer hubs: ignored
  }

  #settle(envelope, how) {
    const request = this.#requests.get(envelope.id);
    this.#requests.delete(envelope.id);
    request?.[how](envelope);
  }

  async #system(envelope) {
    if (envelope.event === "welcome") return this.#welcome(envelope);
    if (envelope.event === "degraded") return this.on.state?.("degraded", envelope.reason);
    if (envelope.event === "restored") return this.on.state?.("online");
    if (envelope.event === "resync") {
      this.#channels.set(envelope.channel, envelope.position);
      this.on.gap?.(envelope.channel);
    }
  }

  async #welcome(welcome) {
    const socket = this.#socket;
    this.#openedAt = Date.now();
    this.#failures = 0;
    this.ping = welcome.ping;
    // A page can't see the WebSocket's own pings; this one has an answer, so that a silent link is noticed.
    clearInterval(this.#timers.ping);
    this.#timers.ping = setInterval(() => this.#send({ type: "ping" }), welcome.ping);
    try {
      await this.#subscribeNow(...this.#channels.keys());
    } catch (error) {
      if (error.retry) { socket.close(3000, "retry"); this.#closed(3000, "retry"); }
      else if (!error.lost) this.on.state?.("refused", error.message);
      return;
    }
    if (socket !== this.#socket) return;    // lost again meanwhile
    if (this.#watched.size) this.#watchNow([...this.#watched]);
    if (this.#status && this.#status !== "online") this.#send({ type: "presence", payload: { status: this.#status } });
    this.#state("online", welcome);
    this.#unacked.forEach((entry) => this.#publishNow(entry));
  }

  /** All in one request; each from its last position on, so that what was missed comes with the answer. */
  async #subscribeNow(...names) {
    if (!names.length) return;
    const channels = names.map((channel) => ({ channel, ...(this.#channels.get(channel) && { position: this.#channels.get(channel) }) }));
    const ack = await this.#request({ type: "subscribe", channels, ...(names.some((name) => this.#members.has(name)) && { members: true }) });
    for (const entry of ack.channels) {
      if (entry.code) throw entry;
      if (entry.members) this.#listed(entry);
      await this.#caughtUp(entry);
    }
  }

  /** Takes a page of what was missed, and asks on until there is no more: only then does the hub deliver live. */
  async #caughtUp(page) {
    for (;;) {
      if (page.recovered === false) this.on.gap?.(page.channel);
      page.publications?.forEach((missed) => this.#publication(missed));
      this.#channels.set(page.channel, page.position);
      if (!page.more) return;
      page = await this.#request({ type: "history", channel: page.channel, since: page.position });
    }
  }

  /** A whole list: of an ack, or of a message that brings one. */
  #listed(page) {
    const list = { users: new Map(page.members.map(({ user, devices }) => [user, devices])), occupancy: page.occupancy, sequence: page.sequence };
    if (!this.#members.has(page.channel)) return;
    this.#members.set(page.channel, list);
    this.on.members?.(page.channel, list, null);
  }

  async #membersChanged(change) {
    const list = this.#members.get(change.channel);
    if (change.members) return this.#listed(change);
    if (!list || list.isAsking) return;     // the list that's on its way has it, or its successor follows
    if (change.mode === "counts") {
      Object.assign(list, { occupancy: change.occupancy, sequence: change.sequence });
      return this.on.members?.(change.channel, list, change);
    }
    if (change.previous !== list.sequence) {    // left out while this client was slow
      list.isAsking = true;
      try { this.#listed(await this.#request({ type: "members", channel: change.channel })); } catch { list.isAsking = false; }
      return;
    }
    for (const { user, devices } of [...(change.joined ?? []), ...(change.updated ?? [])]) list.users.set(user, devices);
    for (const user of change.left ?? []) list.users.delete(user);
    Object.assign(list, { occupancy: change.occupancy, sequence: change.sequence });
    this.on.members?.(change.channel, list, change);
  }

  #publication(publication) {
    this.#channels.set(publication.channel, publication.position);
    if (this.#seen.has(publication.messageId)) return;
    this.#seen.add(publication.messageId);
    if (this.#seen.size > 1000) this.#seen.delete(this.#seen.values().next().value);
    this.on.publication?.(publication);
  }

  async #publishNow(entry) {
    try {
      // A retry says how old it is and where the channel stood: after the hub has forgotten its id, history settles it.
      const again = entry.sentAt && { age: Math.round(performance.now() - entry.sentAt), ...(entry.since && { since: entry.since }) };
      entry.sentAt ??= performance.now();
      const ack = await this.#request({ ...entry.envelope, ...again });
      this.#unacked.delete(entry.envelope.messageId);
      entry.resolve(ack);
    } catch (error) {
      if (error.lost) return;               // the next welcome sends it again
      if (error.retry) return setTimeout(() => this.online && this.#publishNow(entry), error.retryAfter ?? 2000 * (0.5 + Math.random()));
      this.#unacked.delete(entry.envelope.messageId);
      entry.reject(error);
    }
  }

  async #watchNow(users) {
    try { (await this.#request({ type: "watch", users })).users.forEach((change) => this.#change(change)); } catch { /* the next welcome asks again */ }
  }

  #change(change) {
    if (change.version < (this.#versions.get(change.user) ?? 0)) return;
    this.#versions.set(change.user, change.version);
    this.on.presence?.(change);
  }

  /** Anything received proves life; without it for so long the link is dead, whatever the browser believes. */
  #expectLife(milliseconds) {
    clearTimeout(this.#timers.life);
    this.#timers.life = setTimeout(() => { this.#socket?.close(3000, "silent"); this.#closed(3000, "silent"); }, milliseconds);
  }

  #closed(code, reason) {
    if (!this.#socket) return;
    this.#socket.onmessage = this.#socket.onclose = this.#socket.onopen = null;
    this.#socket = null;
    clearTimeout(this.#timers.life);
    clearInterval(this.#timers.ping);
    this.#requests.forEach((request) => request.reject({ lost: true }));
    this.#requests.clear();
    const what = afterClose[code] ?? "backoff";
    if (what === "stop") return this.#state("stopped", { code, reason });
    // Full jitter: a thousand clients that lost one node don't all knock in the same instant. "now" only after a life of some
    // seconds, else a hub that closes at once would be hammered.
    let wait = Math.random() * Math.min(30_000, 500 * 2 ** this.#failures++);
    if (what === "now" && Date.now() - this.#openedAt > 5_000) wait = 0;
    if (what === "told") wait = code === 1012 ? Number(reason) || wait : wait + (Number(reason) || 0);
    this.#state("waiting", { code, reason, wait });
    this.#timers.retry = setTimeout(() => this.open(), wait);
  }
}

function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
