// The last turns, by filters.

import { Command, Download, Field, Fresh, Older, Table, Text, Time, Wrong, html, short, useFilter, useGate, useRows } from "../lib/parts.js";
import { BAD, Turn } from "./turn.js";

const ENDINGS = ["", "running", "done", "awaiting_client", "refused", "failed", "cancelled"];
const YES_OR_NO = ["", "yes", "no"];
const FILTERS = ["session", "agent", "plugin", "ending", "slower", "tainted", "denied"];
const LABELS = { slower: "Slower than ms" };

export function Turns({ rest }) {
  return rest[0] ? html`<${Turn} id=${rest[0]} key=${rest[0]} />` : html`<${List} />`;
}

/** What the operation takes, of what stands in the address; what means nothing there is left out. */
function wanted(filter) {
  const params = {};
  for (const name of ["session", "agent", "plugin"]) if (filter[name]) params[name] = filter[name];
  if (ENDINGS.includes(filter.ending) && filter.ending) params.ending = filter.ending;
  if (Number(filter.slower) > 0) params.slower = Number(filter.slower);
  for (const name of ["tainted", "denied"]) if (["yes", "no"].includes(filter[name])) params[name] = filter[name] === "yes";
  if (filter.hooks === "timed") params.hooks = true;
  return params;
}

function List() {
  const [filter, change] = useFilter();
  const params = wanted(filter);
  const rows = useRows("turn.list", params, { list: "turns", by: "before", keyOf: (row) => row.id, on: ["done"], every: 5_000, rest: 3_000 });
  const filtered = Object.keys(params).some((name) => name !== "hooks");
  const gate = useGate();
  // What ran and is among the newest no longer has ended since, where only what runs is asked for.
  const over = (row) => row.ending === "running" && rows.data && !rows.data.turns.some(({ id }) => id === row.id);
  const options = { ending: ENDINGS, tainted: YES_OR_NO, denied: YES_OR_NO };
  return html`<div>
    <div class="bar">${FILTERS.map((name) => html`<${Field} label=${LABELS[name] ?? name[0].toUpperCase() + name.slice(1)} value=${filter[name] ?? ""}
      search=${name === "session"} options=${options[name]} onInput=${(value) => change({ [name]: value })} />`)}
      ${gate.may("operate") ? html`<${Field} label="Hooks" value=${params.hooks ? "timed" : "not timed"} options=${["not timed", "timed"]}
        onInput=${(value) => change({ hooks: value === "timed" ? value : "" })} />` : null}</div>
    ${params.hooks ? html`<p class="faint" role="status">Hooks of turns are timed while this stands here, and two minutes longer: each turn costs a quarter more meanwhile.</p>` : null}
    <${Wrong} problem=${rows.problem} />
    <div class="bar"><${Download} rows=${rows.rows} name="turns" /><${Fresh} rows=${rows} /></div>
    <${Table} label="Turns" rows=${rows.rows} keyOf=${(row) => row.id}
      empty=${filtered ? html`No turn fits this filter. <a href="#/turns">Show all</a>` : html`No turn has run yet. <a href="#/chat">Say something</a>, and it stands here.`}
      columns=${[
        ["Turn", (row) => html`<a title=${row.id} href=${`#/turns/${encodeURIComponent(row.id)}`}><${Text} text=${short(row.id)} /></a>`],
        ["Began", (row) => html`<${Time} at=${row.started} />`],
        ["ms", (row) => Math.floor(row.milliseconds).toLocaleString("en"), "number"],
        ["Ending", (row) => html`<span class=${BAD.has(row.ending) ? "bad" : ""}><${Text} text=${row.code ? `${row.ending}: ${row.code}` : over(row) ? "ended" : row.ending} /></span>`],
        ["Agent", (row) => html`<${Text} text=${row.agent} />`],
        ["Session", (row) => html`<${Text} text=${row.session} />`],
        ["Tokens", (row) => `${row.input_tokens} in, ${row.output_tokens} out`],
        ["Tools", (row) => html`<${Text} text=${row.tools.join(", ")} />${row.denied ? html` <span class="bad">${row.denied} denied</span>` : null}`],
        ["Tainted by", (row) => html`<${Text} text=${row.taint.join(", ")} />`],
      ]} />
    <${Older} rows=${rows} />
    <${Command} text=${`hookgate turns list${told(params)}`} /></div>`;
}

const told = (params) => Object.entries(params).map(([name, value]) => (value === true ? ` --${name}` : value === false ? ` --no-${name}` : ` --${name} '${String(value).replaceAll("'", "'\\''")}'`)).join("");
