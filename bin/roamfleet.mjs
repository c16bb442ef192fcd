#!/usr/bin/env node
import { launch } from "./launch.mjs";

await launch("packages/server/src/main.ts", process.argv.slice(2));
