import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "program-bundler";
import { type Bundle, type BundleOptions, bundleProgram } from "../../tools/bundle.ts";

/**
 * Modules that the bundle replaces by empty ones, because an agent never calls them. dockerode loads some at startup: to build images (gRPC,
 * protobuf) and to reach an engine over SSH. They take 33 MB of memory. pino loads the others to write to files and in threads: 0.5 MB.
 */
const UNUSED = /^(?:@grpc\/grpc-js|@grpc\/proto-loader|protobufjs|ssh2|tar-fs|thread-stream|sonic-boom|worker_threads)$/;
const withoutUnused: Plugin = {
  name: "without-unused",
  setup(build) {
    // The agent's own imports are kept: it decodes protobuf messages of ROS bridges.
    build.onResolve({ filter: UNUSED }, ({ path: name, importer }) =>
      importer.startsWith(path.join(here, "src")) ? undefined : { path: name, namespace: "unused" },
    );
    build.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "module.exports = class {};", loader: "js" }));
  },
};

const here = path.dirname(fileURLToPath(import.meta.url));

/**
 * Flags of Node with which the launcher starts the agent. They save memory of an idle agent, in this order: 3 MB, 2.3 to 8 MB (with the next
 * one), 0.7 MB and 1.3 MB. The optimizing compilers take 2 and 6 MB when they are first used. Node's loader of modules runs short functions
 * 8,000 to 10,000 times at the start, so a lower number than 20,000 would use a compiler.
 */
export const NODE_FLAGS: readonly string[] = [
  "--optimize-for-size",
  "--no-maglev",
  "--invocation-count-for-turbofan=20000",
  "--invocation-count-for-feedback-allocation=100",
  "--bytecode-old-age=1",
];

/**
 * Bundles `rf-agent` for publishing. Modules that are needed only on demand, such as the one that unpacks bundles, become chunks beside the
 * program, and the flags of Node the file `node-flags`. An idle agent takes 64 MB of memory as a bundle, of which Node alone takes 46. From
 * source it takes 110 MB, since Node then also loads the module that removes types.
 */
export async function bundleAgent(directory: string): Promise<Bundle> {
  const bundle = await bundleProgram(optionsFor("rf-agent", "main.ts", directory));
  await writeFile(path.join(directory, "node-flags"), `${NODE_FLAGS.join(" ")}\n`);
  return bundle;
}

/** Bundles the part of the agent that tests kill between any two steps, and returns the program's path. */
export const buildKillDriver = async (directory: string): Promise<string> =>
  (await bundleProgram(optionsFor("kill-driver", path.join("testing", "kill-driver.ts"), directory))).program;

const optionsFor = (name: string, entry: string, directory: string): BundleOptions => ({
  name,
  entry: path.join(here, "src", entry),
  directory,
  plugins: [withoutUnused],
});

/** Bundles `rf-agent` and returns the program's path. */
export async function buildAgent(directory = path.join(here, "dist")): Promise<string> {
  return (await bundleAgent(directory)).program;
}

if (import.meta.main) process.stdout.write(`${await buildAgent()}\n`);
