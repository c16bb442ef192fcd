#!/usr/bin/env -S node --max-semi-space-size=16
import { launch, SERVER_NODE_FLAGS } from "./launch.mjs";

const [command, ...args] = process.argv.slice(2);
if (command === "swarm") await launch("packages/swarm/src/main.ts", args);
else await launch("packages/server/src/main.ts", process.argv.slice(2), SERVER_NODE_FLAGS);
