// The views, in the order of the menu.

import { Home } from "./home.js";
import { Chat } from "./chat.js";
import { Approvals } from "./approvals.js";

/** `key` is what follows `g`; `counts` an operation whose number stands beside the title. A view with
 * `load` comes when it is first looked at. */
export const views = [
  { path: "", title: "Home", key: "h", View: Home },
  { path: "chat", title: "Chat", key: "c", View: Chat },
  {
    path: "approvals", title: "Approvals", key: "a", View: Approvals,
    counts: { name: "approvals.list", of: (data) => data.approvals.length, on: ["approval"] },
  },
  { path: "turns", title: "Turns", key: "t", load: async () => (await import("./turns.js")).Turns },
  { path: "usage", title: "Usage", key: "u", load: async () => (await import("./usage.js")).Usage },
  { path: "policy", title: "Policy", key: "p", load: async () => (await import("./policy.js")).Policy },
  { path: "capabilities", title: "Capabilities", key: "b", load: async () => (await import("./capabilities.js")).Capabilities },
  { path: "graph", title: "Graph", key: "r", load: async () => (await import("./graph.js")).Graph },
  { path: "memory", title: "Memory", key: "m", load: async () => (await import("./memory.js")).Memory },
  { path: "audit", title: "Audit", key: "d", load: async () => (await import("./audit.js")).Audit },
  { path: "system", title: "System", key: "s", load: async () => (await import("./system.js")).System },
];
