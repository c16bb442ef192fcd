import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
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
 * Bundles `rf-agent` for publishing. Modules that are needed only on demand, such as the one that unpacks bundles, become chunks beside the
 * program. An idle agent takes 76 MB of memory as a bundle, of which Node alone takes 46. From source it takes 110 MB, since Node then also
 * loads the module that removes types.
 */
export const bundleAgent = (directory: string): Promise<Bundle> => bundleProgram(optionsFor("rf-agent", "main.ts", directory));

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
