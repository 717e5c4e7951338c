// The settings by layer: each value, who has the last word on it, and where.

import { Command, Download, Field, Table, Text, Wrong, commandOf, html, useFilter, useGate, useOperation } from "../lib/parts.js";

const LAYERS = ["", "default", "program", "file", "environment", "command line"];

/** @param {string} key */
const sectionOf = (key) => key.match(/^plugin\.("[^"]*"|[\w-]+)|^[^.[]+/)?.[0] ?? key;

const COLUMNS = [
  ["Key", (row) => html`<code><${Text} text=${row.key} /></code>`],
  ["Value", (row) => html`<${Text} text=${JSON.stringify(row.value)} />${row.restart ? html` <span class="bad">waits for a restart</span>` : null}`],
  ["Set by", (row) => row.layer],
  ["Where", (row) => html`<${Text} text=${row.place} />`],
];

export function Settings() {
  const gate = useGate();
  const [filter, change] = useFilter();
  const may = gate.may("operate");
  const { data, problem } = useOperation("config.show", may ? { all: true } : null, { on: ["reloaded"] });
  if (!may) return html`<p class="empty">Settings are for those with the scope operate.</p>`;
  const { section = "", layer = "set", search = "" } = filter;
  const rows = data?.settings.filter((row) =>
    (!section || sectionOf(row.key) === section)
    && (layer === "any" || (layer === "set" ? row.layer !== "default" : row.layer === layer))
    && `${row.key} ${JSON.stringify(row.value)} ${row.place}`.toLowerCase().includes(search.toLowerCase()));
  const waits = data?.settings.filter((row) => row.restart).length;
  const sections = ["", ...new Set([section, ...(data?.settings ?? []).map((row) => sectionOf(row.key))].filter(Boolean))];
  return html`<div><${Wrong} problem=${problem} />
    <div class="bar"><${Field} search label="Search" value=${search} onInput=${(search) => change({ search })} />
      <${Field} label="Section" value=${section} options=${sections} onInput=${(section) => change({ section })} />
      <${Field} label="Set by" value=${layer === "any" ? "" : layer} options=${["set", ...LAYERS]} onInput=${(layer) => change({ layer: layer || "any" })} />
      <${Download} rows=${rows} name="settings" /></div>
    ${waits ? html`<p class="bad">${waits} changed since the start, and wait for a restart.</p>` : null}
    <${Table} label="Settings" rows=${rows} keyOf=${(row) => row.key}
      empty=${html`Nothing is set so. <a href="#/system/settings?layer=any">Show all, defaults too</a>`} columns=${COLUMNS} />
    <${Command} text=${commandOf("hookgate config show", { "": section, all: layer === "any" || layer === "default" })} /></div>`;
}
