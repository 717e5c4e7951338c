// How agents, skills, connectors and tools hang together.

import { Command, Download, Field, Table, Text, Wrong, html, plain, useEffect, useFilter, useGate, useMemo, useRef, useState } from "../lib/parts.js";
import { HEIGHT, WIDTH, curve, placed } from "../lib/layers.js";

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
  return { nodes, edges: [...uses, ...graph.edges].filter((edge) => nodes.has(edge.source) && nodes.has(edge.target)) };
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
  const [filter, change] = useFilter();
  const { graph, problem } = useGraph();
  const { text = "", agent = "", focus = "" } = filter;
  const types = new Set((filter.edges ?? USUAL).split(",").filter((type) => Object.hasOwn(TYPES, type)));
  const drawing = useRef(null);
  const held = useRef(focus);
  const all = useMemo(() => graph && whole(graph), [graph]);
  const shown = useMemo(() => all && chosen(all, types, text, agent), [all, text, agent, filter.edges]);
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
      <button type="button" class="small" onClick=${() => save(drawing.current)}>SVG</button><${Download} rows=${shown.edges} name="graph" /></div>
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

const other = (edge, id) => (edge.source === id ? edge.target : edge.source);

function Drawing({ shown, places, focus, about, go, drawing }) {
  const at = useRef("");
  /** Where the keys are: one node of all is reached by Tab, and arrows move on from there. */
  const stand = (id) => {
    const svg = drawing.current;
    svg.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    at.current = places.of.has(id) ? id : shown.nodes[0].id;
    const node = svg.querySelector(`[data-at="${places.of.get(at.current).number}"]`);
    node.setAttribute("tabindex", "0");
    return node;
  };
  useEffect(() => {
    const node = stand(focus || at.current);
    if (!focus || !places.of.has(focus)) return undefined;
    node.setAttribute("aria-pressed", "true");
    return () => node.setAttribute("aria-pressed", "false");
  }, [focus, shown]);
  const move = (event) => {
    const next = places.next(at.current, event.key);
    const to = { Escape: "", Enter: at.current, " ": at.current }[event.key];
    if (to === undefined && !next) return;
    event.preventDefault();
    if (event.key === "Escape" && !focus) return;
    if (to !== undefined) go(to);
    else stand(next).focus();
  };
  // A thousand nodes are drawn once: what is chosen is drawn above them.
  const below = useMemo(() => html`
    ${places.titles.map(({ x, title }) => html`<text x=${x} y="16" font-weight="600">${title}</text>`)}
    <g class="edges" fill="none" stroke="currentColor" stroke-opacity=".3">${shown.edges.map((edge) => html`<${Edge} edge=${edge} places=${places} />`)}</g>
    <g class="nodes">${shown.nodes.map((node) => html`<${Node} key=${node.id} node=${node} place=${places.of.get(node.id)}
      more=${{ role: "button", tabindex: -1, "aria-pressed": "false", "aria-label": plain(node.id) + (node.off ? ", not available" : ""),
        onClick: () => go(node.id), onFocus: () => stand(node.id) }} />`)}</g>`, [shown, places]);
  const near = new Set(focus ? [focus, ...about.map((edge) => other(edge, focus))] : []);
  return html`<div class="scroll graph" role="region" aria-label="Graph"><svg ref=${drawing} class=${focus ? "chosen" : ""} xmlns="http://www.w3.org/2000/svg" role="group" aria-label="Graph"
      width=${places.width} height=${places.height} viewBox=${`0 0 ${places.width} ${places.height}`} fill="currentColor" font-size="13" font-family="system-ui, sans-serif" onKeyDown=${move}>
    <g>${below}</g>
    <g class="above" aria-hidden="true"><g fill="none" stroke="currentColor">${about.map((edge) => html`<${Edge} edge=${edge} places=${places} />`)}</g>
      ${shown.nodes.filter(({ id }) => near.has(id)).map((node) => html`<${Node} key=${node.id} node=${node} place=${places.of.get(node.id)} strong=${node.id === focus} more=${{}} />`)}</g></svg></div>`;
}

function Edge({ edge, places }) {
  const [from, to] = [places.of.get(edge.source), places.of.get(edge.target)];
  return from && to && html`<path d=${curve(from, to)} stroke-dasharray=${edge.type === "DEPENDS_ON" ? null : "4 3"}><title>${
    plain(`${edge.source} ${TYPES[edge.type]} ${edge.target}`)}</title></path>`;
}

function Node({ node, place, strong = false, more }) {
  return html`<g ...${more} data-at=${more.role && place.number} class=${node.off ? "node off" : "node"} transform=${`translate(${place.x} ${place.y})`}>
    <rect width=${WIDTH} height=${HEIGHT - 4} rx="4" fill-opacity=${strong ? 0.25 : 0.06} stroke="currentColor" stroke-opacity=".5" stroke-dasharray=${node.off ? "2 2" : null} />
    <text x="6" y="13">${plain(cut(node.id))}</text><title>${plain(node.id)}</title></g>`;
}

const cut = (id) => {
  const name = id.slice(id.indexOf(":") + 1);
  return name.length > 26 ? `${name.slice(0, 25)}…` : name;
};

/** The drawing as a file. @param {SVGElement} drawing */
function save(drawing) {
  if (!drawing) return;
  const link = document.createElement("a");
  link.href = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  link.download = "graph.svg";
  link.click();
}
