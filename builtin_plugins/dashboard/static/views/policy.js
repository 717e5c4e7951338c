// Rules: those in force, one call explained, a draft from its text to what it flips, and what the profile says.

import { Command, Download, Field, Table, Text, Wrong, html, useFilter, useGate, useOperation, useState } from "../lib/parts.js";
import { draftOf } from "./draft.js";
import { Editor, kept } from "./editor.js";
import { Explain } from "./explain.js";
import { Replay } from "./replay.js";
import { Effect, Rules } from "./rules.js";

export function Policy() {
  const gate = useGate();
  const [texts, setTexts] = useState(kept);
  if (!gate.may("read")) return html`<p class="empty">Rules are for those with the scope read.</p>`;
  const write = (changes) => setTexts({ ...Object.assign(kept, changes) });
  return html`<${Rules} /><${Explain} onDraft=${(call, found) => write(draftOf(call, found))} />
    <${Editor} texts=${texts} write=${write} /><${Replay} texts=${texts} /><${Verdicts} />`;
}

const any = (name) => (name === "any" ? "" : name);

function Verdicts() {
  const [filter, change] = useFilter();
  const { data, problem } = useOperation("policy.table", filter.profile ? { profile: filter.profile } : {}, { on: ["reloaded"] });
  const rows = data?.rows.filter((row) =>
    (!filter.flag || row.flag === filter.flag) && (!filter.effect || row.effect === filter.effect));
  const flags = [...new Set(data?.rows.map((row) => row.flag) ?? [])];
  return html`<section><h3>What the profile says</h3><p class="faint">Where no list and no rule has a say.</p>
    <${Wrong} problem=${problem} />
    ${problem && problem.code !== "away" ? html`<p class="empty">Nothing can be shown for this filter. <a href="#/policy">Policy without a filter</a></p>` : null}
    ${data ? html`<div class="bar">
        <${Field} label="Profile" value=${data.profile} options=${data.profiles} onInput=${(profile) => change({ profile: any(profile) })} />
        <${Field} label="Flag" value=${filter.flag ?? ""} options=${["", ...flags]} search onInput=${(flag) => change({ flag })} />
        <${Field} label="Verdict" value=${filter.effect ?? ""} options=${["", "allow", "ask", "deny"]} onInput=${(effect) => change({ effect })} />
        <${Download} name="verdicts" rows=${rows} />
      </div>
      <${Table} label="Verdicts" rows=${rows}
        empty=${html`No verdict fits this filter. <a href="#/policy">Policy without a filter</a>`}
        columns=${[
          ["Flag", (row) => row.flag],
          ["Is", (row) => row.value],
          ["The turn came in", (row) => row.provenance],
          ["Tainted", (row) => (row.tainted ? "yes" : "no")],
          ["Verdict", (row) => html`<${Effect} effect=${row.effect} />`],
          ["Rule", (row) => html`<${Text} text=${row.rule} />`],
        ]} />` : null}
    <${Command} text=${`hookgate policy table${data ? ` --profile ${data.profile}` : ""}`} /></section>`;
}
