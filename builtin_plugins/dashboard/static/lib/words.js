// How things are said: texts without markup.

// Characters that show nothing, turn the line, or are taken for others: told by their number.
export const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

export const numbered = (found) => `U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The same where there can be no markup: in titles and drawings. @param {string} text */
export const plain = (text) => text.replace(UNSEEN, numbered);

/** An id, cut in its middle; whoever shows it gives the whole one as a title. @param {string} id */
export const short = (id) => (id.length > 18 ? `${id.slice(0, 9)}…${id.slice(-6)}` : id);

/** @type {[number, string, number][]} */
const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "d", 86400]];

/** How long ago it is, in words. @param {Date} date */
export function ago(date) {
  const seconds = Math.round((Date.now() - date.valueOf()) / 1000);
  const [, unit, size] = STEPS.find(([limit]) => Math.abs(seconds) < limit) ?? STEPS[3];
  const count = Math.round(Math.abs(seconds) / size);
  return seconds < 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
}

/** The exact time, in UTC and where one is. @param {Date} date */
export const exactly = (date) => `${date.toISOString()}, here ${date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" })}`;

/** US dollars for people, however few. @param {string | number} text */
export function money(text) {
  const amount = Number(text);
  return `${amount < 0 ? "-" : ""}$${Math.abs(amount) >= 1 || !amount ? Math.abs(amount).toFixed(2) : String(Number(Math.abs(amount).toPrecision(3)))}`;
}

/** A word as a shell takes it. @param {string} word */
const quoted = (word) => (/^[\w.,:@/=+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** A command's words as a shell takes them. @param {string[]} words */
export const shell = (words) => words.map(quoted).join(" ");

/** A command with its options, those that say nothing left out.
 * @param {string} words @param {Record<string, unknown>} options */
export function commandOf(words, options = {}) {
  const said = Object.entries(options).filter(([, value]) => value);
  return [words, ...said.map(([name, value]) => {
    const option = name ? `--${name.replaceAll("_", "-")}` : "";
    return value === true ? option : `${option} ${quoted(String(value))}`.trim();
  })].join(" ");
}
