// What does not count before somebody has accepted it, with what changed; and what was accepted.

import { Button, Command, Download, Table, Text, Time, Wrong, html, useAction, useGate, useOperation } from "../lib/parts.js";

const TELLING = ["degraded", "recovered", "notice", "reloaded", "card_changed"];

export function Accepting() {
  const gate = useGate();
  const listed = useOperation("accept.list", {}, { on: TELLING, every: 30_000 });
  const changes = useOperation("tools.changes", {}, { on: TELLING, every: 30_000 });
  const { busy, problem, run } = useAction(async (what, params) => {
    await gate.call(what, params);
    listed.again();
    changes.again();
  });
  const things = listed.data?.things;
  const waiting = things?.filter((one) => one.waits) ?? [];
  const told = Object.fromEntries((changes.data?.tools ?? []).map((tool) => [tool.tool, tool]));
  const columns = [
    ["Kind", (one) => one.kind],
    ["Name", (one) => html`<${Text} text=${one.name} />`],
    ["By", (one) => (one.by ? html`<${Text} text=${one.by} />` : html`<span class="faint">the first of its name</span>`)],
    ["At", (one) => html`<${Time} at=${one.at} />`],
    ["Do", ({ kind, name }) => html`<${Button} scope="operate" kind="small" busy=${busy} onClick=${() => run("accept.forget", { kind, name })}>take back<//>`],
  ];
  const accepted = things?.filter((one) => !one.waits);
  return html`<${Wrong} problem=${listed.problem ?? changes.problem ?? problem} />
    ${listed.data?.problem ? html`<${Wrong} problem=${{ message: listed.data.problem }} />` : null}
    ${things && !waiting.length ? html`<p class="empty">Nothing waits. A tool, a card or a guest that has changed comes here, and does not count until it is accepted.</p>` : null}
    <section aria-label="To accept">${waiting.map((one) => html`<article class="question" key=${`${one.kind}:${one.name}`} aria-label=${`${one.kind} ${one.name}`}>
      <h3><${Text} text=${one.name} /> <span class="severity">${one.kind}</span></h3>
      <p><${Text} text=${one.why} /></p>
      ${one.kind === "guest" ? html`<${Guest} name=${one.name} />` : html`<${Changes} changes=${told[one.name]?.changes} />`}
      <p class="faint">Digest <code><${Text} text=${one.digest} /></code></p>
      <p class="buttons"><${Button} scope="operate" kind="primary" busy=${busy}
        onClick=${() => run("accept.give", { kind: one.kind, name: one.name, digest: one.digest })}>Accept<//></p></article>`)}</section>
    <h3>Accepted</h3>
    <${Table} label="Accepted" rows=${listed.problem ? [] : accepted} keyOf=${(one) => `${one.kind}:${one.name}`} columns=${columns}
      empty="Nothing was accepted yet. What comes first of its name counts without a question." />
    <${Download} rows=${things} name="accepted" />
    <${Command} text="hookgate accept list" />`;
}

function Changes({ changes }) {
  if (!changes?.length) return null;
  return html`<${Table} label="What changed" rows=${changes} keyOf=${(one) => one.part} empty="" columns=${[
    ["Part", (one) => html`<${Text} text=${one.part} />`],
    ["Accepted", (one) => html`<pre tabindex="0"><${Text} text=${one.before} /></pre>`],
    ["Now", (one) => html`<pre tabindex="0"><${Text} text=${one.after} /></pre>`],
  ]} />`;
}

function Guest({ name }) {
  const { data, problem } = useOperation("wasm.inspect", { name });
  if (!data) return html`<${Wrong} problem=${problem} />`;
  return html`<dl><dt>It may</dt><dd><${Text} text=${data.grants.join("; ") || "nothing"} /></dd>
    <dt>Tools</dt><dd><${Text} text=${data.tools.map((tool) => tool.name).join(", ") || "none"} /></dd>
    ${data.changes.length ? html`<dt>Changed</dt><dd><${Text} text=${data.changes.join("; ")} /></dd>` : null}</dl>`;
}
