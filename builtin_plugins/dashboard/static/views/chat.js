// A chat as any client has it: the answer as it comes, what the model called, what it cost.

import { Button, Command, Field, Text, Wrong, commandOf, html, money, useEffect, useGate, useOperation, useRef, useState } from "../lib/parts.js";
import { Markdown } from "../lib/markdown.js";
import { Question } from "./approvals.js";

const MOST_TURNS = 200;
const LONGEST_PICTURE = 512 * 1024;

/** What a turn has said so far; a new one for each event, so that it is drawn. */
function grown(turn, type, data) {
  switch (type) {
    case "text": return { ...turn, text: turn.text + data.text };
    case "reasoning": return { ...turn, reasoning: turn.reasoning + data.text };
    case "tool_use": return { ...turn, calls: [...turn.calls, { ...data, result: null }] };
    case "tool_result": return {
      ...turn,
      calls: turn.calls.map((call) => (call.id === data.tool_use_id ? { ...call, result: data } : call)),
    };
    case "context": return { ...turn, context: [...turn.context, data] };
    case "cards": return { ...turn, cards: [...turn.cards, ...data.cards] };
    case "warning": return { ...turn, warnings: [...turn.warnings, data] };
    case "error": return { ...turn, problem: data };
    case "approval": return { ...turn, asks: data.state === "pending" ? data : null };
    case "done": return { ...turn, done: data, asks: null };
    default: return turn;
  }
}

let count = 0;
const begun = (said) => ({ key: ++count, said, text: "", reasoning: "", calls: [], context: [], cards: [], warnings: [], asks: null, problem: null, done: null });

/** What was said outlives the view: whoever looks at a question comes back to the chat. */
const talk = {
  peer: "main", agent: "", draft: "", images: [], problem: null,
  /** @type {any[]} */ turns: [],
  seen: () => {},
  change(changes) {
    Object.assign(talk, changes);
    talk.seen();
  },
  grow: (turn, how) => talk.change({ turns: talk.turns.map((one) => (one.key === turn.key ? how(one) : one)) }),
};

const runs = () => talk.turns.some((turn) => !turn.done && !turn.problem);

export function Chat() {
  const gate = useGate();
  const [, draw] = useState(0);
  const end = useRef(null);
  useEffect(() => {
    talk.seen = () => draw((count) => count + 1);
    return () => { talk.seen = () => {}; };
  }, []);
  const { peer, agent, draft, images, problem, turns } = talk;
  const agents = useOperation("status", {}).data?.agents ?? [];
  const running = runs();
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [turns]);

  const send = async () => {
    // As they are now: a key may come before what was typed last is drawn.
    const { agent, draft, images, peer, turns } = talk;
    if (!draft.trim() || runs()) return;
    if (gate.state !== "open") return talk.change({ problem: { message: "Not sent: the page is not connected. Send again when it is." } });
    const turn = begun(draft);
    talk.change({ turns: [...turns.slice(-(MOST_TURNS - 1)), turn], draft: "", problem: null });
    const shown = images.map(({ media_type, data }) => ({ media_type, data }));
    const request = gate.stream("chat.send", { content: turn.said, peer, images: shown, ...(agent ? { agent } : {}) }, (type, data) =>
      talk.grow(turn, (one) => grown(one, type, data)));
    talk.grow(turn, (one) => ({ ...one, request: request.id }));
    try {
      await request.result;
      talk.change({ images: [] });
    } catch (found) {
      if (found.code === "away") return talk.grow(turn, (one) => ({ ...one, problem: found }));
      // Nothing was committed: what was typed is not lost.
      talk.change({ turns: talk.turns.filter((one) => one.key !== turn.key), draft: turn.said, problem: found });
    }
  };
  const stop = () => gate.call("chat.cancel", { request: turns.at(-1).request }).catch((found) => talk.change({ problem: found }));
  const pick = async (files) => {
    const read = await Promise.all([...files].slice(0, 4).map(picture));
    talk.change({ images: read.filter((one) => one.data), problem: read.find((one) => one.message) ?? null });
  };
  const move = (to) => talk.change({ turns: [], problem: null, ...to });
  return html`
    <p class="bar"><label class="field"><span>Conversation</span><input value=${peer} maxlength="100"
        onChange=${(event) => move({ peer: event.target.value.trim() || "main" })} /></label>
      ${agents.length > 1 && gate.may("operate") ? html`<${Field} label="Agent" value=${agent} empty="as bound" options=${["", ...agents]} onInput=${(agent) => move({ agent })} />` : null}
      <button type="button" onClick=${() => move({ peer: `ui-${Date.now().toString(36)}` })}>New conversation</button></p>
    <div class="talk" role="log" aria-label="Conversation">
      ${turns.length ? null : html`<p class="empty">Nothing was said here yet. Write below; the answer streams.</p>`}
      ${turns.map((turn) => html`<${Turn} key=${turn.key} turn=${turn} />`)}
      <div ref=${end}></div>
    </div>
    <${Wrong} problem=${problem} />
    <form class="say" onSubmit=${(event) => { event.preventDefault(); send(); }}>
      <label class="hidden" for="message">Message</label>
      <textarea id="message" rows="3" value=${draft} placeholder="Message; Enter sends, Shift+Enter is a new line" data-search
        onInput=${(event) => talk.change({ draft: event.target.value })}
        onKeyDown=${(event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); } }}></textarea>
      <p class="buttons">
        <${Button} scope="chat" kind="primary" why=${draft.trim() ? (running ? "A turn runs." : "") : "Write something first."} onClick=${send}>Send<//>
        <${Button} scope="chat" why=${running ? "" : "Nothing runs."} onClick=${stop}>Stop<//>
        <label class="small">Pictures <input type="file" accept="image/png,image/jpeg,image/gif,image/webp" multiple onChange=${(event) => pick(event.target.files)} /></label>
        ${images.length ? html`<span class="faint">${images.length} to send</span>` : null}</p>
    </form>
    <${Command} text=${commandOf("hookgate chat", { peer, agent })} />`;
}

