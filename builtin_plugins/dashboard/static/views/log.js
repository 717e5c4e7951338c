// The log's tail, as it grows.

import { Command, Download, Field, Fresh, Table, Text, Time, Wrong, commandOf, html, useFilter, useGate, useOperation, useRef } from "../lib/parts.js";

const LEVELS = ["debug", "info", "warning", "error"];
const MOST = 500;
const KINDS = { debug: "faint", info: "good" };

const COLUMNS = [
  ["When", (line) => html`<${Time} at=${line.time} />`],
  ["Level", (line) => html`<span class=${KINDS[line.level] ?? "bad"}>${line.level}</span>`],
  ["What", (line) => html`<strong><${Text} text=${line.event} /></strong> ${line.logger === "hookgate" ? null : html`<span class="faint"><${Text} text=${line.logger} /></span> `}${Object.entries(line.fields).map(([name, value]) =>
    html`<span><span class="faint"><${Text} text=${name} />=</span><${Text} text=${value} /> </span>`)}`],
];

/** Lines, those that come too, but for while the pointer is on them.
 * @param {{level: string, search: string} | null} params null asks nothing */
function useTail(params) {
  const first = useOperation("log.tail", params && { ...params, limit: 200 });
  const since = params && first.data ? { ...params, after: first.data.next, limit: MOST } : null;
  const newest = useOperation("log.tail", since, { on: ["log"] });
  const shown = useRef({ of: "", count: 0 });
  const of = JSON.stringify(since);
  const come = since && newest.data && newest.of === of ? newest.data.lines : [];
  if (shown.current.of !== of) shown.current = { of, count: 0 };
  if (!document.querySelector("tbody:hover")) shown.current.count = come.length;
  const count = Math.min(shown.current.count, come.length);
  return {
    lines: first.data && [...first.data.lines, ...come.slice(0, count)].reverse().slice(0, MOST),
    problem: first.problem ?? newest.problem,
    rows: { fresh: come.length - count, all: first.again },
    level: first.data?.level,
  };
}

export function Log() {
  const gate = useGate();
  const [filter, change] = useFilter();
  const may = gate.may("operate");
  const { level = "debug", search = "" } = filter;
  const { lines, problem, rows, level: least } = useTail(may ? { level, search: search.slice(0, 200) } : null);
  if (!may) return html`<p class="empty">The log is for those with the scope operate.</p>`;
  return html`<div><${Wrong} problem=${problem} />
    ${problem && html`<p class="empty"><a href="#/system/log">Show all lines</a></p>`}
    <div class="bar"><${Field} search label="Search" value=${search} onInput=${(search) => change({ search })} />
      <${Field} label="Least level" value=${level} options=${LEVELS} onInput=${(level) => change({ level })} />
      <${Download} rows=${lines} name="log" lines /><${Fresh} rows=${rows} /></div>
    ${problem ? null : html`<${Table} label="Log" rows=${lines} keyOf=${(line) => String(line.seq)}
      empty=${html`No such line among the last 500. <code>[log] level</code> is ${least}: what is below it is not logged at all.`} columns=${COLUMNS} />`}
    <${Command} text=${commandOf("hookgate log tail", { level: level === "debug" ? "" : level, search, follow: true })} /></div>`;
}
