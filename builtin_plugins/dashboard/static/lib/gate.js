// The one way to the gateway: a socket for operations and what it tells by itself.

/** What an operation or the connection has come to, in words for people. */
export class Problem extends Error {
  /** @param {{message: string, code?: string, action?: string}} told */
  constructor({ message, code = "", action = "" }) {
    super(message);
    this.code = code;
    this.action = action;
  }
}

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
const RENEW = 3_600_000;
const RETRY = 1_000;
const LEAVE = 200;

/** The path of the gateway, also where it is mounted below another one. */
export const base = location.pathname.replace(/\/ui\/$/, "");

/** Ask for the session: who is logged in, or null.
 * @returns {Promise<{principal: string, scopes: string[]} | null>} */
export async function session() {
  const answer = await fetch(`${base}/v1/session`, { cache: "no-store" });
  if (answer.status === 401) return null;
  return read(answer);
}

/** Log in by a token. @param {string} token */
export async function logIn(token) {
  const answer = await fetch(`${base}/v1/session`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  return read(answer);
}

/** End the session. */
export async function logOut() {
  await fetch(`${base}/v1/session`, { method: "DELETE" });
}

/** @param {Response} answer */
async function read(answer) {
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const { message = `the gateway answered ${answer.status}`, data = {} } = body.error ?? {};
  throw new Problem({ message, ...data });
}

/** A socket that comes back by itself.
 *
 * It tells by events: `state` whenever `state` changes, and those of the gateway by their type, of
 * the types alone that somebody listens for by `hear`: what nobody shows costs the gateway nothing.
 * `generation` grows with each connection, so that whoever shows something asks again.
 */
export class Gate extends EventTarget {
  /** "connecting", "open", "away", or "out" where a login is needed. */
  state = "connecting";
  generation = 0;
  /** @type {{principal: string, scopes: string[], version: string} | null} */
  hello = null;
  #next = 1;
  #pause = FIRST_PAUSE;
  #waiting = new Map();
  /** @type {Map<string, number>} how many listen for each type */
  #wanted = new Map();
  #follows = { id: "", types: "", busy: false };
  /** @type {WebSocket | null} */
  #socket = null;

  constructor() {
    super();
    setInterval(() => this.state === "open" && session().catch(() => null), RENEW);
  }

  /** Connect, and again whenever the connection is lost. */
  async connect() {
    this.#set("connecting");
    try {
      if ((await session()) === null) {
        // A cookie that counts no more shuts out nobody who needs none.
        await logOut();
        if ((await session()) === null) return this.#set("out");
      }
    } catch {
      return this.#later();
    }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${base}/ws`);
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    socket.onclose = () => this.#lost();
  }

  /** Whether whoever is logged in has a scope. @param {string | null} scope */
  may(scope) {
    return scope === null || Boolean(this.hello?.scopes.includes(scope));
  }

  /** Do an operation. @param {string} method @param {object} params */
  call(method, params = {}) {
    const { id, result } = this.stream(method, params);
    // Nothing follows its answer, which is not kept.
    const forget = () => this.forget(id);
    result.then(forget, forget);
    return result;
  }

  /** Do an operation whose events go to `each`.
   * @param {string} method @param {object} params
   * @param {(type: string, data: any) => void} each
   * @returns {{id: string, result: Promise<any>}} */
  stream(method, params = {}, each = () => {}) {
    const id = `p${this.#next++}`;
    const result = new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== WebSocket.OPEN) {
        return reject(new Problem({ message: "The gateway is away.", code: "away" }));
      }
      this.#waiting.set(id, { resolve, reject, each });
      this.#socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
    return { id, result };
  }

  /** Stop listening to a request's events. @param {string} id */
  forget(id) {
    this.#waiting.delete(id);
  }

  #take(frame) {
    if (frame.method === "hello") {
      this.hello = frame.params;
      this.generation += 1;
      this.#pause = FIRST_PAUSE;
      this.#follows = { id: "", types: "", busy: false };
      this.#set("open");
      return this.#follow();
    }
    if (frame.method) {
      const { request, ...data } = frame.params ?? {};
      const waiting = this.#waiting.get(request);
      if (frame.method === "done") this.#waiting.delete(request);
      return waiting?.each(frame.method, data);
    }
    const waiting = this.#waiting.get(frame.id);
    if (!waiting) return;
    if (frame.error) {
      this.#waiting.delete(frame.id);
      const { message, data = {} } = frame.error;
      return waiting.reject(new Problem({ message, ...data }));
    }
    waiting.resolve(frame.result);
  }

  /** Listen for events of the gateway. @param {string[]} types @param {(event: any) => void} heard a `CustomEvent`
   * @returns {() => void} what ends it */
  hear(types, heard) {
    const count = (type, by) => this.#wanted.set(type, (this.#wanted.get(type) ?? 0) + by);
    for (const type of types) {
      this.addEventListener(type, heard);
      count(type, 1);
    }
    queueMicrotask(() => this.#follow());
    return () => {
      for (const type of types) {
        this.removeEventListener(type, heard);
        count(type, -1);
      }
      // The next view may listen for the same.
      setTimeout(() => this.#follow(), LEAVE);
    };
  }

  /** Follow what is listened for, and no longer what was: no event is missed, none is told twice. */
  async #follow() {
    if (this.#follows.busy) return;
    const follows = this.#follows = { ...this.#follows };
    follows.busy = true;
    try {
      for (;;) {
        const types = [...this.#wanted].filter(([, count]) => count > 0).map(([type]) => type).sort();
        if (this.state !== "open" || !this.may("read") || types.join() === follows.types) return;
        const before = follows.id;
        let id = "";
        if (types.length) {
          const asked = this.stream("events.subscribe", { types }, (method, event) =>
            method === "event" && follows.id === asked.id && this.dispatchEvent(new CustomEvent(event.type, { detail: event })));
          await asked.result;
          id = asked.id;
        }
        Object.assign(follows, { id, types: types.join() });
        if (before) await this.call("events.unsubscribe", { request: before });
        this.forget(before);
      }
    } catch {
      // As many turns of this page run as may: until there is room, the former one goes on.
      setTimeout(() => this.#follow(), RETRY);
    } finally {
      follows.busy = false;
    }
  }

  #lost() {
    this.#socket = null;
    const lost = new Problem({ message: "The connection was lost.", code: "away" });
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
    this.#later();
  }

  #later() {
    this.#set("away");
    setTimeout(() => this.connect(), this.#pause * (0.8 + 0.4 * Math.random()));
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #set(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}
