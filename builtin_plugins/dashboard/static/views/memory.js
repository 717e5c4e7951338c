// What is remembered: facts in time, by whom, tainted by what, and what took whose place.

import { Command, Download, Field, Fresh, Older, Table, Wrong, commandOf, html, useFilter, useRows } from "../lib/parts.js";
import { COLUMNS, Fact } from "./fact.js";
import { Recall, Search } from "./recall.js";

const KINDS = ["", "fact", "note", "turn"];
const PARTS = { "": ["What is known", Listed], search: ["Search", Search], recall: ["What a message recalls", Recall] };

/** @param {{rest: string[]}} given */
export function Memory({ rest }) {
  const [filter] = useFilter();
  if (rest[0]) return html`<${Fact} id=${rest.join("/")} />`;
  const show = Object.hasOwn(PARTS, filter.show) ? filter.show : "";
  const [, Part] = PARTS[show];
  return html`<nav aria-label="Parts">${Object.entries(PARTS).map(([name, [title]]) => html`
      <a href=${`#/memory${name ? `?show=${name}` : ""}`} aria-current=${name === show ? "page" : null}>${title}</a>`)}</nav>
    <div key=${show}><${Part} /></div>`;
}

function Listed() {
  const [filter, change] = useFilter();
  const { kind = "", scope = "", session = "" } = filter;
  const past = filter.past === "yes";
  const asked = Object.fromEntries(Object.entries({ kind, scope, session, past }).filter(([, value]) => value));
  const listed = useRows("memory.list", asked, { list: "rows", by: "before", keyOf: (row) => `${row.scope} ${row.id}`, every: 10_000 });
  return html`
    <p class="bar"><${Field} label="Scope" search value=${scope} onInput=${(value) => change({ scope: value.trim() })} />
      <${Field} label="Session" value=${session} onInput=${(value) => change({ session: value.trim() })} />
      <${Field} label="Kind" options=${KINDS} value=${kind} onInput=${(value) => change({ kind: value })} />
      <label><input type="checkbox" checked=${past} onChange=${(event) => change({ past: event.target.checked ? "yes" : "" })} /> also what is not known any more</label></p>
    <${Wrong} problem=${listed.problem} />
    ${listed.data && !listed.data.durable ? html`<p class="wrong">Nothing of it outlives the process: there is no store.</p>` : null}
    <p class="bar"><${Download} rows=${listed.rows} name="memory" /><${Fresh} rows=${listed} /></p>
    <${Table} label="Memory" rows=${listed.rows} keyOf=${(row) => `${row.scope} ${row.id}`} columns=${COLUMNS}
      empty=${Object.keys(asked).length ? html`Nothing fits. <a href="#/memory">Show all that is known</a>`
        : html`Nothing is known yet. Say in a <a href="#/chat">chat</a> “My dog is called Luna.”, and a fact comes here.`} />
    <${Older} rows=${listed} />
    <${Command} text=${commandOf("hookgate memory list", asked)} />`;
}
