// One capability: all that is known of it.

import { Button, Command, Text, Wrong, commandOf, html, useAction, useGate, useOperation, useState } from "../lib/parts.js";

/** What a tool does to the world; what it does not say is marked. @param {Record<string, boolean | null> | undefined} flags */
export const flagsOf = (flags) => Object.entries(flags ?? {}).filter(([, value]) => value !== false)
  .map(([name, value]) => name.replaceAll("_", " ") + (value === null ? "?" : "")).join(", ");

/** What the record itself offers, and nothing else; or what stands there instead.
 * @param {{record: any, done: (record: any) => void}} given */
export function Buttons({ record, done }) {
  const gate = useGate();
  const { busy, problem, run } = useAction(async (action) => done((await gate.call(`inventory.${action}`, { id: record.id })).record));
  if (!record.buttons.length) return html`<span class="faint"><${Text} text=${record.note || "–"} /></span>`;
  return html`${record.buttons.map(({ action, enabled, hint }) => html`
      <${Button} scope="operate" kind="small" busy=${busy} why=${enabled ? "" : hint || "This cannot be done now."}
        onClick=${() => run(action)}>${action}<//>${enabled ? null : html` <span class="faint"><${Text} text=${hint} /></span>`}`)}
    <${Wrong} problem=${problem} />`;
}

/** @param {{id: string}} given */
export function Capability({ id }) {
  const found = useOperation("inventory.show", { id }, { on: ["inventory_changed"] });
  const [mine, setMine] = useState(null);
  const record = mine ?? found.data?.record;
  const native = record?.runtime === "native";
  const known = useOperation("capabilities.show", native ? { id: `${record.kind}:${record.source_key}` } : null);
  const tools = useOperation("tools.list", native && record.kind === "tool" ? { name: record.source_key } : null);
  const back = html`<p><a href="#/capabilities">All capabilities</a></p>`;
  if (!record) return html`<${Wrong} problem=${found.problem} />${found.problem ? html`<p class="empty">It is not there.</p>` : null}${back}`;
  const tool = tools.data?.tools[0];
  const more = known.data;
  const facts = [
    ["Id", record.id], ["Kind", record.kind], ["Runtime", record.runtime], ["Scope", record.agent_id ? `agent ${record.agent_id}` : record.scope],
    ["Tier", record.manageability], ["Status", record.status], ["Risk", record.risk], ["From", record.provenance], ["Read from", record.source],
    ["Why not", [...record.diagnostics, ...(more?.unavailable_because ?? [])].join("; ")], ["What to do", record.hint],
    ["Brought by", tool?.plugin], ["Runs in", tool?.sandbox], ["Category", more?.category], ["Flags", flagsOf(tool?.flags ?? more?.flags)],
    ["Digest", tool?.digest], ["Waits since", tool?.quarantine], ["Tags", more?.tags.join(", ")], ["Needs tools", more?.required_tools.join(", ")],
    ["Needs secrets", more?.required_secrets.join(", ")], ["Asked for as", more?.examples.join("; ")],
  ].filter(([, value]) => value);
  return html`${back}<h3><${Text} text=${record.name || record.source_key} /></h3>
    <p><${Text} text=${record.description} /></p>
    <p class="buttons"><${Buttons} record=${record} done=${setMine} /></p>
    <dl>${facts.map(([name, value]) => html`<dt>${name}</dt><dd><${Text} text=${value} /></dd>`)}</dl>
    ${tool?.quarantine ? html`<p><a href="#/capabilities?show=accept">What changed, and accept it</a></p>` : null}
    <${Whole} title="Input" text=${more?.input_schema ? JSON.stringify(more.input_schema, null, 1) : ""} />
    <${Whole} title="Text" text=${more?.content} />
    <${Command} text=${commandOf("hookgate inventory show", { "": record.id })} />`;
}

function Whole({ title, text }) {
  return text ? html`<h3>${title}</h3><pre tabindex="0" aria-label=${title}><${Text} text=${text} /></pre>` : null;
}
