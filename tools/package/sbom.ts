import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import type { BuildContext } from "./build-context.ts";
import type { Packaged } from "./manifest.ts";
import { runNpm } from "./npm-package.ts";

interface Bom {
  serialNumber: string;
  metadata: { timestamp: string; component: { name: string; "bom-ref": string; version: string } };
  components: { "bom-ref": string }[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/**
 * Writes the bill of materials of all packages (CycloneDX): the npm packages of package-lock.json except development tools. `npm sbom
 * --omit dev` is not used. It would also omit packages that both a tool and a program depend on, such as ws.
 */
export async function writeSbom(directory: string, context: BuildContext): Promise<Packaged[]> {
  const bom = JSON.parse(await runNpm(["sbom", "--sbom-format=cyclonedx", "--package-lock-only", "--loglevel=error"])) as Bom;
  const tools = await readTools();
  const component = bom.metadata.component["bom-ref"];
  bom.components = bom.components.filter((part) => !tools.has(part["bom-ref"]));
  const kept = new Set([component, ...bom.components.map((part) => part["bom-ref"])]);
  bom.dependencies = bom.dependencies
    .filter(({ ref }) => kept.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((name) => kept.has(name)) }));
  // Replace npm's values, which contain the time, a random number and the name of the directory.
  bom.metadata.timestamp = context.built_at;
  bom.metadata.component.name = "roamfleet";
  bom.serialNumber = `urn:uuid:${uuidOf(`${context.version} ${context.commit}`)}`;
  const name = `roamfleet_${context.version}.cdx.json`;
  await writeFile(path.join(directory, name), `${JSON.stringify(bom, null, 2)}\n`);
  return [{ name, kind: "sbom", package: "roamfleet", arch: "all" }];
}

/** Returns `name@version` of the packages that only development needs. */
async function readTools(): Promise<Set<string>> {
  interface Lockfile {
    packages: Record<string, { version?: string; dev?: boolean }>;
  }
  const { packages } = JSON.parse(await readFile(path.join(root, "package-lock.json"), "utf8")) as Lockfile;
  const named = Object.entries(packages).map(([place, { version, dev }]) => ({
    name: `${place.split("node_modules/").at(-1)}@${version}`,
    dev,
  }));
  const needed = new Set(named.filter(({ dev }) => dev !== true).map(({ name }) => name));
  return new Set(named.map(({ name }) => name).filter((name) => !needed.has(name)));
}

/** Returns a UUID (version 8) that depends on the text only. */
function uuidOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
