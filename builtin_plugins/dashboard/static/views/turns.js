// The last turns of this gateway, and one of them: what ran in it, when, and what it decided.

import { Button, Command, Download, Field, Fresh, Older, Table, Text, Time, Wrong, html, short, useAction, useFilter, useOperation, useRows, useState } from "../lib/parts.js";

const ENDINGS = ["", "running", "done", "awaiting_client", "refused", "failed", "cancelled"];
const YES_OR_NO = ["", "yes", "no"];
const FILTERS = ["session", "agent", "plugin", "ending", "slower", "tainted", "denied"];
const LABELS = { slower: "Slower than ms" };
const BAD = new Set(["refused", "failed", "cancelled"]);

export function Turns({ rest }) {
  return rest[0] ? html`<${Turn} id=${rest[0]} />` : html`<${List} />`;
}

/** What the operation takes, of what stands in the address; what means nothing there is left out. */
function wanted(filter) {
  const params = {};
  for (const name of ["session", "agent", "plugin"]) if (filter[name]) params[name] = filter[name];
  if (ENDINGS.includes(filter.ending) && filter.ending) params.ending = filter.ending;
  if (Number(filter.slower) > 0) params.slower = Number(filter.slower);
  for (const name of ["tainted", "denied"]) if (["yes", "no"].includes(filter[name])) params[name] = filter[name] === "yes";
  return params;
}

function List() {
  const [filter, change] = useFilter();
  const params = wanted(filter);
  const rows = useRows("turn.list", params, { list: "turns", by: "before", keyOf: (row) => row.id, on: ["done"], every: 5_000 });
  const filtered = Object.keys(params).length > 0;
  // What ran and is among the newest no longer has ended since, where only what runs is asked for.
  const over = (row) => row.ending === "running" && rows.data && !rows.data.turns.some(({ id }) => id === row.id);
  const options = { ending: ENDINGS, tainted: YES_OR_NO, denied: YES_OR_NO };
  return html`<div>
    <div class="bar">${FILTERS.map((name) => html`<${Field} label=${LABELS[name] ?? name[0].toUpperCase() + name.slice(1)} value=${filter[name] ?? ""}
      search=${name === "session"} options=${options[name]} onInput=${(value) => change({ [name]: value })} />`)}</div>
    <${Wrong} problem=${rows.problem} />
    <div class="bar"><${Download} rows=${rows.rows} name="turns" /><${Fresh} rows=${rows} /></div>
    <${Table} label="Turns" rows=${rows.rows} keyOf=${(row) => row.id}
      empty=${filtered ? html`No turn fits this filter. <a href="#/turns">Show all</a>` : html`No turn has run since the gateway started. <a href="#/chat">Say something</a>, and it stands here.`}
      columns=${[
        ["Turn", (row) => html`<a title=${row.id} href=${`#/turns/${encodeURIComponent(row.id)}`}><${Text} text=${short(row.id)} /></a>`],
        ["Began", (row) => html`<${Time} at=${row.started} />`],
        ["ms", (row) => Math.round(row.milliseconds).toLocaleString("en"), "number"],
        ["Ending", (row) => html`<span class=${BAD.has(row.ending) ? "bad" : ""}><${Text} text=${row.code ? `${row.ending}: ${row.code}` : over(row) ? "ended" : row.ending} /></span>`],
        ["Agent", (row) => html`<${Text} text=${row.agent} />`],
        ["Session", (row) => html`<${Text} text=${row.session} />`],
        ["Tokens", (row) => `${row.input_tokens} in, ${row.output_tokens} out`],
        ["Tools", (row) => html`<${Text} text=${row.tools.join(", ")} />${row.denied ? html` <span class="bad">${row.denied} denied</span>` : null}`],
        ["Tainted by", (row) => html`<${Text} text=${row.taint.join(", ")} />`],
      ]} />
    <${Older} rows=${rows} />
    <${Command} text=${`hookgate turns list${told(params)}`} /></div>`;
}

const told = (params) => Object.entries(params).map(([name, value]) => (value === true ? ` --${name}` : value === false ? ` --no-${name}` : ` --${name} '${String(value).replaceAll("'", "'\\''")}'`)).join("");

