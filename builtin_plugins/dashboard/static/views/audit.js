// What was decided about tool calls and what came of them, and whether the record is whole.

import { Button, Command, Download, Field, Fresh, Older, Table, Text, Time, Wrong, html, short, useAction, useFilter, useGate, useRows } from "../lib/parts.js";

const FILTERS = ["kind", "tool", "session", "turn", "call", "outcome"];
const OUTCOMES = ["", "allow", "deny", "done", "failed", "denied", "cancelled", "timeout"];
const place = (row) => `${row.chain}/${row.seq}`;
const BAD = new Set(["deny", "denied", "failed", "timeout", "cancelled"]);

export function Audit() {
  const [filter, change] = useFilter();
  const params = Object.fromEntries(FILTERS.filter((name) => filter[name]).map((name) => [name, filter[name]]));
  const rows = useRows("audit.list", params, { list: "entries", by: "before", keyOf: place, every: 5_000 });
  const told = Object.entries(params).map(([name, value]) => ` --${name} '${value.replaceAll("'", "'\\''")}'`).join("");
  return html`
    <div class="bar">${FILTERS.map((name) => html`<${Field} label=${name[0].toUpperCase() + name.slice(1)} value=${filter[name] ?? ""}
      search=${name === "tool"} options=${name === "outcome" ? OUTCOMES : undefined} onInput=${(value) => change({ [name]: value })} />`)}</div>
    <${Chain} />
    <${Wrong} problem=${rows.problem} />
    <div class="bar"><${Download} rows=${rows.rows} name="audit" lines /><${Fresh} rows=${rows} /></div>
    <div>${params.call && rows.rows?.length ? html`<${Life} rows=${rows.rows} />` : html`<${Table} label="Audit" rows=${rows.rows} keyOf=${place}
      empty=${told ? html`Nothing fits this filter. <a href="#/audit">Show everything</a>` : "Nothing was decided yet. A tool call of a chat puts a row here."}
      columns=${[
        ["At", (row) => html`<${Time} at=${row.at} />`],
        ["Kind", (row) => html`<${Text} text=${row.kind} />`],
        ["Tool", (row) => html`<${Text} text=${row.tool} />`],
        ["Outcome", (row) => html`<span class=${BAD.has(row.outcome) ? "bad" : ""}><${Text} text=${row.outcome} /></span>`],
        ["Why", (row) => html`<${Text} text=${why(row.data)} />`],
        ["Call", (row) => row.call ? html`<a title=${row.call} href=${`#/audit?${new URLSearchParams({ call: row.call, turn: row.turn })}`}><${Text} text=${short(row.call)} /></a>`
          : html`<details><summary>data</summary><pre tabindex="0"><${Text} text=${JSON.stringify(row.data, null, 1)} /></pre></details>`],
        ["Turn", (row) => row.turn && html`<a title=${row.turn} href=${`#/turns/${encodeURIComponent(row.turn)}`}><${Text} text=${short(row.turn)} /></a>`],
        ["Session", (row) => html`<${Text} text=${row.session} />`],
        ["Rules", (row) => (row.kind === "tool_decided" ? html`<a href=${`#/policy?${explained(row)}`}>explain</a>` : null)],
      ]} />`}</div>
    <${Older} rows=${rows} />
    <${Command} text=${`hookgate audit list${told}`} />`;
}

/** What a row gives as its reason. */
const why = ({ reason = "", rule = "", by = "", error = "" }) => [reason || error, rule && `rule ${rule}`, by && `by ${by}`].filter(Boolean).join("; ");

/** All that was recorded of one call, from its beginning on. */
function Life({ rows }) {
  return html`<p><a href="#/audit">All rows</a></p>${[...rows].reverse().map((row) => html`<section key=${place(row)}>
    <h3><${Text} text=${row.kind} />: <span class=${BAD.has(row.outcome) ? "bad" : "good"}><${Text} text=${row.outcome} /></span></h3>
    <p><strong><${Text} text=${row.tool} /></strong> (<${Text} text=${row.category} />) in <${Text} text=${row.session} />, <${Time} at=${row.at} />, turn${" "}
      <a href=${`#/turns/${encodeURIComponent(row.turn)}`}><${Text} text=${row.turn} /></a>, row <${Text} text=${place(row)} /></p>
    ${row.kind === "tool_decided" ? html`<p><a href=${`#/policy?${explained(row)}`}>Explain it by the rules of now, or draft one for it</a></p>` : null}
    <dl>${Object.entries(row.data).filter(([, value]) => !empty(value)).map(([name, value]) => html`<dt><${Text} text=${name} /></dt>
      <dd><${Text} text=${typeof value === "string" ? value : JSON.stringify(value)} /></dd>`)}</dl></section>`)}`;
}

/** The call of a row, as the view Policy takes it. */
function explained({ tool, data: { arguments: given = {}, provenance = "", taint = [], agent = "", channel = "" } }) {
  return new URLSearchParams({ tool, arguments: JSON.stringify(given), provenance, taint: taint.join(" "), agent, channel });
}

const empty = (value) => value === "" || value === null || (typeof value === "object" && !Object.keys(value).length);

/** Whether the record is as it was written; it is read whole, so somebody has to ask. */
function Chain() {
  const gate = useGate();
  const { busy, problem, run, result } = useAction(() => gate.call("audit.verify"));
  return html`<section aria-label="Chain"><p class="buttons"><${Button} scope="read" busy=${busy} onClick=${run}>Verify the chain<//>
    <span role="status">${busy ? "Reading every row…" : result && html`<strong class=${result.ok ? "good" : "bad"}>${result.ok ? "ok" : "bad"}</strong>${" "}
      <${Text} text=${[`${result.rows} rows`, result.bad && `row ${result.bad}: ${result.why}`, result.unsealed && `${result.unsealed} from before there were seals`,
        ...Object.entries(result.foreign).map(([key, count]) => `${count} sealed with another key (${key})`),
        !result.durable && "no store: lost when the gateway stops"].filter(Boolean).join("; ")} />`}</span></p>
    ${result?.heads.length ? html`<details><summary>Heads, to be kept elsewhere</summary><pre tabindex="0"><${Text} text=${result.heads.join("\n")} /></pre></details>` : null}
    <${Wrong} problem=${problem} /></section>`;
}
