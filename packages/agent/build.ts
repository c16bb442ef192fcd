import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { bundleProgram } from "../../tools/bundle.ts";

/**
 * dockerode immediately loads modules for building images (gRPC, protobuf) and for reaching an engine over ssh. They take 33 MB of memory, and an
 * agent that talks to a unix socket never uses them. They are left out.
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
 * Bundles `rf-agent` for publishing: a program, and beside it chunks that are loaded on demand, such as the unpacking of bundles. Idle it takes 64 MB
 * of memory; from source, with the module that removes types, 110 MB. Returns the program's path.
 */
export function buildAgent(directory = path.join(here, "dist")): Promise<string> {
  return bundleProgram({ name: "rf-agent", entry: path.join(here, "src", "main.ts"), directory, plugins: [withoutUnused] });
}

if (import.meta.main) process.stdout.write(`${await buildAgent()}\n`);
