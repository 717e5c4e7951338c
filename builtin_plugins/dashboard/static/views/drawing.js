// A graph as it is drawn: nodes in columns, edges between them, and what is chosen above the others.

import { html, plain, useEffect, useMemo, useRef } from "../lib/parts.js";
import { HEIGHT, WIDTH, curve } from "../lib/layers.js";

/** The other end of an edge. */
export const other = (edge, id) => (edge.source === id ? edge.target : edge.source);

/** Nodes and edges where they stand, by pointer and by keys.
 * @param {{shown: {nodes: any[], edges: any[]}, places: any, focus: string, about: any[], go: (id: string) => void,
 *   drawing: any}} given `focus` is the chosen node, `about` its edges */
export function Drawing({ shown, places, focus, about, go, drawing }) {
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
      more=${{ role: "button", tabindex: -1, "aria-pressed": "false", "aria-label": plain(node.id) + (node.off ? `, ${node.why ?? "not available"}` : ""),
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
  return from && to && html`<path d=${curve(from, to)} stroke-dasharray=${edge.dashed ? "4 3" : null}><title>${
    plain(`${edge.source} ${edge.says} ${edge.target}`)}</title></path>`;
}

function Node({ node, place, strong = false, more }) {
  return html`<g ...${more} data-at=${more.role && place.number} class=${node.off ? "node off" : "node"} transform=${`translate(${place.x} ${place.y})`}>
    <rect width=${WIDTH} height=${HEIGHT - 4} rx="4" fill-opacity=${strong ? 0.25 : 0.06} stroke="currentColor" stroke-opacity=".5" stroke-dasharray=${node.off ? "2 2" : null} />
    <text x="6" y="13">${plain(cut(node.name ?? node.id))}</text><title>${plain(node.id)}</title></g>`;
}

const cut = (id) => {
  const name = id.slice(id.indexOf(":") + 1);
  return name.length > 26 ? `${name.slice(0, 25)}…` : name;
};

/** The drawing as a file. @param {SVGElement} drawing @param {string} name */
export function save(drawing, name) {
  if (!drawing) return;
  const link = document.createElement("a");
  link.href = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  link.download = `${name}.svg`;
  link.click();
}
