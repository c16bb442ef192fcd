import { cp } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { SERVER_NODE_FLAGS } from "../../bin/launch.mjs";
import { type Bundle, bundleProgram } from "../../tools/bundle.ts";

const here = path.dirname(fileURLToPath(import.meta.url));

/** Bundles `roamfleet` for publishing, with the migrations and static files that it reads. The dashboard is built separately. */
export async function bundleServer(directory: string): Promise<Bundle> {
  const bundle = await bundleProgram({
    name: "roamfleet",
    entry: path.join(here, "src", "main.ts"),
    directory,
    node_flags: SERVER_NODE_FLAGS,
  });
  for (const name of ["migrations", "static"]) await cp(path.join(here, name), path.join(directory, name), { recursive: true });
  return bundle;
}

if (import.meta.main) process.stdout.write(`${(await bundleServer(path.join(here, "dist"))).program}\n`);
