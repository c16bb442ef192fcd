import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { installIfNeeded } from "./install.mjs";
import { endLike, runChild } from "./run-child.mjs";

const NODE_MAJOR_MIN = 24;

/**
 * Flags of Node for the server. Node 24 lets the space for new objects grow to 128 MiB, so that small receive buffers are freed by full
 * collections: with one hostile robot, measured, 100 MiB more memory and pauses of 10 to 40 ms instead of 1 to 2 ms.
 */
export const SERVER_NODE_FLAGS = Object.freeze(["--max-semi-space-size=16"]);

/** Absolute path of the clone this launcher belongs to. */
export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/**
 * Runs a TypeScript file of this repository from source: installs the dependencies if they are missing, then imports
 * the file here when this Node can run it, else runs it under the Node pinned in node_modules and ends the way it ends.
 * Plain JavaScript that Node 20 understands: nothing else of the repository runs before it.
 *
 * @param {string} entry path of the file, absolute or relative to the repository
 * @param {readonly string[]} args what the file reads as process.argv.slice(2)
 * @param {readonly string[]} [node_flags] flags of the pinned Node; the Node that runs this file has them from the first line of its caller
 * @returns {Promise<void>}
 */
export async function launch(entry, args, node_flags = []) {
  const file = path.resolve(root, entry);
  let node;
  try {
    await installIfNeeded(root);
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

/** The Node in the lockfile, for machines whose own is older. */
function pinnedNode() {
  const file = path.join(root, "node_modules", `node-${process.platform}-${process.arch}`, "bin", "node");
  if (fs.existsSync(file)) return file;
  throw new Error(
    `Node ${NODE_MAJOR_MIN} or newer is needed, this is ${process.version}, and none is packaged for ` +
      `${process.platform} ${process.arch}: install one from https://nodejs.org`,
  );
}
