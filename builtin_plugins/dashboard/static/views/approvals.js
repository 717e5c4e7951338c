// Questions about tool calls: every byte of what would run, and the answer.

import { Button, Command, Field, Table, Text, Time, Wrong, html, useAction, useEffect, useGate, useOperation, useState } from "../lib/parts.js";

export function Approvals() {
  const gate = useGate();
  const listed = useOperation("approvals.list", gate.may("approve") ? {} : null, { on: ["approval"], every: 15_000 });
  const ended = useEnded(gate);
  if (!gate.may("approve")) return html`<p class="empty">Questions are for those with the scope approve.</p>`;
  const over = new Set(ended.map(({ id }) => id));
  const open = (listed.data?.approvals ?? []).filter(({ id }) => !over.has(id));
  return html`
    <${Wrong} problem=${listed.problem} />
    ${listed.data && !open.length ? html`<p class="empty">No tool call waits for an answer. One comes here when a rule says <code>ask</code>.</p>` : null}
    ${open.map((question) => html`<${Question} key=${question.id} question=${question} done=${listed.again} />`)}
    ${ended.length ? html`<section><h3>Answered just now</h3><ul>${ended.map(({ id, tool, state, by, why }) => html`
      <li key=${id}><strong><${Text} text=${tool} /></strong>: ${state}${by ? html` by <${Text} text=${by} />` : null}${why ? html` (<${Text} text=${why} />)` : null}</li>`)}</ul></section>` : null}
    <${Grants} />
    <${Command} text="hookgate approvals list" />`;
}

/** The last questions that ended, whoever has answered them. */
function useEnded(gate) {
  const [ended, setEnded] = useState([]);
  useEffect(() => {
    const heard = ({ detail: { data } }) => {
      if (data.state !== "pending") setEnded((before) => [data, ...before].slice(0, 10));
    };
    return gate.hear(["approval"], heard);
  }, []);
  return ended;
}

const LABELS = { "allow-once": "Allow once", "allow-always": "Allow always", deny: "Deny" };

/** One question, with the answer.
 * @param {{question: any, done: () => void}} given */
export function Question({ question, done }) {
  const gate = useGate();
  const [scope, setScope] = useState(question.scopes[0] ?? "");
  const [reason, setReason] = useState("");
  const { busy, problem, run } = useAction(async (decision) => {
    const { id, digest } = question;
    try {
      await gate.call("approvals.resolve", { id, digest, decision, reason, ...(decision === "allow-always" ? { scope } : {}) });
    } finally {
      // Refused as well: it may be about another call by now, and is shown anew.
      done();
    }
  });
  const flags = Object.entries(question.flags).filter(([, value]) => value !== false);
  return html`<article class="question" aria-label=${`Question about ${question.tool}`}>
    <h3><${Text} text=${question.tool} /> <span class=${`severity ${question.severity}`}>${question.severity}</span></h3>
    <p><${Text} text=${question.title} />${question.description ? html` <${Text} text=${question.description} />` : null}</p>
    <pre tabindex="0" aria-label="Arguments"><${Text} text=${question.arguments_text} /></pre>
    <dl>
      <dt>Session</dt><dd><${Text} text=${question.session} /></dd>
      <dt>Plugin</dt><dd><${Text} text=${question.plugin} /></dd>
      <dt>It says of itself</dt><dd><${Text} text=${question.tool_description} /></dd>
      <dt>Flags</dt><dd>${flags.map(([name, value]) => `${name}: ${value === true ? "yes" : "unknown"}`).join(", ") || "none"}</dd>
      ${Object.keys(question.family ?? {}).length ? html`<dt>Family</dt><dd><code><${Text} text=${JSON.stringify(question.family)} /></code></dd>` : null}
      ${question.approvers.length ? html`<dt>Who may answer</dt><dd><${Text} text=${question.approvers.map((names) => names.join(", ")).join("; ")} /></dd>` : null}
      <dt>Asked</dt><dd><${Time} at=${question.asked} /></dd>
      <dt>Until</dt><dd><${Time} at=${question.expires} /></dd>
    </dl>
    <${Field} label="Why, for the record and, of a denial, for the model" value=${reason} onInput=${setReason} />
    <p class="buttons">${question.choices.map((choice) => html`<${Button} scope="approve" busy=${busy}
      kind=${choice === "deny" ? "" : "primary"} onClick=${() => run(choice)}>${LABELS[choice] ?? choice}<//>`)}
      ${question.scopes.length > 1 ? html`<label class="field"><span>Always for</span><select value=${scope} onChange=${(event) => setScope(event.target.value)}>
        ${question.scopes.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>` : null}</p>
    <${Wrong} problem=${problem} />
  </article>`;
}

function Grants() {
  const gate = useGate();
  const { data, problem, again } = useOperation("approvals.grants", {}, { on: ["approval"] });
  const revoke = useAction(async (id) => {
    await gate.call("approvals.revoke", { id });
    again();
  });
  return html`<section><h3>What was allowed always</h3><${Wrong} problem=${problem ?? revoke.problem} />
    <${Table} label="Grants" rows=${data?.grants} keyOf=${(grant) => grant.id}
      empty="Nothing is allowed always. “Allow always” on a question puts it here."
      columns=${[
        ["Tool", (grant) => html`<${Text} text=${grant.tool} />`],
        ["Arguments", (grant) => html`<code><${Text} text=${grant.arguments} /></code>`],
        ["For", (grant) => html`<${Text} text=${`${grant.scope} ${grant.session}`} />`],
        ["By", (grant) => html`<${Text} text=${grant.by} />`],
        ["State", (grant) => html`<${Text} text=${grant.state} />`],
        ["Until", (grant) => html`<${Time} at=${grant.expires} />`],
        ["", (grant) => html`<${Button} scope="approve" busy=${revoke.busy} onClick=${() => revoke.run(grant.id)}>Revoke<//>`],
      ]} /></section>`;
}
