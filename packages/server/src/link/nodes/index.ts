export { type Nodes, openNodes } from "./nodes.ts";
export { type KnownNode, writeNodeAddress } from "./store-nodes.ts";
