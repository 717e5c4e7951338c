// What a model would find for a message, and why.

import { Button, Command, Field, Table, Text, Wrong, commandOf, html, useFilter, useOperation, useState } from "../lib/parts.js";

const TIERS = ["Map of categories", "Summaries", "Full details"];

/** Why it was found, in words. @param {any} row */
function why(row) {
  const share = (name, value) => (value ? `${name} ${value.toFixed(2)}` : "");
  return [
    share("meaning", row.dense), share("words", row.lexical) + (row.words.length ? ` (${row.words.join(", ")})` : ""), share("related", row.graph),
    row.tag && `its tag ${row.tag}`, row.pulled_by && `brought along by ${row.pulled_by} (${row.edge})`,
  ].filter(Boolean).join("; ");
}

export function Finding() {
  const [filter, change] = useFilter();
  const { query = "" } = filter;
  const [typed, setTyped] = useState(query);
  const { data, problem, again } = useOperation("discover", query ? { query } : null);
  const columns = [
    ["Capability", (row) => html`<${Text} text=${row.id} />${row.available ? null : html` <span class="bad">not available</span>`}`],
    ["Sure", (row) => row.relevance.toFixed(2)],
    ["Why", (row) => html`<${Text} text=${why(row)} />`],
  ];
  const ask = (event) => {
    event.preventDefault();
    if (typed.trim() === query) again();
    else change({ query: typed.trim() });
  };
  return html`
    <form class="bar" onSubmit=${ask}>
      <${Field} label="A message, or what is needed" search value=${typed} onInput=${setTyped} />
      <${Button} scope="read" type="submit" kind="primary" why=${typed.trim() ? "" : "Say something first."}>Find<//></form>
    <${Wrong} problem=${problem} />
    ${query && !problem ? html`<${Table} label="Found" rows=${data?.found} keyOf=${(row) => row.id} columns=${columns}
      empty="Nothing is sure enough: the model would be offered nothing for this." />`
    : html`<p class="empty">Say what somebody would ask, and see what the model would be shown for it.</p>`}
    ${data?.problem ? html`<p class="faint">Meaning takes no part: <${Text} text=${data.problem} /></p>` : null}
    <section aria-label="What the model is shown">${(data?.tiers ?? []).map((tier, number) => tier.text ? html`<details><summary>${TIERS[number] ?? `Tier ${number + 1}`}: ${tier.tokens} tokens${tier.left_out.length
      ? `, no room for ${tier.left_out.length}` : ""}</summary><pre tabindex="0"><${Text} text=${tier.text} /></pre></details>` : null)}</section>
    <${Command} text=${commandOf("hookgate discover", { "": query || "what time is it" })} />`;
}
