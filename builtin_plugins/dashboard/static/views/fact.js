// One thing that is remembered: what it rests on, what took whose place, and forgetting it.

import { Button, Command, Table, Text, Time, Wrong, commandOf, html, useAction, useEffect, useGate, useOperation, useRef, useState } from "../lib/parts.js";

/** @param {string} id */
export const linkTo = (id) => `#/memory/${encodeURIComponent(id)}`;

/** What a row says of its time and its place. @param {{row: any}} given */
function Standing({ row }) {
  if (!row.superseded) return row.valid_from ? html`since <${Time} at=${row.valid_from} />` : html`<span class="good">holds</span>`;
  return html`<span class="bad">${row.ending || "superseded"}</span> <${Time} at=${row.superseded} />${row.ended_by
    ? html` by <a href=${linkTo(row.ended_by)}>what was said</a>` : null}`;
}

/** What taints it. @param {{taint: string[]}} given */
export const Taint = ({ taint }) => (taint.length ? html`<span class="bad"><${Text} text=${taint.join(", ")} /></span>` : html`<span class="faint">none</span>`);

/** The columns that facts have wherever they are shown. @type {[string, (row: any) => any][]} */
export const COLUMNS = [
  ["What", (row) => html`<a href=${linkTo(row.id)}><${Text} text=${row.text.slice(0, 300)} /></a>`],
  ["Kind", (row) => html`<span class="short">${row.kind}</span>`],
  ["Learned", (row) => html`<span class="short"><${Time} at=${row.at} /></span>`],
  ["By", (row) => html`<${Text} text=${row.speaker} />`],
  ["Standing", (row) => html`<${Standing} row=${row} />`],
  ["Tainted by", (row) => html`<${Taint} taint=${row.taint} />`],
  ["Whose", (row) => html`<${Text} text=${row.scope} />`],
];

/** @param {{id: string}} given */
export function Fact({ id }) {
  const { data, problem } = useOperation("memory.show", { id });
  const [forget, setForget] = useState(null);
  const row = data?.rows[0];
  const history = useOperation("memory.audit", row?.kind === "fact" ? { about: id } : null);
  const back = html`<p><a href="#/memory">All that is known</a></p>`;
  if (!row) return html`<div>${back}<${Wrong} problem=${problem} />${problem ? html`<p class="empty">It is not remembered, or not any more.</p>` : null}</div>`;
  const ways = [
    ["this", { ids: [id] }], row.turn && ["its turn", { turn: row.turn }],
    row.session && ["its session", { session: row.session }], ["all of its scope", { scope: row.scope }],
  ].filter(Boolean);
  return html`<div>${back}
    <blockquote>${data.rows.map((piece) => html`<${Text} text=${piece.text} />`)}</blockquote>
    <dl>
      <dt>Id</dt><dd><${Text} text=${row.id} /></dd><dt>Kind</dt><dd>${row.kind}</dd>
      <dt>Learned</dt><dd><${Time} at=${row.at} /> from <${Text} text=${row.speaker || "nobody named"} />, sure ${row.confidence.toFixed(2)}</dd>
      ${row.kind === "turn" ? null : html`<dt>Standing</dt><dd><${Standing} row=${row} /></dd>`}
      ${row.valid_from || row.valid_to ? html`<dt>Held</dt><dd><${Time} at=${row.valid_from} /> to <${Time} at=${row.valid_to} /></dd>` : null}
      <dt>Tainted by</dt><dd><${Taint} taint=${row.taint} /></dd>
      <dt>Scope</dt><dd><a href=${`#/memory?${new URLSearchParams({ scope: row.scope })}`}><${Text} text=${row.scope} /></a></dd>
      <dt>Session</dt><dd><a href=${`#/memory?${new URLSearchParams({ session: row.session })}`}><${Text} text=${row.session} /></a></dd>
      <dt>Turn</dt><dd><a href=${`#/turns/${encodeURIComponent(row.turn)}`}><${Text} text=${row.turn} /></a></dd>
    </dl>
    <p class="buttons">Forget ${ways.map(([title, which]) => html`<${Button} scope="chat" kind="small" onClick=${() => setForget(which)}>${title}<//>`)}</p>
    ${forget ? html`<${Forgetting} which=${forget} close=${() => setForget(null)} />` : null}
    ${data.sources.length ? html`<h3>What it rests on</h3><${Table} label="What it rests on" rows=${data.sources} keyOf=${(one) => one.said} empty="" columns=${[
      ["Said", (one) => html`<a href=${linkTo(one.said)}><${Text} text=${one.said} /></a>`],
      ["At", (one) => html`<${Time} at=${one.at} />`],
      ["By", (one) => html`<${Text} text=${one.speaker} />`],
      ["Tainted by", (one) => html`<${Taint} taint=${one.taint} />`],
      ["Session", (one) => html`<${Text} text=${one.session} />`],
    ]} />` : null}
    ${history.data?.rows.length > 1 ? html`<h3>What took whose place</h3><${Table} label="What took whose place" rows=${history.data.rows}
      keyOf=${(one) => one.id} current=${id} columns=${COLUMNS} empty="" />` : null}
    <${Command} text=${commandOf("hookgate memory show", { "": id })} /></div>`;
}

/** Asks first, and says what goes with it. @param {{which: object, close: () => void}} given */
function Forgetting({ which, close }) {
  const gate = useGate();
  const dialog = useRef(null);
  const would = useOperation("memory.forget", { ...which, check: true });
  const { busy, problem, run, result } = useAction(() => gate.call("memory.forget", which));
  useEffect(() => dialog.current.showModal(), []);
  const { facts, pieces } = result ?? would.data ?? {};
  const count = facts === undefined ? "" : `${facts} facts and notes, and ${pieces} pieces of what was said`;
  const done = () => { close(); if (result) location.hash = "#/memory"; };
  const [[name, value]] = Object.entries(which);
  return html`<dialog ref=${dialog} onClose=${done} aria-label="Forget"><h2>Forget</h2>
    <p><${Text} text=${`${name === "ids" ? "" : `${name} `}${value}`} /></p>
    <div role="status">${result ? html`<p>${count} are gone.</p>`
      : count ? html`<p>${count} go with it, for good. What was said stays in its session.</p>` : null}</div>
    <${Wrong} problem=${problem ?? would.problem} />
    <p class="buttons">${result ? null : html`<${Button} scope="chat" kind="primary" busy=${busy} why=${would.data ? "" : "What goes with it is not known yet."} onClick=${run}>Forget for good<//>`}
      <button type="button" onClick=${() => dialog.current.close()}>${result ? "Close" : "Keep"}</button></p></dialog>`;
}
