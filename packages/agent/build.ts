import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { bundleProgram } from "../../tools/bundle.ts";

/**
 * dockerode loads what builds images (gRPC, protobuf) and what reaches an engine over ssh as soon as it is loaded: 33 MB of
 * memory for what an agent, which talks to a unix socket, never uses. They are left out.
 */
const UNUSED = /^(?:@grpc\/grpc-js|@grpc\/proto-loader|protobufjs|ssh2|tar-fs)$/;
const withoutUnused: Plugin = {
  name: "without-unused",
  setup(build) {
    // The agent itself reads protobuf messages of ROS bridges.
    build.onResolve({ filter: UNUSED }, ({ path: name, importer }) =>
      importer.startsWith(path.join(here, "src")) ? undefined : { path: name, namespace: "unused" },
    );
    build.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "module.exports = {};", loader: "js" }));
  },
};

const here = path.dirname(fileURLToPath(import.meta.url));

/**
 * Bundles `rf-agent` for publishing: a program, and beside it what only some robots or moments need, such as the unpacking
 * of bundles. Idle it holds 64 MB, and 110 MB from source, where the remover of types is loaded too. Answers the program's path.
 */
export function buildAgent(directory = path.join(here, "dist")): Promise<string> {
  return bundleProgram({ name: "rf-agent", entry: path.join(here, "src", "main.ts"), directory, plugins: [withoutUnused] });
}

if (import.meta.main) process.stdout.write(`${await buildAgent()}\n`);
