import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build, type InlineConfig } from "vite";
import config from "./vite.config.ts";

/** `node packages/dashboard/build.ts DIRECTORY`: builds the dashboard, with a compressed copy beside every file. */

const COMPRESSED = new Set([".css", ".js", ".json", ".svg", ".txt", ".webmanifest"]);
/** Files below this size fit into one packet: compression would not make them faster. */
const COMPRESSED_BYTES_MIN = 1_024;

const [directory] = process.argv.slice(2);
if (directory === undefined) {
  process.stderr.write("usage: node packages/dashboard/build.ts DIRECTORY\n");
  process.exit(2);
}

const { build: options, ...rest } = config as InlineConfig;
try {
  await build({ ...rest, configFile: false, logLevel: "silent", build: { ...options, outDir: path.resolve(directory) } });
  await compressAll(directory);
} catch (error) {
  // The bundler writes color sequences even without a terminal.
  process.stderr.write(`${stripVTControlCharacters(error instanceof Error ? error.message : String(error))}\n`);
  process.exit(1);
}

/** Compresses each file once, at the highest level, so that the server only selects a file. */
async function compressAll(directory: string): Promise<void> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile() && COMPRESSED.has(path.extname(entry.name)));
  await Promise.all(files.map(({ parentPath, name }) => compress(path.join(parentPath, name))));
}

async function compress(file: string): Promise<void> {
  const bytes = await readFile(file);
  if (bytes.length < COMPRESSED_BYTES_MIN) return;
  const params = { [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  const [smallest, small] = await Promise.all([promisify(brotliCompress)(bytes, { params }), promisify(gzip)(bytes, { level: 9 })]);
  if (smallest.length < bytes.length) await writeFile(`${file}.br`, smallest);
  if (small.length < bytes.length) await writeFile(`${file}.gz`, small);
}
