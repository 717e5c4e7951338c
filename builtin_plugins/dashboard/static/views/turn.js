// One turn: what ran in it and in those nested in it, as a waterfall, as a log and as a tree.

import { Button, Command, Download, Field, Table, Text, Time, Wrong, html, short, useAction, useFilter, useOperation, useState } from "../lib/parts.js";

export const BAD = new Set(["refused", "failed", "cancelled"]);

const linkTo = (id) => `#/turns/${encodeURIComponent(id)}`;
const auditOf = (call, turn) => `#/audit?${new URLSearchParams({ call, turn })}`;

/** @param {{id: string}} given */
export function Turn({ id }) {
  const { data, problem } = useOperation("turn.show", { id }, { on: ["done"], every: 3_000, rest: 3_000 });
  if (!data) return html`<div><${Wrong} problem=${problem} /><p><a href="#/turns">All turns</a></p></div>`;
  const parent = data.tree.find((one) => one.id === data.parent);
  return html`<div><p><a href="#/turns">All turns</a></p>
    <h3 title=${data.id}><span class=${BAD.has(data.ending) ? "bad" : "good"}><${Text} text=${data.ending} /></span> in ${data.milliseconds.toLocaleString("en")} ms</h3>
    <${Wrong} problem=${problem ?? (data.message ? data : null)} />
    <dl><dt>Turn</dt><dd><${Text} text=${data.id} /> <${CopyLink} /></dd>
      <dt>Session</dt><dd><a href=${`#/turns?${new URLSearchParams({ session: data.session })}`}><${Text} text=${data.session} /></a></dd>
      <dt>Agent</dt><dd><${Text} text=${data.agent} /></dd>
      <dt>Asked by</dt><dd><${Text} text=${data.principal} /> by <${Text} text=${data.path} />, <${Time} at=${data.started} /></dd>
      <dt>Tokens</dt><dd>${data.input_tokens} in, ${data.output_tokens} out</dd>
      ${data.taint.length ? html`<dt>Tainted by</dt><dd><${Text} text=${data.taint.join(", ")} /> <a href=${`#/graph?${new URLSearchParams({ turn: data.id })}`}>The way of it</a></dd>` : null}
      ${data.degraded.length ? html`<dt>Without</dt><dd><${Text} text=${data.degraded.join(", ")} /></dd>` : null}
      ${data.parent ? html`<dt>Nested in</dt><dd>${parent ? html`<a title=${parent.id} href=${linkTo(parent.id)}><${Text} text=${short(parent.id)} /></a>` : html`<${Text} text=${data.parent} />`}</dd>` : null}
    </dl>
    <h4>Tool calls</h4>
    <${Table} label="Tool calls" rows=${data.calls} keyOf=${(row) => row.id} empty="No tool was called." columns=${[
      ["Tool", (row) => html`<a href=${auditOf(row.id, data.id)}><${Text} text=${row.name} /></a>${row.within ? html` <span class="faint">by a tool</span>` : null}`],
      ["Plugin", (row) => html`<${Text} text=${row.plugin} />`],
      ["Came to", (row) => html`<span class=${row.status === "done" ? "good" : "bad"}>${row.status}</span>`],
      ["Decided", (row) => html`<${Text} text=${decided(row)} />`],
      ["Had read", (row) => html`<${Text} text=${row.read.join(", ")} />`],
      ["Brought", (row) => html`<${Text} text=${row.brought.join(", ")} />`],
    ]} />
    ${data.called > data.calls.length ? html`<p class="faint">The first ${data.calls.length} of ${data.called} calls.</p>` : null}
    ${data.calls.length ? html`<p><a href=${`#/policy?${new URLSearchParams({ turn: data.id, since: data.started })}`}>Replay its calls against rules</a></p>` : null}
    <${Tree} turn=${data} />
    <${Ran} turn=${data} />
    <${Command} text=${`hookgate turns show ${data.id}`} /></div>`;
}

const decided = (call) => [call.effect, call.by && `by ${call.by}`, call.rule && `rule ${call.rule}`, call.reason].filter(Boolean).join(", ");

function CopyLink() {
  const [copied, setCopied] = useState(false);
  const copy = useAction(async () => {
    await navigator.clipboard.writeText(location.href);
    setCopied(true);
  });
  return html`<${Button} scope="read" kind="small" onClick=${copy.run}>${copied ? "copied" : "Copy link"}<//>`;
}

/** All turns that one message has started, each below the one that it is nested in.
 * @param {{tree: {id: string, parent: string}[]}} turn */
function branches({ tree }) {
  const known = new Set(tree.map(({ id }) => id));
  const of = (parent, depth) => tree.filter((one) => (known.has(one.parent) ? one.parent : "") === parent)
    .flatMap((one) => [{ ...one, depth }, ...of(one.id, depth + 1)]);
  return of("", 0);
}

function Tree({ turn }) {
  if (turn.tree.length < 2) return null;
  const rows = branches(turn);
  const begins = rows.map((row) => Date.parse(row.started));
  const zero = Math.min(...begins);
  const end = Math.max(...rows.map((row, at) => begins[at] - zero + row.milliseconds), 1);
  return html`<section><h4>Turns of this message</h4>
    <${Table} label="Turns of this message" rows=${rows} keyOf=${(row) => row.id} current=${turn.id} columns=${[
      ["Turn", (row) => html`<span style=${{ paddingLeft: `${row.depth * 1.2}rem` }}><a title=${row.id} href=${linkTo(row.id)}><${Text} text=${short(row.id)} /></a></span>`],
      ["Agent", (row) => html`<${Text} text=${row.agent} />`],
      ["Ending", (row) => html`<span class=${BAD.has(row.ending) ? "bad" : ""}>${row.ending}</span>`],
      ["", (row) => html`<${Bar} kind="model" failed=${BAD.has(row.ending)} at=${Date.parse(row.started) - zero} ms=${row.milliseconds} end=${end} />`],
      ["ms", (row) => Math.round(row.milliseconds).toLocaleString("en"), "number"],
      ["Tools", (row) => html`<${Text} text=${row.tools.join(", ")} />${row.denied ? html` <span class="bad">${row.denied} denied</span>` : null}`],
    ]} /></section>`;
}

/** What ran, each at its place in time; or a line for each, with what was decided. */
function Ran({ turn }) {
  const [filter, change] = useFilter();
  const { rows } = turn;
  const sought = (filter.find ?? "").toLowerCase();
  const quiet = filter.quiet !== "no";
  const log = filter.as === "log";
  const end = Math.max(...rows.map((row) => row.at_ms + row.ms), 0.001);
  // A tool's row says what was decided about its call, in the order in which they came.
  const calls = [...turn.calls];
  const whole = rows.map((row) => {
    const at = row.kind === "tool" && row.turn === turn.id ? calls.findIndex(({ name }) => name === row.name) : -1;
    return at < 0 ? row : { ...row, said: `${row.said}; ${decided(calls.splice(at, 1)[0])}` };
  });
  const shown = whole.filter((row) => !(quiet && !log && row.kind === "hook" && row.said === "nothing" && row.ms < end / 50)
    && (!sought || `${row.kind} ${row.name} ${row.plugin} ${row.said} ${row.turn}`.toLowerCase().includes(sought)));
  const many = new Set(rows.map((row) => row.turn)).size > 1;
  return html`<section><h4>What ran</h4>
    ${rows.length ? html`<div class="bar"><${Field} label="Search" search value=${filter.find ?? ""} onInput=${(value) => change({ find: value })} />
      <${Field} label="Shown as" value=${log ? "log" : "waterfall"} options=${["waterfall", "log"]} onInput=${(value) => change({ as: value === "log" ? value : "" })} />
      ${log || !turn.hooked ? null : html`<${Field} label="Quick hooks that said nothing" value=${quiet ? "hidden" : "shown"} options=${["hidden", "shown"]} onInput=${(value) => change({ quiet: value === "shown" ? "no" : "" })} />`}
      <${Download} rows=${shown} name=${turn.id} /></div>` : null}
    ${rows.length && !turn.hooked ? html`<p class="faint">Its hooks were not timed: they are while somebody looks at a turn, and two minutes longer, since that costs each turn a quarter more.</p>` : null}
    ${log && shown.length ? html`<pre tabindex="0" aria-label="Log">${shown.map((row) => html`<${Line} row=${row} many=${many} />`)}</pre>`
      : html`<${Table} label="What ran" rows=${shown} empty=${rows.length ? html`Nothing that ran fits. <button type="button" class="small" onClick=${() => change({ find: "", quiet: "no" })}>Show everything</button>`
        : "Nothing is known of what ran in it."} columns=${[
      ["at ms", (row) => row.at_ms.toFixed(1), "number"],
      ["What", (row) => html`${["hook", "tool"].includes(row.kind) ? html`<span class="faint">${row.kind}</span> ` : null}<${Text} text=${row.name} />${
        row.turn === turn.id ? null : html` <a class="faint" title=${row.turn} href=${linkTo(row.turn)}>nested</a>`}`],
      ["Plugin", (row) => html`<${Text} text=${row.plugin} />`],
      ["", (row) => html`<${Bar} kind=${row.kind} failed=${row.failed} at=${row.at_ms} ms=${row.ms} end=${end} />`],
      ["ms", (row) => row.ms.toFixed(2), "number"],
      ["Decided", (row) => html`<span class=${row.failed ? "bad" : row.said === "nothing" ? "faint" : ""}><${Text} text=${row.said} /></span>`],
    ]} />`}</section>`;
}

function Line({ row, many }) {
  const of = many ? `${row.turn.slice(-6)}  ` : "";
  return html`<span class=${row.failed ? "bad" : ""}>${row.at_ms.toFixed(1).padStart(9)}  ${of}${row.kind.padEnd(7)}  <${Text} text=${row.name} />${
    row.plugin ? html` (<${Text} text=${row.plugin} />)` : null}  ${row.ms.toFixed(2)} ms  <${Text} text=${row.said} />${"\n"}</span>`;
}

function Bar({ kind, failed, at, ms, end }) {
  return html`<svg class=${`span ${failed ? "failed" : kind}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect x=${Math.min((100 * at) / end, 99.5)} y="1" width=${Math.max((100 * ms) / end, 0.5)} height="6" /></svg>`;
}
