// A rule and its cases from a call: a beginning for whoever writes them on.

/** A value as YAML has it, without characters that show nothing. @param {unknown} value */
const quoted = (value) => JSON.stringify(value).replace(/[\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff]/g,
  (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** A value as CEL has it, which reads a NUL so. @param {unknown} value */
const cel = (value) => JSON.stringify(typeof value === "string" ? value.replaceAll("\0", "\ufffd") : value);

const plainKinds = new Set(["string", "number", "boolean"]);
const named = (name) => (/^[A-Za-z_]\w*$/.test(name) ? `args.${name}` : `args[${cel(name)}]`);

/** The texts of a rule that allows a call, and of two cases: the call, and one like it that stays as it is.
 * @param {{tool: string, arguments: any, provenance: string, taint: string[], agent: string, channel: string}} call
 * @param {{flags: Record<string, boolean | null>, decided: {effect: string, rule: string}}} found what is said of it now */
export function draftOf(call, { flags, decided }) {
  const values = Object.entries(call.arguments).filter(([, value]) => plainKinds.has(typeof value));
  const when = values.map(([name, value]) => `${named(name)} == ${cel(value)}`).join(" && ");
  const effect = decided.effect === "allow" ? "ask" : "allow";
  const name = `${effect}-${call.tool}`.replace(/[^\w.-]/g, "-").slice(0, 80);
  const declared = Object.entries(flags).map(([flag, value]) => `${flag}: ${value === null ? "unknown" : value}`).join(", ");
  const turn = `{provenance: ${call.provenance}, agent: ${quoted(call.agent)}, channel: ${quoted(call.channel)}${call.taint.length ? `, taint: ${quoted(call.taint)}` : ""}}`;
  const other = values.length ? { ...call.arguments, [values[0][0]]: otherThan(values[0][1]) } : null;
  const one = (called, given, expect) => `  - name: ${called}
    call: {tool: ${quoted(call.tool)}, arguments: ${quoted(given)}}
    turn: ${turn}
    expect: ${expect}
`;
  return {
    "rules.yaml": `${/^(rule|ask|deny):/.test(decided.rule) && effect === "allow" ? `# ${quoted(decided.rule)} decides now, and no rule that allows stands above it: write the exception there.\n` : ""}rules:
  - name: ${name}
    match: {tool: ${quoted(call.tool)}}
${when ? `    when: ${quoted(when)}\n` : ""}    effect: ${effect}
    reason: ${effect === "allow" ? "this very call is harmless" : "this very call needs a person"}
`,
    "rules.test.yaml": `tools:
  ${quoted(call.tool)}: {flags: {${declared}}}
cases:
${one("the call on record", call.arguments, effect)}${other ? one("one like it", other, decided.effect) : ""}`,
  };
}

const otherThan = (value) => (typeof value === "string" ? `${value}-` : typeof value === "number" ? value + 1 : !value);
