import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import metadata from "../../package.json" with { type: "json" };
import { bundleProgram } from "../bundle.ts";
import { type BuildContext, PackagingError, run } from "./build-context.ts";
import type { Packaged } from "./manifest.ts";
import { runNpm } from "./npm-package.ts";
import { copyTo, writeLicenses } from "./program-tree.ts";
import type { ServerBundle } from "./server.ts";

const PACKAGES = path.join(root, "packages");
/** Our packages whose types the SDK refers to. The SDK's package includes these types, because the packages are not published. */
const WITH_TYPES = ["protocol", "clock"] as const;

interface Metadata {
  version: string;
  engines?: Record<string, string>;
  exports?: Record<string, string>;
  dependencies: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

const readMetadata = async (name: string): Promise<Metadata> =>
  JSON.parse(await readFile(path.join(PACKAGES, name, "package.json"), "utf8")) as Metadata;

/** Writes the npm packages @roamfleet/cli, @roamfleet/sdk and @roamfleet/server as `npm pack` does. They contain no TypeScript sources. */
export async function packageNpm(bundle: ServerBundle, directory: string, context: BuildContext): Promise<Packaged[]> {
  const [cli, server, sdk] = ["npm-cli", "npm-server", "npm-sdk"].map((name) => path.join(context.scratch, name)) as [
    string,
    string,
    string,
  ];
  await cp(bundle.cli, cli, { recursive: true });
  await writeLicenses(bundle.packages.cli, cli);
  await cp(bundle.server, server, { recursive: true });
  await writeLicenses(bundle.packages.server, server);
  const { optionalDependencies = {} } = await readMetadata("server");
  const { packages } = await bundleProgram({
    name: "index",
    entry: path.join(PACKAGES, "sdk", "src", "index.ts"),
    directory: sdk,
    is_library: true,
  });
  await writeLicenses(packages, sdk);
  const types = await writeTypes(sdk);
  return [
    await pack("cli", cli, { description: "The command line of Roamfleet", bin: { rf: "rf.mjs" } }, directory),
    await pack(
      "server",
      server,
      { description: "The control plane for robot fleets", bin: { roamfleet: "roamfleet.mjs" }, optionalDependencies },
      directory,
    ),
    await pack(
      "sdk",
      sdk,
      {
        description: "A client of the Roamfleet API",
        exports: { ".": { types, default: "./index.mjs" } },
        dependencies: await typeDependencies(),
      },
      directory,
    ),
  ];
}

/** Packs a directory. Returns the file's entry in the manifest. */
async function pack(name: string, source: string, fields: Record<string, unknown>, directory: string): Promise<Packaged> {
  const { version, engines } = await readMetadata(name);
  const metadata = { name: `@roamfleet/${name}`, version, license: "Apache-2.0", type: "module", engines, ...fields };
  await writeFile(path.join(source, "package.json"), `${JSON.stringify(metadata, null, 2)}\n`);
  await copyTo(path.join(root, "LICENSE"), path.join(source, "LICENSE"));
  const readme = `# @roamfleet/${name}\n\nPart of Roamfleet, the open-source control plane for robot fleets. Needs Node ${engines?.node ?? ""}.\n`;
  await writeFile(path.join(source, "README.md"), readme);
  await runNpm(["pack", "--silent", "--ignore-scripts", "--pack-destination", directory], source);
  await rm(source, { recursive: true });
  return { name: `roamfleet-${name}-${version}.tgz`, kind: "npm", package: `@roamfleet/${name}`, arch: "all" };
}

/** Packages that the SDK's types import; those of Node declare `Buffer` and `Disposable`. */
async function typeDependencies(): Promise<Record<string, string>> {
  const { typebox = "" } = (await readMetadata("protocol")).dependencies;
  return { typebox, "@types/node": metadata.devDependencies["@types/node"] };
}

/** Writes the type declarations of the SDK and of our packages that they refer to. Returns the path of the SDK's own declarations. */
async function writeTypes(sdk: string): Promise<string> {
  const types = path.join(sdk, "types");
  await mkdir(types);
  const entries = await Promise.all(
    WITH_TYPES.map(async (name) =>
      Object.entries((await readMetadata(name)).exports ?? {}).map(([key, file]) => ({
        specifier: path.posix.join("@roamfleet", name, key),
        file: path.posix.join(name, file),
      })),
    ),
  );
  const sources = new Map(entries.flat().map(({ specifier, file }) => [specifier, file]));
  const config = {
    extends: path.join(root, "tsconfig.json"),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      allowJs: false,
      checkJs: false,
      outDir: types,
      rootDir: PACKAGES,
      typeRoots: [path.join(root, "node_modules/@types")],
    },
    include: [],
    files: [
      path.join(PACKAGES, "sdk/src/index.ts"),
      ...[...sources.values()].filter((file) => !file.includes("/testing/")).map((file) => path.join(PACKAGES, file)),
    ],
  };
  const file = path.join(sdk, "tsconfig.json");
  await writeFile(file, JSON.stringify(config));
  // With several threads, TypeScript 7.0.2 omits declarations, and different ones in each run.
  await run(process.execPath, [path.join(root, "node_modules/typescript/bin/tsc"), "--singleThreaded", "--project", file]);
  await rm(file);
  for (const entry of await readdir(types, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) await relativeImports(path.join(entry.parentPath, entry.name), types, sources);
  }
  const index = path.join(types, "sdk/src/index.d.ts");
  await writeFile(index, `/// <reference types="node" />\n${await readFile(index, "utf8")}`);
  return "./types/sdk/src/index.d.ts";
}

/** Replaces imports of our packages, which are not published, by relative imports. `sources`: the file of each imported name. */
async function relativeImports(file: string, types: string, sources: ReadonlyMap<string, string>): Promise<void> {
  const text = await readFile(file, "utf8");
  const changed = text.replace(/"(@roamfleet\/[^"]+)"/g, (_, specifier: string) => {
    const source = sources.get(specifier);
    if (source === undefined) throw new PackagingError(`the types of the SDK import ${specifier}, which is not in WITH_TYPES`);
    return JSON.stringify(path.relative(path.dirname(file), path.join(types, source)).replace(/^(?!\.)/, "./"));
  });
  if (changed !== text) await writeFile(file, changed);
}
