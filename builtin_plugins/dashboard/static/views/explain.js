// One call that is not made: what every rule in force says of it, and which one decides.

import { Button, Command, Download, Field, Table, Text, Wrong, html, shell, useAction, useEffect, useFilter, useGate, useState } from "../lib/parts.js";
import { Effect, Rule } from "./rules.js";

const CAME = ["external_user", "channel", "inter_session", "scheduled", "tool_result", "internal_system"];

/** The text of arguments as an object. @param {string} text */
function argumentsOf(text) {
  let found;
  try {
    found = JSON.parse(text || "{}");
  } catch (error) {
    throw new Error(`The arguments are no JSON: ${error.message}`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("The arguments are no JSON object.");
  return found;
}

const words = (text) => text.split(/[\s,]+/).filter(Boolean);

const focusEditor = () => /** @type {HTMLTextAreaElement | null} */ (document.querySelector(".editors textarea"))?.focus();

/** @param {{onDraft: (call: any, found: any) => void}} given what begins a rule from a call */
export function Explain({ onDraft }) {
  const gate = useGate();
  const [filter] = useFilter();
  // A link from a row of the audit brings the tool, its arguments and its circumstances.
  const [given, setGiven] = useState({
    tool: filter.tool ?? "", arguments: filter.arguments ?? "{}", provenance: filter.provenance || CAME[0],
    taint: filter.taint ?? "", before: filter.before ?? "", agent: filter.agent || "main", channel: filter.channel || "cli",
  });
  const [found, setFound] = useState(null);
  const field = (label, name, more) => html`<${Field} label=${label} value=${given[name]} ...${more}
    onInput=${(value) => setGiven({ ...given, [name]: value })} />`;
  const { busy, problem, run } = useAction(async () => {
    setFound(null);
    const { tool, provenance, agent, channel } = given;
    const call = { tool, provenance, agent, channel, arguments: argumentsOf(given.arguments), taint: words(given.taint) };
    const said = await gate.call("policy.explain", { ...call, before: words(given.before) });
    setFound({ call, said });
  });
  useEffect(() => { if (filter.tool) run(); }, []);
  const many = (option, text) => words(text).flatMap((one) => [option, one]);
  const command = ["hookgate", "policy", "explain", given.tool || "TOOL", "--arguments", given.arguments, "--provenance", given.provenance,
    "--agent", given.agent, "--channel", given.channel, ...many("--taint", given.taint), ...many("--before", given.before)];
  return html`<section><h3>Explain a call</h3><form class="bar" onSubmit=${(event) => { event.preventDefault(); run(); }}>
      ${field("Tool", "tool", { search: true })}${field("Arguments, JSON", "arguments")}
      ${field("The turn came in", "provenance", { options: CAME })}${field("Tainted by", "taint")}
      ${field("Called before", "before")}${field("Agent", "agent")}${field("Channel", "channel")}
      <${Button} scope="read" kind="primary" type="submit" busy=${busy} why=${given.tool ? "" : "Which tool?"}>Explain<//></form>
    <${Wrong} problem=${problem} />
    <div aria-live="polite">${found ? html`<${Found} found=${found.said} />
      <p class="buttons"><button type="button" onClick=${() => { onDraft(found.call, found.said); focusEditor(); }}>Draft a rule for this call</button></p>` : null}</div>
    <${Command} text=${shell(command)} /></section>`;
}

function Found({ found: { tool, known, flags, profile, rules, decided } }) {
  const said = Object.entries(flags).map(([name, value]) => `${name} ${value === null ? "unknown" : value ? "yes" : "no"}`).join(", ");
  return html`<p><${Effect} effect=${decided.effect} /> by <${Text} text=${decided.rule || "nothing"} />
      ${decided.why ? html`: <${Text} text=${decided.why} />` : null}</p>
    <p class="faint"><${Text} text=${tool} />${known ? "" : " (the gateway has no such tool)"}: <${Text} text=${said} />; profile ${profile}</p>
    ${decided.effect === "rewrite" ? html`<pre tabindex="0" aria-label="Arguments afterwards"><${Text} text=${JSON.stringify(decided.arguments, null, 1)} /></pre>` : null}
    <${Table} label="Rules" rows=${rules} keyOf=${(rule) => rule.rule}
      empty=${html`No rules are in force; lists and the profile decide. <code>rules</code> of [plugin.policy] names files of them; begin one below.`}
      columns=${[
        ["Rule", (rule) => html`<${Rule} name=${rule.rule} mode=${rule.mode} />`],
        ["State", (rule) => rule.state],
        ["Verdict", (rule) => (rule.effect ? html`<${Effect} effect=${rule.effect} />` : "–")],
        ["Why", (rule) => html`<${Text} text=${rule.why} />`],
        ["Stands in", (rule) => html`<span class="faint"><${Text} text=${rule.place} /></span>`],
      ]} /><${Download} name="explained" rows=${rules} />`;
}
