import { cp, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { bundleAgent } from "../../packages/agent/build.ts";
import workspace from "../../package.json" with { type: "json" };
import { normalize, writeTarball } from "./archives.ts";
import { type Architecture, type BuildContext } from "./build-context.ts";
import type { Packaged } from "./manifest.ts";
import { copyPackage, copyTo, packProgram, writeLicenses, writeNode } from "./program-tree.ts";
import { LINK_SUBPROTOCOL } from "@roamfleet/protocol/link";

const NAME = "roamfleet-agent";
const DEBIAN = path.join(root, "packages", "agent", "debian");
const PTY_FILES = ["LICENSE", "package.json", "requireBinary.js"];

/** The bundled agent, which is the same for all architectures. */
interface AgentBundle {
  directory: string;
  /** Names of the npm packages that it contains. */
  packages: string[];
}

/** Bundles the agent once for all architectures. */
export async function bundleForPackages({ scratch }: BuildContext): Promise<AgentBundle> {
  const directory = path.join(scratch, "agent-bundle");
  const { packages } = await bundleAgent(directory);
  return { directory, packages };
}

/** Files outside of the version's directory. The tree contains copies in `system/`, for systems on which no .deb installs them. */
const SYSTEM_FILES = [path.join(root, "packages", "agent", "launch"), path.join(DEBIAN, "rf-agent"), path.join(DEBIAN, `${NAME}.service`)];

/**
 * Writes the content of /opt/roamfleet/agent/<version>/: Node, the agent, node-pty, the licenses, `system/` and agent.json. Nothing in it
 * depends on the machine that builds it.
 */
async function writeTree(arch: Architecture, bundle: AgentBundle, context: BuildContext): Promise<string> {
  const tree = path.join(context.scratch, `agent-${arch.deb}`);
  await cp(bundle.directory, tree, { recursive: true });
  await writeNode(arch, path.join(tree, "bin", "node"));
  const pty = `@lydell/node-pty-linux-${arch.node}`;
  await copyPackage("@lydell/node-pty", PTY_FILES, tree);
  await copyPackage(pty, ["package.json", "pty.node"], tree);
  const node = `node-linux-${arch.node}` as const;
  await writeLicenses([...bundle.packages, node, pty, "@lydell/node-pty"], tree);
  const about = {
    version: context.version,
    commit: context.commit,
    built_at: context.built_at,
    arch: arch.deb,
    node: workspace.optionalDependencies[node],
    protocol: LINK_SUBPROTOCOL,
  };
  for (const file of SYSTEM_FILES) await copyTo(file, path.join(tree, "system", path.basename(file)));
  await writeFile(path.join(tree, "agent.json"), `${JSON.stringify(about, null, 2)}\n`);
  await normalize(tree, context);
  return tree;
}

/** Writes the agent's tarball and .deb for one architecture into `directory`. */
export async function packageAgent(arch: Architecture, bundle: AgentBundle, directory: string, context: BuildContext): Promise<Packaged[]> {
  const tree = await writeTree(arch, bundle, context);
  const stem = `${NAME}_${context.version}_${arch.deb}`;
  await writeTarball(tree, path.join(directory, `${stem}.tar.gz`), context);
  const files = path.join(context.scratch, `agent-deb-${arch.deb}`);
  const agent = path.join(files, "opt", "roamfleet", "agent");
  await mkdir(agent, { recursive: true });
  await cp(tree, path.join(agent, context.version), { recursive: true });
  await copyTo(path.join(root, "packages", "agent", "launch"), path.join(agent, "launch"));
  await copyTo(path.join(DEBIAN, "rf-agent"), path.join(files, "usr", "bin", "rf-agent"));
  await copyTo(path.join(DEBIAN, `${NAME}.service`), path.join(files, "usr", "lib", "systemd", "system", `${NAME}.service`));
  await copyTo(path.join(DEBIAN, "agent.env.example"), path.join(files, "usr", "share", NAME, "agent.env.example"));
  await copyTo(path.join(tree, "LICENSES"), path.join(files, "usr", "share", "doc", NAME, "copyright"));
  const control = {
    Package: NAME,
    Architecture: arch.deb,
    Section: "admin",
    Priority: "optional",
    Depends: "libc6 (>= 2.28), libstdc++6 (>= 5.1), passwd, util-linux, init-system-helpers (>= 1.54~)",
    Suggests: "tpm2-tools",
    Description: "Roamfleet agent\n Runs on a robot, keeps one connection to the server, installs and supervises releases.",
  };
  return packProgram(stem, { control, debian: DEBIAN, tree, files }, directory, context);
}
