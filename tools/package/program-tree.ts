import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { readScript, writeDeb } from "./archives.ts";
import { type Architecture, type BuildContext, run } from "./build-context.ts";
import type { Packaged } from "./manifest.ts";
import { findPackage } from "./npm-package.ts";

const LICENSE_FILE = /^(licen[cs]e|copying|notice|copyright)(\.\w+)?$/i;

/** Writes Node for an architecture without its debugging symbols: 106 MB instead of 127 MB. */
export async function writeNode({ node, gnu }: Architecture, file: string): Promise<void> {
  const source = await findPackage(`node-linux-${node}`);
  await mkdir(path.dirname(file), { recursive: true });
  await run(`${gnu}-strip`, ["-o", file, path.join(source, "bin", "node")]);
}

/** Copies files of an npm package into `node_modules` of a directory. */
export async function copyPackage(name: string, files: readonly string[], directory: string): Promise<void> {
  const source = await findPackage(name);
  const target = path.join(directory, "node_modules", name);
  await mkdir(target, { recursive: true });
  for (const file of files) await cp(path.join(source, file), path.join(target, file), { recursive: true, verbatimSymlinks: true });
}

/** Copies a file, and creates its directory. */
export async function copyTo(source: string, target: string): Promise<void> {
  await mkdir(path.dirname(target), { recursive: true });
  await cp(source, target);
}

/** Writes LICENSES: the license of Roamfleet, then those of the packages that a program contains. */
export async function writeLicenses(packages: readonly string[], directory: string): Promise<void> {
  const parts = [`Roamfleet\n\n${await readFile(path.join(root, "LICENSE"), "utf8")}`];
  for (const name of [...new Set(packages)].toSorted()) {
    if (name.startsWith("@roamfleet/")) continue;
    const source = await findPackage(name);
    const { version = "", license = "" } = JSON.parse(await readFile(path.join(source, "package.json"), "utf8")) as Record<string, string>;
    const files = (await readdir(source)).filter((file) => LICENSE_FILE.test(file)).toSorted();
    const texts = await Promise.all(files.map((file) => readFile(path.join(source, file), "utf8")));
    parts.push(`${name} ${version} (${license})\n\n${texts.join("\n\n")}`);
  }
  await writeFile(path.join(directory, "LICENSES"), parts.map((part) => `${part.trim()}\n`).join(`\n${"-".repeat(80)}\n\n`));
}

const SCRIPTS = ["postinst", "prerm", "postrm"] as const;

interface ProgramPackage {
  /** Fields of the package, with its name and architecture. */
  control: Record<string, string> & { Package: string; Architecture: Packaged["arch"] };
  /** Directory of the maintainer scripts. */
  debian: string;
  /** The program's tree, from which the tarball was written, and the tree of the .deb. */
  tree: string;
  files: string;
}

/** Writes the .deb beside the tarball of a program, and deletes both trees. Returns the entries of the two files in the manifest. */
export async function packProgram(
  stem: string,
  { control, debian, tree, files }: ProgramPackage,
  directory: string,
  context: BuildContext,
): Promise<Packaged[]> {
  const scripts = Object.fromEntries(
    await Promise.all(SCRIPTS.map(async (name) => [name, await readScript(path.join(debian, name), context)] as const)),
  );
  await writeDeb(files, path.join(directory, `${stem}.deb`), { control, scripts }, context);
  await Promise.all([tree, files].map((place) => rm(place, { recursive: true })));
  const common = { package: control.Package, arch: control.Architecture };
  return [
    { ...common, kind: "tarball", name: `${stem}.tar.gz` },
    { ...common, kind: "deb", name: `${stem}.deb` },
  ];
}
