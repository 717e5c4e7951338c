// A small subset of Markdown as nodes: paragraphs, code, lists, headings, quotes, emphasis, links.
// What it does not know is text. There is no HTML, and no picture: one is how a page leaks.

import { Text, html } from "./parts.js";

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\n]+)\*|\[([^\]\n]{1,300})\]\((https?:\/\/[^\s()]{1,2000})\)/g;
const LIST = /^\s{0,3}(?:[-*+]|\d{1,3}[.)])\s+/;

/** @param {{text: string}} given */
export function Markdown({ text }) {
  return html`<div class="markdown">${[...blocks(text)]}</div>`;
}

function* blocks(text) {
  const lines = text.split("\n");
  for (let at = 0; at < lines.length;) {
    const take = (holds) => {
      const from = at;
      while (at < lines.length && holds(lines[at])) at += 1;
      return lines.slice(from, at);
    };
    const line = lines[at];
    if (!line.trim()) at += 1;
    else if (/^\s{0,3}```/.test(line)) {
      at += 1;
      const code = take((one) => !/^\s{0,3}```\s*$/.test(one));
      at += 1;
      yield html`<pre tabindex="0"><code><${Text} text=${code.join("\n")} /></code></pre>`;
    } else if (/^#{1,6}\s/.test(line)) {
      at += 1;
      yield html`<p class="heading">${inline(line.replace(/^#+\s+/, ""))}</p>`;
    } else if (LIST.test(line)) {
      const items = take((one) => LIST.test(one));
      yield html`<ul>${items.map((one) => html`<li>${inline(one.replace(LIST, ""))}</li>`)}</ul>`;
    } else if (line.startsWith(">")) {
      yield html`<blockquote>${inline(take((one) => one.startsWith(">")).map((one) => one.slice(1)).join("\n"))}</blockquote>`;
    } else {
      const begins = (one) => !one.trim() || LIST.test(one) || /^(\s{0,3}```|#{1,6}\s|>)/.test(one);
      at += 1;
      yield html`<p>${inline([line, ...take((one) => !begins(one))].join("\n"))}</p>`;
    }
  }
}

function inline(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > last) parts.push(html`<${Text} text=${text.slice(last, found.index)} />`);
    const [, code, strong, emphasis, label, address] = found;
    if (code) parts.push(html`<code><${Text} text=${code} /></code>`);
    else if (strong) parts.push(html`<strong><${Text} text=${strong} /></strong>`);
    else if (emphasis) parts.push(html`<em><${Text} text=${emphasis} /></em>`);
    else parts.push(html`<${Link} label=${label} address=${address} />`);
    last = found.index + found[0].length;
  }
  if (last < text.length) parts.push(html`<${Text} text=${text.slice(last)} />`);
  return parts;
}

/** A link of a model's says where it leads, and asks. One with a user in it is a text: what stands
 * before the `@` is made to look like the place. */
function Link({ label, address }) {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (!url || url.username || url.password) return html`<${Text} text=${`[${label}](${address})`} />`;
  // As the browser reads it: no character that turns the line, and no letter that looks like another.
  const ask = (event) => {
    if (!confirm(`Open ${url.href}?`)) event.preventDefault();
  };
  return html`<a href=${url.href} rel="noopener noreferrer nofollow" target="_blank" onClick=${ask} onAuxClick=${ask}><${Text} text=${label} /></a>
    <span class="faint"> (<${Text} text=${url.host} />)</span>`;
}