function Turn({ id }) {
  const { data, problem } = useOperation("turn.show", { id }, { on: ["done"], every: 3_000 });
  if (!data) return html`<div><${Wrong} problem=${problem} /><p><a href="#/turns">All turns</a></p></div>`;
  return html`<div><p><a href="#/turns">All turns</a></p>
    <h3 title=${data.id}><span class=${BAD.has(data.ending) ? "bad" : "good"}><${Text} text=${data.ending} /></span> in ${data.milliseconds.toLocaleString("en")} ms</h3>
    <${Wrong} problem=${problem ?? (data.message ? data : null)} />
    <dl><dt>Turn</dt><dd><${Text} text=${data.id} /> <${CopyLink} /></dd>
      <dt>Session</dt><dd><a href=${`#/turns?${new URLSearchParams({ session: data.session })}`}><${Text} text=${data.session} /></a></dd>
      <dt>Agent</dt><dd><${Text} text=${data.agent} /></dd>
      <dt>Asked by</dt><dd><${Text} text=${data.principal} /> by <${Text} text=${data.path} />, <${Time} at=${data.started} /></dd>
      <dt>Tokens</dt><dd>${data.input_tokens} in, ${data.output_tokens} out</dd>
      ${data.taint.length ? html`<dt>Tainted by</dt><dd><${Text} text=${data.taint.join(", ")} /></dd>` : null}
      ${data.degraded.length ? html`<dt>Without</dt><dd><${Text} text=${data.degraded.join(", ")} /></dd>` : null}
      ${data.parent ? html`<dt>Nested in</dt><dd><${Other} id=${data.parent} /></dd>` : null}
      ${data.nested.length ? html`<dt>Within it</dt><dd>${data.nested.map((one) => html`<${Other} id=${one} /> `)}</dd>` : null}
    </dl>
    <h4>Tool calls</h4>
    <${Table} label="Tool calls" rows=${data.calls} keyOf=${(row) => row.id} empty="No tool was called." columns=${[
      ["Tool", (row) => html`<a href=${`#/audit?${new URLSearchParams({ call: row.id, turn: data.id })}`}><${Text} text=${row.name} /></a>`],
      ["Plugin", (row) => html`<${Text} text=${row.plugin} />`],
      ["Came to", (row) => html`<span class=${row.status === "done" ? "good" : "bad"}>${row.status}</span>`],
      ["Decided", (row) => html`<${Text} text=${[row.effect, row.by && `by ${row.by}`, row.rule && `rule ${row.rule}`, row.reason].filter(Boolean).join(", ")} />`],
    ]} />
    <${Waterfall} rows=${data.rows} turn=${data} />
    <${Command} text=${`hookgate turns show ${data.id}`} /></div>`;
}

const Other = ({ id }) => html`<a title=${id} href=${`#/turns/${encodeURIComponent(id)}`}><${Text} text=${short(id)} /></a>`;

function CopyLink() {
  const [copied, setCopied] = useState(false);
  const copy = useAction(async () => {
    await navigator.clipboard.writeText(location.href);
    setCopied(true);
  });
  return html`<${Button} scope="read" kind="small" onClick=${copy.run}>${copied ? "copied" : "Copy link"}<//>`;
}

/** What ran, each at its place in time; as a log one searches it. */
function Waterfall({ rows, turn }) {
  const [filter, change] = useFilter();
  const sought = (filter.find ?? "").toLowerCase();
  const quiet = filter.quiet !== "no";
  const end = Math.max(...rows.map((row) => row.at_ms + row.ms), 0.001);
  const shown = rows.filter((row) => !(quiet && row.kind === "hook" && row.said === "nothing" && row.ms < end / 50)
    && (!sought || `${row.kind} ${row.name} ${row.plugin} ${row.said}`.toLowerCase().includes(sought)));
  return html`<div><h4>What ran</h4>
    ${rows.length ? html`<div class="bar"><${Field} label="Search" search value=${filter.find ?? ""} onInput=${(value) => change({ find: value })} />
      <${Field} label="Quick hooks that said nothing" value=${quiet ? "hidden" : "shown"} options=${["hidden", "shown"]} onInput=${(value) => change({ quiet: value === "shown" ? "no" : "" })} />
      <${Download} rows=${shown} name=${turn.id} /></div>` : null}
    <${Table} label="What ran" rows=${shown} empty=${rows.length ? html`Nothing that ran fits. <button type="button" class="small" onClick=${() => change({ find: "", quiet: "no" })}>Show everything</button>`
      : "Nobody looked at turns while this one ran, so nothing in it was timed. While this view is open, and two minutes longer, it is."} columns=${[
      ["at ms", (row) => row.at_ms.toFixed(1), "number"],
      ["What", (row) => html`${["hook", "tool"].includes(row.kind) ? html`<span class="faint">${row.kind}</span> ` : null}<${Text} text=${row.name} />`],
      ["Plugin", (row) => html`<${Text} text=${row.plugin} />`],
      ["", (row) => html`<${Bar} row=${row} end=${end} />`],
      ["ms", (row) => row.ms.toFixed(2), "number"],
      ["Decided", (row) => html`<span class=${row.failed ? "bad" : row.said === "nothing" ? "faint" : ""}><${Text} text=${row.said} /></span>`],
    ]} /></div>`;
}

function Bar({ row, end }) {
  const at = (100 * row.at_ms) / end;
  return html`<svg class=${`span ${row.failed ? "failed" : row.kind}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect x=${Math.min(at, 99.5)} y="1" width=${Math.max((100 * row.ms) / end, 0.5)} height="6" /></svg>`;
}
