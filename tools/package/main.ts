import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { root } from "../../bin/launch.mjs";
import { bundleForPackages, packageAgent } from "./agent.ts";
import { writeAptRepository } from "./apt-repository.ts";
import { ARCHITECTURES, PackagingError, readContext } from "./build-context.ts";
import { newSigningKey, type Packaged, readSigningKey, writeManifest } from "./manifest.ts";

const USAGE = `usage: npm run package -- [options]

Builds all packages of the checked-out commit into one directory, which \`roamfleet serve --packages\` can serve.

  --out DIR       directory that is replaced (default: dist/packages)
  --arch LIST     amd64, arm64 or both, separated by commas (default: both)
  --only LIST     agent (default: all packages)
  --sign KEY.pem  Ed25519 private key that signs the packages (default: a key that is created for this build and not kept)
  --fast          compress fast instead of well, for tests
`;
const PARTS = ["agent"] as const;

interface Options {
  out: string;
  architectures: typeof ARCHITECTURES;
  parts: ReadonlySet<string>;
  key_file: string | undefined;
  is_fast: boolean;
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
  if (options.parts.has("agent")) {
    const bundle = await bundleForPackages(context);
    for (const arch of options.architectures) await add(`agent, ${arch.deb}`, packageAgent(arch, bundle, directory, context));
  }
  await writeAptRepository(directory, files, key, context);
  await writeManifest(directory, files, key, context);
}

async function main(): Promise<void> {
  const started = performance.now();
  const options = readOptions(process.argv.slice(2));
  await mkdir(path.dirname(options.out), { recursive: true });
  // Beside the directory, so that it appears by a rename and is never incomplete.
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