/** @param {File} file */
async function picture(file) {
  if (file.size > LONGEST_PICTURE) return { message: `${file.name} has ${file.size} bytes, expected ${LONGEST_PICTURE} at most` };
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { media_type: file.type, data: btoa(text) };
}

function Turn({ turn }) {
  return html`<section class="turn">
    <div class="said"><${Text} text=${turn.said} /></div>
    ${turn.reasoning ? html`<details><summary>Reasoning</summary><pre tabindex="0"><${Text} text=${turn.reasoning} /></pre></details>` : null}
    ${turn.calls.map((call) => html`<${Call} key=${call.id} call=${call} />`)}
    ${turn.asks ? html`<${Asks} asks=${turn.asks} />` : null}
    <${Markdown} text=${turn.text} />
    ${turn.warnings.map((one) => html`<p class="faint"><${Text} text=${one.message} /> <${Text} text=${one.action ?? ""} /></p>`)}
    <${Wrong} problem=${turn.problem} />
    ${turn.done ? html`<${Cost} turn=${turn} />` : html`<p class="faint" aria-busy="true">…</p>`}
  </section>`;
}

/** A question that this turn waits for: answered here by whoever may. */
function Asks({ asks }) {
  const gate = useGate();
  return html`<p class="asks" role="status">A call of <strong><${Text} text=${asks.tool} /></strong> waits for an answer. <a href="#/approvals">All questions</a></p>
    ${gate.may("approve") && asks.choices ? html`<${Question} question=${asks} done=${() => {}} />` : null}`;
}

function Call({ call }) {
  const state = call.result ? (call.result.is_error ? call.result.status || "failed" : "done") : "runs";
  return html`<details class="call"><summary><code><${Text} text=${call.name} /></code> <span class=${state === "done" ? "good" : "faint"}>${state}</span></summary>
    <pre tabindex="0"><${Text} text=${JSON.stringify(call.input, null, 1)} /></pre>
    ${call.result ? html`<pre tabindex="0"><${Text} text=${call.result.content} /></pre>` : null}</details>`;
}

function Cost({ turn }) {
  const { done, context, cards } = turn;
  const gate = useGate();
  const calls = useOperation("calls.list", gate.may("read") ? { session: done.session, turn: done.turn } : null).data?.calls ?? [];
  const priced = calls.filter(({ cost_usd }) => cost_usd !== null);
  const put = context.flatMap(({ by_kind }) => Object.entries(by_kind ?? {}));
  return html`<details class="cost"><summary class="faint">${done.ending}; ${done.usage?.input_tokens ?? 0} tokens in, ${done.usage?.output_tokens ?? 0} out${
    priced.length ? `; ${money(String(priced.reduce((sum, { cost_usd }) => sum + Number(cost_usd), 0)))}` : ""}</summary>
    <dl><dt>Turn</dt><dd><a href=${`#/turns/${encodeURIComponent(done.turn)}`}><${Text} text=${done.turn} /></a></dd><dt>Session</dt><dd><${Text} text=${done.session} /></dd>
    ${put.map(([kind, tokens]) => html`<dt>${kind}</dt><dd>${JSON.stringify(tokens)}</dd>`)}
    ${cards.length ? html`<dt>Cards</dt><dd><${Text} text=${cards.join(", ")} /></dd>` : null}</dl></details>`;
}
