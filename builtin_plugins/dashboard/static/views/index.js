// The views, in the order of the menu.

import { Home } from "./home.js";
import { Chat } from "./chat.js";
import { Approvals } from "./approvals.js";
import { Turns } from "./turns.js";
import { Usage } from "./usage.js";
import { Policy } from "./policy.js";
import { Capabilities } from "./capabilities.js";
import { Graph } from "./graph.js";
import { Memory } from "./memory.js";
import { Audit } from "./audit.js";
import { System } from "./system.js";

/** `key` is what follows `g`; `counts` an operation whose number stands beside the title. */
export const views = [
  { path: "", title: "Home", key: "h", View: Home },
  { path: "chat", title: "Chat", key: "c", View: Chat },
  {
    path: "approvals", title: "Approvals", key: "a", View: Approvals,
    counts: { name: "approvals.list", of: (data) => data.approvals.length, on: ["approval"] },
  },
  { path: "turns", title: "Turns", key: "t", View: Turns },
  { path: "usage", title: "Usage", key: "u", View: Usage },
  { path: "policy", title: "Policy", key: "p", View: Policy },
  { path: "capabilities", title: "Capabilities", key: "b", View: Capabilities },
  { path: "graph", title: "Graph", key: "r", View: Graph },
  { path: "memory", title: "Memory", key: "m", View: Memory },
  { path: "audit", title: "Audit", key: "d", View: Audit },
  { path: "system", title: "System", key: "s", View: System },
];
