// Finding what is remembered: by a question, and as a message would recall it.

import { Button, Command, Download, Field, Table, Text, Time, Wrong, commandOf, html, useFilter, useOperation, useState } from "../lib/parts.js";
import { Taint, linkTo } from "./fact.js";

const FOUND = [
  ["What", (row) => html`<a href=${linkTo(row.id)}><${Text} text=${row.text} /></a>`],
  ["Kind", (row) => html`<span class="short">${row.kind}</span>`],
  ["At", (row) => html`<span class="short"><${Time} at=${row.at} /></span>`],
  ["Why", (row) => html`<${Text} text=${row.why.join("; ")} />`],
  ["Worth", (row) => html`<span class="short">${row.worth.toFixed(2)}</span>`],
  ["Tainted by", (row) => html`<${Taint} taint=${row.taint} />`],
  ["Whose", (row) => html`<${Text} text=${row.scope} />`],
];
const SHOWN = ["Shown", (row) => html`<span class=${row.shown ? "good" : "bad"}>${row.shown ? "yes" : "no"}</span> <${Text} text=${row.reason} />`];

/** A question whose answer is in the address.
 * @param {{fields: [string, string][], filter: Record<string, string>, change: (to: any) => void, again: () => void, children: any}} given
 *   `again` asks the same once more */
function Question({ fields, filter, change, again, children }) {
  const [typed, setTyped] = useState(Object.fromEntries(fields.map(([name]) => [name, filter[name] ?? ""])));
  const ask = (event) => {
    event.preventDefault();
    if (fields.every(([name]) => typed[name] === (filter[name] ?? ""))) again();
    else change(typed);
  };
  return html`<form class="bar" onSubmit=${ask}>
    ${fields.map(([name, label], number) => html`<${Field} label=${label} search=${number === 0} value=${typed[name]}
      onInput=${(value) => setTyped((before) => ({ ...before, [name]: value.trimStart() }))} />`)}
    <${Button} scope="read" type="submit" kind="primary" why=${typed[fields[0][0]] ? "" : "Say something first."}>${children}<//></form>`;
}

const given = (filter, names) => Object.fromEntries(names.filter((name) => filter[name]).map((name) => [name, filter[name]]));

export function Search() {
  const [filter, change] = useFilter();
  const asked = given(filter, ["query", "session", "as_of"]);
  const { data, problem, again } = useOperation("memory.search", asked.query ? { ...asked, limit: 50 } : null);
  const { query = "where do I live", ...more } = asked;
  return html`<div><${Question} filter=${filter} change=${change} again=${again} fields=${[["query", "A question, or words"], ["session", "As this session finds it"], ["as_of", "As of, such as 2024-05-15"]]}>Search<//>
    <${Wrong} problem=${problem} />
    ${asked.query ? html`<${Table} label="Found" rows=${problem ? [] : data?.lines} columns=${FOUND}
      empty=${html`Nothing that is remembered answers this. <a href="#/memory">Show all that is known</a>`} />`
    : html`<p class="empty">Ask what is remembered, now or as of a time.</p>`}
    <${Download} rows=${data?.lines} name="memory-search" />
    <${Command} text=${commandOf("hookgate memory search", { "": query, ...more })} /></div>`;
}

export function Recall() {
  const [filter, change] = useFilter();
  const asked = given(filter, ["message", "session"]);
  const { data, problem, again } = useOperation("memory.explain", asked.message ? asked : null);
  const { message = "what is my dog called?", ...more } = asked;
  return html`<div><${Question} filter=${filter} change=${change} again=${again} fields=${[["message", "A message"], ["session", "Said in the session (the latest without)"]]}>Explain<//>
    <${Wrong} problem=${problem} />
    ${data?.reason ? html`<p class="faint">Nothing would be recalled: <${Text} text=${data.reason} />.</p>` : null}
    ${data?.session ? html`<p class="faint">In <${Text} text=${data.session} />: ${data.tokens} of ${data.budget} tokens. Looked through: <${Text} text=${data.scopes.join(", ")} /></p>` : null}
    ${asked.message ? html`<${Table} label="Recalled" rows=${problem ? [] : data?.lines} columns=${[SHOWN, ...FOUND, ["Tokens", (row) => row.tokens]]}
      empty=${html`This message recalls nothing. <a href="#/memory">Show all that is known</a>`} />`
    : html`<p class="empty">Say a message, and see which lines the model would get to read with it, and why.</p>`}
    <${Download} rows=${data?.lines} name="memory-recall" />
    <${Command} text=${commandOf("hookgate memory explain", { "": message, ...more })} /></div>`;
}
