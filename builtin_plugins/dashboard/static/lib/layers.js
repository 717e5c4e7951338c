// Where the nodes of a graph stand: a column for each kind, near what they hang together with.

/** The size of a node, with the room below it. */
export const WIDTH = 200;
export const HEIGHT = 24;

const GAP = 90;
const TOP = 26;
const COLUMNS = [["agent", "Agents"], ["skill", "Skills"], ["", "Others"], ["connector", "Connectors"], ["tool", "Tools"]];

/** Places by id, and the neighbour of one by an arrow key.
 * @param {{id: string, kind: string, category: string}[]} nodes
 * @param {{source: string, target: string}[]} edges
 * @param {string[][]} kinds the columns: a kind and a title each; what is of none of them is of "" */
export function placed(nodes, edges, kinds = COLUMNS) {
  const columns = kinds.map(([kind, title]) => ({ title, nodes: nodes.filter((node) => (kinds.some(([one]) => one === node.kind) ? node.kind : "") === kind) }))
    .filter((column) => column.nodes.length);
  /** @type {Map<string, string[]>} */
  const joined = new Map(nodes.map(({ id }) => [id, []]));
  for (const { source, target } of edges) {
    joined.get(source)?.push(target);
    joined.get(target)?.push(source);
  }
  const height = new Map();
  const settle = (column) => column.nodes.forEach(({ id }, row) => height.set(id, row));
  for (const column of columns) {
    column.nodes.sort((one, two) => (one.category < two.category ? -1 : one.category > two.category ? 1 : one.id < two.id ? -1 : 1));
    settle(column);
  }
  // Each column is put in the order of what its nodes are joined with, to and fro.
  for (const column of [...columns.slice(1), ...columns.slice(0, -1).reverse()]) {
    const own = new Set(column.nodes.map(({ id }) => id));
    const mean = new Map(column.nodes.map(({ id }) => {
      const rows = (joined.get(id) ?? []).filter((one) => !own.has(one)).map((one) => height.get(one));
      return [id, rows.length ? rows.reduce((sum, row) => sum + row, 0) / rows.length : height.get(id)];
    }));
    column.nodes.sort((one, two) => mean.get(one.id) - mean.get(two.id) || height.get(one.id) - height.get(two.id));
    settle(column);
  }
  const of = new Map();
  columns.forEach((column, across) => column.nodes.forEach(({ id }, down) =>
    of.set(id, { x: across * (WIDTH + GAP) + 2, y: TOP + down * HEIGHT, across, down, number: of.size })));
  const next = (id, key) => {
    const [right, under] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [0, 0];
    const place = of.get(id);
    if (!place || !(right || under)) return "";
    const column = columns[place.across + right]?.nodes;
    return column?.[Math.max(0, Math.min(column.length - 1, place.down + under))].id ?? "";
  };
  return {
    of, next, titles: columns.map(({ title }, across) => ({ title, x: across * (WIDTH + GAP) + 2 })),
    width: columns.length * (WIDTH + GAP) + 4,
    height: TOP + Math.max(0, ...columns.map((column) => column.nodes.length)) * HEIGHT + 4,
  };
}

/** The way of an edge: across from side to side, or around within a column.
 * @param {{x: number, y: number, across: number}} from @param {{x: number, y: number, across: number}} to */
export function curve(from, to) {
  const middle = HEIGHT / 2 - 2;
  const [left, right] = from.across <= to.across ? [from, to] : [to, from];
  const x = left.x + WIDTH;
  if (left.across === right.across) return `M${x} ${left.y + middle}C${x + GAP * 0.7} ${left.y + middle} ${x + GAP * 0.7} ${right.y + middle} ${x} ${right.y + middle}`;
  const half = (x + right.x) / 2;
  return `M${x} ${left.y + middle}C${half} ${left.y + middle} ${half} ${right.y + middle} ${right.x} ${right.y + middle}`;
}
