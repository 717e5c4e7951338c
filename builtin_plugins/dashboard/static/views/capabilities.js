// What agents can use, whoever has it; what may be done to it; what waits to be accepted.

import { Button, Command, Download, Field, Fresh, Older, Table, Text, Wrong, commandOf, html, useAction, useCallback, useEffect, useFilter, useGate, useMemo, useOperation, useRows, useState } from "../lib/parts.js";
import { Accepting } from "./acceptance.js";
import { Capability, Buttons, flagsOf } from "./capability.js";
import { Finding } from "./discovery.js";

const KINDS = ["", "tool", "skill", "connector"];
const STATUSES = ["", "ready", "disabled", "manageable-but-pending-auth", "unavailable"];
const PARTS = { "": ["All", Listed], find: ["What a model finds", Finding], accept: ["To accept", Accepting] };

const linkTo = (record) => `#/capabilities/${encodeURIComponent(record.id)}`;

/** @param {{rest: string[]}} given */
export function Capabilities({ rest }) {
  const [filter] = useFilter();
  if (rest[0]) return html`<${Capability} id=${rest.join("/")} />`;
  const show = Object.hasOwn(PARTS, filter.show) ? filter.show : "";
  const [, Part] = PARTS[show];
  return html`<nav aria-label="Parts">${Object.entries(PARTS).map(([name, [title]]) => html`
      <a href=${`#/capabilities${name ? `?show=${name}` : ""}`} aria-current=${name === show ? "page" : null}>${title}</a>`)}</nav>
    <div key=${show}><${Part} /></div>`;
}

/** What is shown of a record. @param {any[]} tools @param {(record: any) => void} keep takes what it became */
function columnsOf(tools, keep) {
  const declared = Object.fromEntries(tools.map((tool) => [tool.name, tool]));
  const own = (row) => (row.runtime === "native" && row.kind === "tool" ? declared[row.source_key] : null);
  return [
    ["Name", (row) => html`<a href=${linkTo(row)}><${Text} text=${row.name || row.source_key} /></a>
      <div class="faint"><${Text} text=${row.description.slice(0, 100)} /></div>`],
    ["Kind", (row) => html`<span class="short">${row.kind}</span>`],
    ["Runtime", (row) => html`<${Text} text=${row.runtime} />${row.agent_id ? html`<div class="faint"><${Text} text=${row.agent_id} /></div>` : null}`],
    ["Tier", (row) => html`<span class="short">${row.manageability}</span>`],
    ["Status", (row) => html`<span class=${row.status === "ready" ? "short good" : "short bad"}>${row.status}</span>${own(row)?.quarantine
      ? html` <a class="bad" href="#/capabilities?show=accept">waits</a>` : null}`],
    ["Flags", (row) => html`<${Text} text=${flagsOf(own(row)?.flags)} /> <span class="faint">risk ${row.risk}</span>`],
    ["From", (row) => html`<${Text} text=${row.provenance} />`],
    ["Do", (row) => html`<${Buttons} record=${row} done=${keep} />`],
  ];
}

function Listed() {
  const gate = useGate();
  const [filter, change] = useFilter();
  const { runtime = "", kind = "", status = "", agent = "", text = "" } = filter;
  const asked = Object.fromEntries(Object.entries({ runtime, kind, status, agent, text }).filter(([, value]) => value));
  const listed = useRows("inventory.list", { ...asked, limit: 100 }, { list: "records", by: "after", keyOf: (row) => row.id, stay: true });
  const tools = useOperation("tools.list", {}, { on: ["reloaded"] });
  const [changed, setChanged] = useState({});
  const keep = useCallback((record) => setChanged((before) => ({ ...before, [record.id]: record })), []);
  useEffect(() => {
    // Whoever changes it: the row stays where it is, and says what it is now.
    const heard = ({ detail: { data } }) => gate.call("inventory.show", { id: data.id }).then(({ record }) => keep(record), () => {});
    return gate.hear(["inventory_changed"], heard);
  }, []);
  const rows = listed.rows?.map((row) => changed[row.id] ?? row);
  const columns = useMemo(() => columnsOf(tools.data?.tools ?? [], keep), [tools.data]);
  const sources = listed.data?.sources ?? [];
  const runtimes = ["", ...new Set([...sources.map(({ id }) => id), ...(rows ?? []).map((row) => row.runtime), runtime].filter(Boolean))];
  const narrowed = Object.keys(asked).length > 0;
  return html`
    <p class="bar"><${Field} label="Text" search value=${text} onInput=${(value) => change({ text: value })} />
      <${Field} label="Runtime" options=${runtimes} value=${runtime} onInput=${(value) => change({ runtime: value })} />
      <${Field} label="Kind" options=${KINDS} value=${kind} onInput=${(value) => change({ kind: value })} />
      <${Field} label="Status" options=${STATUSES} value=${status} onInput=${(value) => change({ status: value })} />
      <${Field} label="Agent" value=${agent} onInput=${(value) => change({ agent: value })} /></p>
    <${Wrong} problem=${listed.problem} />
    <${Table} label="Capabilities" rows=${rows} keyOf=${(row) => row.id} columns=${columns}
      empty=${narrowed ? html`Nothing fits. <a href="#/capabilities">Show all of them</a>`
        : "There is nothing yet. A plugin brings tools; a skill is installed below."} />
    <${Older} rows=${listed} word="More" />
    <p class="bar"><span class="faint">${rows?.length ?? 0} of ${listed.data?.total ?? 0}</span> <${Download} rows=${rows} name="capabilities" /><${Fresh} rows=${listed} /></p>
    <${Sources} sources=${sources} />
    <${Install} done=${listed.again} />
    <${Command} text=${commandOf("hookgate inventory list", asked)} />`;
}

function Sources({ sources }) {
  const bad = sources.filter((one) => !one.ok);
  return html`<details open=${bad.length > 0}><summary>${sources.length} sources${bad.length ? html`, <span class="bad">${bad.length} cannot be read</span>` : ""}</summary>
    <dl>${sources.map((one) => html`<dt><${Text} text=${one.id} /></dt><dd>${one.ok ? `${one.records} records`
      : html`<span class="bad"><${Text} text=${one.why} /></span>${one.stale ? "; what it had last is shown" : ""}`}</dd>`)}</dl></details>`;
}

const BLANK = { key: "", agent: "", description: "", content: "" };

function Install({ done }) {
  const gate = useGate();
  const [skill, setSkill] = useState(BLANK);
  const set = (name) => (value) => setSkill((before) => ({ ...before, [name]: value }));
  const { busy, problem, run, result } = useAction(async () => {
    const { record } = await gate.call("inventory.install", skill);
    setSkill(BLANK);
    done();
    return record;
  });
  return html`<details><summary>Install a skill</summary>
    <p class="bar"><${Field} label="Name" value=${skill.key} onInput=${set("key")} />
      <${Field} label="For the agent (all without)" value=${skill.agent} onInput=${set("agent")} />
      <${Field} label="What it does" value=${skill.description} onInput=${set("description")} /></p>
    <label class="field say"><span>Text</span><textarea rows="5" value=${skill.content} onInput=${(event) => set("content")(event.target.value)}></textarea></label>
    <p class="buttons"><${Button} scope="operate" busy=${busy} why=${skill.key && skill.content ? "" : "Give it a name and a text."} onClick=${run}>Install<//>
      <span role="status">${result && html`Installed: <a href=${linkTo(result)}><${Text} text=${result.name} /></a>`}</span></p>
    <${Wrong} problem=${problem} /></details>`;
}
