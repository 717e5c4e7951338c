// How agents, skills, connectors and tools hang together.

import { Command, Download, Field, Table, Text, Wrong, html, useEffect, useFilter, useGate, useMemo, useRef, useState } from "../lib/parts.js";
import { placed } from "../lib/layers.js";
import { Drawing, other, save } from "./drawing.js";
import { Way } from "./way.js";

const TYPES = { DEPENDS_ON: "needs", COMPOSED_WITH: "used with", TAGGED_WITH: "shares tags with", SAME_CATEGORY: "same category as", MAY_USE: "may use" };
const USUAL = "DEPENDS_ON,COMPOSED_WITH";
const MOST = 5000;

/** The whole graph, page by page. */
function useGraph() {
  const gate = useGate();
  const [told, setTold] = useState(/** @type {{graph: any, problem: any}} */ ({ graph: null, problem: null }));
  const [asked, ask] = useState(0);
  useEffect(() => {
    const changed = () => ask((count) => count + 1);
    return gate.hear(["capabilities_indexed"], changed);
  }, []);
  useEffect(() => {
    let current = true;
    const read = async () => {
      /** @type {any} */
      const graph = { agents: [], nodes: [], edges: [], more: false };
      for (let after = ""; ;) {
        const page = await gate.call("capabilities.graph", { limit: 1000, ...(after ? { after } : {}) });
        graph.agents = page.agents;
        graph.nodes.push(...page.nodes);
        graph.edges.push(...page.edges);
        after = page.next;
        graph.more = Boolean(after);
        if (!after || graph.nodes.length >= MOST) return graph;
      }
    };
    read().then((graph) => current && setTold({ graph, problem: null }), (problem) => current && setTold((before) => ({ ...before, problem })));
    return () => { current = false; };
  }, [asked, gate.generation]);
  return told;
}

/** All nodes by id, and all edges: an agent leads to everything that it may use. */
function whole(graph) {
  const agents = graph.agents.map((name) => ({ id: `agent:${name}`, kind: "agent", category: "", available: true, agents: [name] }));
  const nodes = new Map([...agents, ...graph.nodes].map((node) => [node.id, node]));
  const uses = graph.nodes.flatMap((node) => node.agents.map((name) => ({ source: `agent:${name}`, target: node.id, type: "MAY_USE", weight: 1 })));
  const edges = [...uses, ...graph.edges].filter((edge) => nodes.has(edge.source) && nodes.has(edge.target));
  return { nodes, edges: edges.map((edge) => ({ ...edge, says: TYPES[edge.type], dashed: edge.type !== "DEPENDS_ON" })) };
}

/** What is shown: what fits the filter, and what hangs together with it. */
function chosen(all, types, text, agent) {
  let edges = all.edges.filter((edge) => types.has(edge.type));
  let nodes = [...all.nodes.values()];
  if (text) {
    const found = new Set(nodes.filter((node) => `${node.id} ${node.category}`.toLowerCase().includes(text.toLowerCase())).map(({ id }) => id));
    const near = new Set([...found, ...edges.flatMap(({ source, target }) => (found.has(source) ? [target] : found.has(target) ? [source] : []))]);
    nodes = nodes.filter(({ id }) => near.has(id));
    edges = edges.filter((edge) => near.has(edge.source) && near.has(edge.target));
  }
  return { nodes: nodes.map((node) => ({ ...node, off: !node.available || Boolean(agent && !node.agents.includes(agent)) })), edges };
}

export function Graph() {
  const [{ turn }] = useFilter();
  return turn ? html`<${Way} id=${turn} key=${turn} />` : html`<${Whole} />`;
}

function Whole() {
  const [filter, change] = useFilter();
  const { graph, problem } = useGraph();
  const { text = "", agent = "", focus = "" } = filter;
  const types = new Set((filter.edges ?? USUAL).split(",").filter((type) => Object.hasOwn(TYPES, type)));
  const drawing = useRef(null);
  const held = useRef(focus);
  const all = useMemo(() => graph && whole(graph), [graph]);
  // A thousand nodes are not drawn at each key.
  const [drawn, draw] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => draw(text), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const shown = useMemo(() => all && chosen(all, types, drawn, agent), [all, drawn, agent, filter.edges]);
  const places = useMemo(() => shown && placed(shown.nodes, shown.edges), [shown]);
  const about = useMemo(() => (all && focus ? all.edges.filter((edge) => edge.source === focus || edge.target === focus) : []), [all, focus]);
  if (!shown) return html`<div>${problem ? html`<${Wrong} problem=${problem} />` : html`<p class="faint" aria-busy="true">Asking…</p>`}</div>`;
  const known = all.nodes.has(focus);
  // What is chosen again is let go; what is drawn once keeps the first of these functions.
  held.current = focus;
  const go = (id) => change({ focus: id === held.current ? "" : id });
  const swap = (type) => {
    const next = new Set(types);
    if (!next.delete(type)) next.add(type);
    change({ edges: [...next].join(",") || "none" });
  };
  return html`<div>
    <div class="bar"><${Field} label="Text" search value=${text} onInput=${(value) => change({ text: value })} />
      <${Field} label="What an agent may use" options=${["", ...new Set([...graph.agents, agent].filter(Boolean))]} value=${agent} onInput=${(value) => change({ agent: value })} />
      ${Object.entries(TYPES).map(([type, title]) => html`<label><input type="checkbox" checked=${types.has(type)} onChange=${() => swap(type)} /> ${title}</label>`)}
      <button type="button" class="small" onClick=${() => save(drawing.current, "graph")}>SVG</button><${Download} rows=${shown.edges} name="graph" /></div>
    <${Wrong} problem=${problem} />
    ${focus && !known ? html`<p class="wrong">There is no <${Text} text=${focus} />. <a href="#/graph">The whole graph</a></p>` : null}
    ${graph.more ? html`<p class="faint">The first ${graph.nodes.length} capabilities are drawn.</p>` : null}
    <div>${shown.nodes.length ? html`<${Drawing} shown=${shown} places=${places} focus=${known ? focus : ""} about=${about} go=${go} drawing=${drawing} />`
      : html`<p class="empty">Nothing fits. <a href="#/graph">The whole graph</a></p>`}</div>
    ${known ? html`<section aria-label="Chosen"><h3><${Text} text=${focus} /></h3>
      <${Table} label="Neighbours" rows=${about} empty="It hangs together with nothing." columns=${[
        ["Edge", ({ type, source }) => `${source === focus || type !== "DEPENDS_ON" ? TYPES[type] : "needed by"}`],
        ["With", (edge) => html`<button type="button" class="link" onClick=${() => change({ focus: other(edge, focus) })}><${Text} text=${other(edge, focus)} /></button>`],
        ["Weight", (edge) => edge.weight.toFixed(1)],
      ]} /></section>` : html`<p class="faint">Choose a node (by click, or by keys: arrows move, Enter chooses, Esc lets go) to see what it hangs together with.</p>`}
    <${Command} text="hookgate capabilities graph" /></div>`;
}
