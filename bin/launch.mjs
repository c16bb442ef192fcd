import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { installIfNeeded } from "./install.mjs";
import { endLike, runChild } from "./run-child.mjs";

const NODE_MAJOR_MIN = 24;

/**
 * Node flags for the server. By default, Node 24 lets the space for new objects grow to 128 MiB, and full garbage collections then free
 * small receive buffers. Measured with one hostile robot: 100 MiB more memory, and pauses of 10 to 40 ms instead of 1 to 2 ms.
 */
export const SERVER_NODE_FLAGS = Object.freeze(["--max-semi-space-size=16"]);

/** Absolute path of the clone this launcher belongs to. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/**
 * Runs a TypeScript file of this repository from source: installs the dependencies if they are missing, then imports
 * the file in this process if this Node is new enough. Otherwise runs it in a child process under the Node pinned in
 * node_modules, and ends with the same exit code or signal. This file is JavaScript for Node 20, because it runs first.
 *
 * @param {string} entry path of the file, absolute or relative to the repository
 * @param {readonly string[]} args what the file reads as process.argv.slice(2)
 * @param {readonly string[]} [node_flags] flags for the pinned Node; the Node that runs this file gets them from its caller's `#!` line
 * @param {boolean} [with_dev] whether the program needs the development dependencies
 * @returns {Promise<void>}
 */
export async function launch(entry, args, node_flags = [], with_dev = false) {
  const file = path.resolve(root, entry);
  let node;
  try {
    await installIfNeeded(root, with_dev);
    if (!fs.existsSync(file)) throw new Error(`${file} does not exist`);
    if (Number.parseInt(process.versions.node, 10) < NODE_MAJOR_MIN) node = pinnedNode();
  } catch (error) {
    process.stderr.write(`roamfleet: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
    return;
  }
  if (node === undefined) {
    process.argv = [process.execPath, file, ...args];
    await import(pathToFileURL(file).href);
    return;
  }
  const search_path = [path.dirname(node), process.env.PATH].filter(Boolean).join(path.delimiter);
  const under = path.join(root, "bin", "under-launcher.mjs");
  endLike(await runChild(node, [...node_flags, under, file, ...args], { env: { ...process.env, PATH: search_path }, lifeline: true }));
}

/** Returns the path of the Node that the lockfile pins, for machines on which the installed Node is too old. */
function pinnedNode() {
  const file = path.join(root, "node_modules", `node-${process.platform}-${process.arch}`, "bin", "node");
  if (fs.existsSync(file)) return file;
  throw new Error(
    `Node ${NODE_MAJOR_MIN} or newer is needed, this is ${process.version}, and none is packaged for ` +
      `${process.platform} ${process.arch}: install one from https://nodejs.org`,
  );
}
