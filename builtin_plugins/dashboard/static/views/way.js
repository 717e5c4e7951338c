// The way of a tainted value in one turn: whose text came in by which call, and what had read it then.

import { Command, Download, Table, Text, Wrong, html, short, useFilter, useMemo, useOperation, useRef } from "../lib/parts.js";
import { placed } from "../lib/layers.js";
import { Drawing, save } from "./drawing.js";

const BROUGHT = "brought", READ = "was read before";
const ANSWER = "answer";

/** Nodes for each call, for whose text there was and for the answer, in columns that follow the way.
 * @param {{calls: any[], taint: string[], ending: string}} turn */
function wayOf({ calls, taint, ending }) {
  const column = new Map();
  const edges = [];
  const nodes = [];
  const source = (label, at) => {
    const id = `text:${label}`;
    if (!column.has(id)) {
      column.set(id, at);
      nodes.push({ id, name: id, category: "" });
    }
    return id;
  };
  const touched = calls.map((call, number) => ({ ...call, number })).filter(({ read, brought }) => read.length || brought.length);
  // Those that had read least ran first.
  for (const call of touched.sort((one, two) => one.read.length - two.read.length || one.number - two.number)) {
    const id = `call:${call.name} (${call.number + 1})`;
    const from = call.read.map((label) => source(label, 0));
    const at = Math.max(-1, ...from.map((one) => column.get(one))) + 1;
    column.set(id, at);
    nodes.push({ id, category: String(call.number).padStart(4, "0"), off: call.status !== "done", why: call.status });
    edges.push(...from.map((one) => ({ source: one, target: id, type: READ, says: READ })));
    for (const label of call.brought) {
      const to = source(label, at + 1);
      if (!call.read.includes(label)) edges.push({ source: id, target: to, type: BROUGHT, says: BROUGHT });
    }
  }
  if (ending !== "running") {
    const from = taint.map((label) => source(label, 0));
    column.set(ANSWER, Math.max(0, ...column.values()) + 1);
    nodes.push({ id: ANSWER, category: "" });
    edges.push(...from.map((one) => ({ source: one, target: ANSWER, type: READ, says: READ })));
  }
  const last = Math.max(0, ...column.values());
  const kinds = Array.from({ length: last + 1 }, (_, at) => [String(at), at === 0 ? "Came first" : at === last ? "In the end" : "Then"]);
  return { nodes: nodes.map((node) => ({ ...node, kind: String(column.get(node.id)) })), edges, kinds };
}

/** @param {{id: string}} given the turn */
export function Way({ id }) {
  const [filter, change] = useFilter();
  const { data, problem } = useOperation("turn.show", { id }, { on: ["done"] });
  const drawing = useRef(null);
  const shown = useMemo(() => data && wayOf(data), [data]);
  const places = useMemo(() => shown && placed(shown.nodes, shown.edges, shown.kinds), [shown]);
  const back = html`<p><a href="#/graph">The whole graph</a></p>`;
  if (!shown) return html`<div><${Wrong} problem=${problem} />${back}</div>`;
  const focus = shown.nodes.some((node) => node.id === filter.focus) ? filter.focus : "";
  const about = focus ? shown.edges.filter((edge) => edge.source === focus || edge.target === focus) : [];
  return html`<div>${back}
    <h3 title=${id}>The way of tainted text in <a href=${`#/turns/${encodeURIComponent(id)}`}><${Text} text=${short(id)} /></a></h3>
    <${Wrong} problem=${problem} />
    ${data.taint.length ? html`<div class="bar"><button type="button" class="small" onClick=${() => save(drawing.current, `way-${id}`)}>SVG</button><${Download} rows=${shown.edges} name=${`way-${id}`} /></div>
      <${Drawing} shown=${shown} places=${places} focus=${focus} about=${about} drawing=${drawing} go=${(to) => change({ focus: to === new URLSearchParams(location.hash.split("?")[1]).get("focus") ? "" : to })} />
      <p class="faint">Each call had read what leads to it when the model asked for it. Gray ones did not run to their end.</p>` : null}
    <${Table} label="Way" rows=${data.taint.length ? (focus ? about : shown.edges) : []} empty="Nothing that the model read in this turn was a stranger's." columns=${[
      ["From", (edge) => html`<${End} id=${edge.source} change=${change} />`],
      ["Way", (edge) => edge.says],
      ["To", (edge) => html`<${End} id=${edge.target} change=${change} />`],
    ]} />
    <${Command} text=${`hookgate turns show ${id}`} /></div>`;
}

const End = ({ id, change }) => html`<button type="button" class="link" onClick=${() => change({ focus: id })}><${Text} text=${id} /></button>`;
