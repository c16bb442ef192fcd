export { type Nodes, openNodes } from "./nodes.ts";
export { type KnownNode, listRefusedHosts, writeNodeAddress, writeRefusedHost } from "./store-nodes.ts";
