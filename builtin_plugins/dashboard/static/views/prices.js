// What the models of agents cost.

import { Command, Table, Text, Wrong, html, useGate, useOperation } from "../lib/parts.js";

const SHOWN = [["Input", "input_tokens"], ["Output", "output_tokens"], ["Cache read", "cache_read_tokens"], ["Cache write", "cache_write_tokens"]];

export function Prices() {
  const gate = useGate();
  const { data, problem } = useOperation("prices.show", gate.may("read") ? {} : null, { on: ["reloaded"] });
  return html`<section><h3>Prices</h3><p class="faint">US dollars for each million tokens${data?.library ? html`; <${Text} text=${data.library} />` : null}.</p>
    <${Wrong} problem=${problem} />
    <${Table} label="Prices" rows=${data?.models} keyOf=${(one) => one.model} empty="No agent names a model: see [agents] of the settings."
      columns=${[
        ["Model", (one) => html`<${Text} text=${one.model} />`],
        ["Agents", (one) => html`<${Text} text=${one.agents.join(", ")} />`],
        ["Price", (one) => html`<span class=${one.state === "unknown" ? "bad" : ""}>${one.state}</span>${one.action ? html` <span class="faint"><${Text} text=${one.action} /></span>` : null}`],
        ...SHOWN.map(([name, kind]) => [name, (one) => html`<${Price} of=${one.prices[kind]} />`, "number"]),
        ["A call", (one) => (Number(one.fee) ? `$${one.fee}` : "–"), "number"],
        ["From", (one) => html`<span class="faint"><${Text} text=${one.source} /></span>`],
      ]} />
    <${Command} text="hookgate prices show" /></section>`;
}

function Price({ of }) {
  if (!of) return "–";
  return html`$${of.usd}${of.steps.map(({ above, usd }) => html` <span class="faint">$${usd} above ${above.toLocaleString("en")}</span>`)}`;
}
