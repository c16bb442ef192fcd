import type { KeyObject } from "node:crypto";
import { link, mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { root } from "../../bin/launch.mjs";
import { bundleForPackages, packageAgent } from "./agent.ts";
import { writeAptRepository } from "./apt-repository.ts";
import { ARCHITECTURES, type BuildContext, PackagingError, readContext } from "./build-context.ts";
import { newSigningKey, type Packaged, readSigningKey, writeManifest } from "./manifest.ts";
import { packageNpm } from "./npm.ts";
import { writeSbom } from "./sbom.ts";
import { bundleServerAndCli, packageHosted, packageServer } from "./server.ts";

const USAGE = `usage: npm run package -- [options]

Builds all packages of the checked-out commit into one directory, which \`roamfleet serve --packages\` can serve.

  --out DIR       directory that is replaced (default: dist/packages)
  --arch LIST     amd64, arm64 or both, separated by commas (default: both)
  --only LIST     agent, server, npm, sbom (default: all packages)
  --sign KEY.pem  Ed25519 private key that signs the packages (default: a key that is created for this build and not kept)
  --fast          compress fast instead of well, for tests
  --help          show this text
`;
const PARTS = ["agent", "server", "npm", "sbom"] as const;

interface Options {
  out: string;
  architectures: typeof ARCHITECTURES;
  parts: ReadonlySet<string>;
  key_file: string | undefined;
  is_fast: boolean;
  is_help: boolean;
}

function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      out: { type: "string", default: "dist/packages" },
      arch: { type: "string", default: "amd64,arm64" },
      only: { type: "string", default: PARTS.join(",") },
      sign: { type: "string" },
      fast: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const list = (name: string, text: string, allowed: readonly string[]): string[] => {
    const words = text.split(",");
    const wrong = words.find((word) => !allowed.includes(word));
    if (wrong !== undefined) throw new PackagingError(`--${name}: expected ${allowed.join(" or ")}, not "${wrong}"`);
    return words;
  };
  const names = list(
    "arch",
    values.arch,
    ARCHITECTURES.map(({ deb }) => deb),
  );
  return {
    out: path.resolve(root, values.out),
    architectures: ARCHITECTURES.filter(({ deb }) => names.includes(deb)),
    parts: new Set(list("only", values.only, PARTS)),
    key_file: values.sign,
    is_fast: values.fast,
    is_help: values.help,
  };
}

const say = (line: string): void => void process.stderr.write(`${line}\n`);
const seconds = (since: number): string => `${((performance.now() - since) / 1_000).toFixed(1)} s`;

/** Writes all packages into `directory`. */
async function packageAll(options: Options, directory: string, scratch: string): Promise<void> {
  const context = readContext(scratch, options.is_fast);
  const key = options.key_file === undefined ? newSigningKey() : await readSigningKey(options.key_file);
  if (options.key_file === undefined)
    say("warning: the packages are signed with a key that is created for this build: pass --sign KEY.pem for packages that others install");
  const files: Packaged[] = [];
  const add = async (what: string, made: Promise<Packaged[]>): Promise<void> => {
    const started = performance.now();
    const added = await made;
    files.push(...added);
    say(`${what}: ${seconds(started)}`);
    for (const { name } of added) say(`  ${((await stat(path.join(directory, name))).size / 1e6).toFixed(1).padStart(6)} MB  ${name}`);
  };
  const hosted = path.join(scratch, "hosted");
  if (options.parts.has("agent")) {
    const bundle = await bundleForPackages(context);
    for (const arch of options.architectures) await add(`agent, ${arch.deb}`, packageAgent(arch, bundle, directory, context));
    await mkdir(hosted);
    for (const { name } of files) await link(path.join(directory, name), path.join(hosted, name));
    await finish(hosted, files, key, context);
    await add("the agent's packages, for the server", packageHosted(hosted, directory, context));
  }
  if (options.parts.has("server") || options.parts.has("npm")) {
    const bundle = await bundleServerAndCli(context);
    if (options.parts.has("npm")) await add("npm packages", packageNpm(bundle, directory, context));
    for (const arch of options.parts.has("server") ? options.architectures : [])
      await add(`server, ${arch.deb}`, packageServer(arch, bundle, directory, context));
  }
  if (options.parts.has("sbom")) await add("bill of materials", writeSbom(directory, context));
  await finish(directory, files, key, context);
}

/** Completes a directory of packages: the apt repository, the manifest and the checksums. */
async function finish(directory: string, files: readonly Packaged[], key: KeyObject, context: BuildContext): Promise<void> {
  await writeAptRepository(directory, files, key, context);
  await writeManifest(directory, files, key, context);
}

async function main(): Promise<void> {
  const started = performance.now();
  const options = readOptions(process.argv.slice(2));
  if (options.is_help) return void process.stdout.write(USAGE);
  await mkdir(path.dirname(options.out), { recursive: true });
  // A directory beside the output directory, so that the output appears by one rename and is never incomplete.
  const scratch = await mkdtemp(`${options.out}.new-`);
  try {
    const directory = path.join(scratch, "packages");
    await mkdir(directory);
    await packageAll(options, directory, scratch);
    await rm(options.out, { recursive: true, force: true });
    await rename(directory, options.out);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  say(`${options.out}: ${seconds(started)}`);
}

try {
  await main();
} catch (error) {
  const is_usage = (error as NodeJS.ErrnoException).code?.startsWith("ERR_PARSE_ARGS") === true;
  if (!(error instanceof PackagingError) && !is_usage) throw error;
  process.stderr.write(`npm run package: ${(error as Error).message}\n${is_usage ? `\n${USAGE}` : ""}`);
  process.exitCode = is_usage ? 2 : 1;
}
