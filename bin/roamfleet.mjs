#!/usr/bin/env -S node --max-semi-space-size=16
import { launch, SERVER_NODE_FLAGS } from "./launch.mjs";

await launch("packages/server/src/main.ts", process.argv.slice(2), SERVER_NODE_FLAGS);
