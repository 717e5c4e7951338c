// The rules in force in their order: what they look at, and how often each of them had a say.

import { Command, Download, Table, Text, Time, Wrong, html, useOperation } from "../lib/parts.js";

/** A verdict in its colour. @param {{effect: string}} given */
export const Effect = ({ effect }) =>
  html`<strong class=${effect === "deny" ? "bad" : effect === "allow" ? "good" : ""}>${effect}</strong>`;

/** What one rule is called, and whether it only watches. */
export const Rule = ({ name, mode }) => html`<${Text} text=${name} />${mode === "shadow" ? html` <span class="faint">shadow</span>` : null}`;

/** Which rules were exercised, and which nothing exercises.
 * @param {{rows: any[], label: string, name: string}} given as `policy.test` and `policy.replay` return them */
export function Coverage({ rows, label, name }) {
  if (!rows.length) return null;
  const idle = rows.filter((row) => !row.held && !row.unknown);
  return html`<p><span class=${idle.length ? "bad" : "good"}>${rows.length - idle.length} of ${rows.length} rules had something to say.</span>
      ${idle.length ? html` Nothing concerned <${Text} text=${idle.map((row) => row.rule).join(", ")} />.` : null}</p>
    <${Download} name=${name} rows=${rows} />
    <${Table} label=${label} rows=${rows} keyOf=${(row) => row.rule} empty="" columns=${[
      ["Rule", (row) => html`<${Rule} name=${row.rule} mode=${row.mode} />`],
      ["Decided", (row) => row.decisive, "number"],
      ["Held", (row) => row.held, "number"],
      ["Could not be said", (row) => row.unknown, "number"],
      ["Did not hold", (row) => row.failed, "number"],
      ...(rows[0].effects ? [
        ["Came to", (row) => `${row.mode === "shadow" ? "would " : ""}${Object.entries(row.effects).map(([effect, count]) => `${effect} ${count}×`).join(", ")}` || "–"],
        ["Last", (row) => row.last && html`<${Time} at=${row.last} />`],
      ] : []),
    ]} />`;
}

export function Rules() {
  const { data, problem } = useOperation("policy.rules", {}, { on: ["reloaded"], every: 10_000 });
  return html`<section><h3>Rules in force</h3>
    ${data ? html`<p class="faint">All of them are looked at, and the strictest that holds counts. Where none has a say, the profile
      ${" "}${data.profile} does. Counted since <${Time} at=${data.since} />, when this gateway started;
      ${" "}what they did before then, a replay by the rules in force says.</p>` : null}
    <${Wrong} problem=${problem} />
    <${Table} label="Rules in force" rows=${data?.rules ?? (problem ? [] : null)} keyOf=${(row) => row.rule}
      empty=${html`No rules are in force; lists and the profile decide. <code>rules</code> of [plugin.policy] names files of them; write one below.`}
      columns=${[
        ["Rule", (row) => html`<${Rule} name=${row.rule} mode=${row.mode} />${row.description ? html`<br /><span class="faint"><${Text} text=${row.description} /></span>` : null}`],
        ["Verdict", (row) => html`<${Effect} effect=${row.effect} />`],
        ["About", (row) => html`<${Text} text=${told(row.says) || "every call"} />`],
        ["Had a say", (row) => (row.mode === "shadow" ? `would have ${row.would}×` : `${row.decided}×`), "number"],
        ["Last", (row) => (row.last ? html`<${Time} at=${row.last} />` : "never")],
        ["Stands in", (row) => html`<span class="faint"><${Text} text=${row.place} /></span>`],
      ]} />
    <${Download} name="rules" rows=${data?.rules} /><${Command} text="hookgate policy rules" /></section>`;
}

/** What a rule looks at, in few words. @param {any} says */
function told(says) {
  if (Array.isArray(says)) return says.join(" or ");
  if (typeof says !== "object" || says === null) return String(says);
  return Object.entries(says).map(([key, value]) => `${key === "match" ? "" : `${key} `}${told(value)}`).join(", ");
}
