import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPublicKey, verify } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { root } from "../../bin/launch.mjs";
import { loadConfig } from "../../packages/agent/src/config.ts";
import { unitText } from "../../packages/agent/src/install.ts";
import { bundleForPackages, packageAgent } from "./agent.ts";
import { digestFile, normalize, writeDeb, writeTarball } from "./archives.ts";
import { ARCHITECTURES, type BuildContext, readContext } from "./build-context.ts";
import { newSigningKey, readSigningKey, writeManifest } from "./manifest.ts";

const LIMIT = { timeout: 120_000 };
const BARE = { PATH: "/usr/bin:/bin" };

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-package-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

const output = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { encoding: "utf8", env: BARE, timeout: 60_000 });

/** Writes the same two files in the given order, with a time and a mode that a build must not depend on. */
function writeTree(directory: string, names: readonly string[], time: number, mode: number): string {
  for (const name of names) {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    writeFileSync(path.join(directory, name), `content of ${name}\n`);
    chmodSync(path.join(directory, name), mode);
    utimesSync(path.join(directory, name), time, time);
  }
  return directory;
}

test("a tarball and a .deb of the same files are byte-equal, whatever the time, order and umask of the build", LIMIT, async (t) => {
  const scratch = directoryOf(t);
  const context = readContext(scratch, false);
  const build = async (name: string, tree: string): Promise<string[]> => {
    await normalize(tree, context);
    const [tarball, deb] = [path.join(scratch, `${name}.tar.gz`), path.join(scratch, `${name}.deb`)];
    await writeTarball(tree, tarball, context);
    await writeDeb(tree, deb, { control: { Package: "example", Architecture: "all", Description: "Example" } }, context);
    return Promise.all([digestFile(tarball), digestFile(deb)]);
  };
  const now = Date.now() / 1_000;
  const first = await build("first", writeTree(path.join(scratch, "a"), ["etc/z", "etc/b", "a"], now - 5, 0o644));
  const second = await build("second", writeTree(path.join(scratch, "b"), ["a", "etc/b", "etc/z"], now + 5, 0o600));
  assert.deepEqual(first, second);
  const other = await build("other", writeTree(path.join(scratch, "c"), ["a", "etc/b"], now, 0o644));
  assert.notDeepEqual(first, other);
  assert.deepEqual(output("tar", "--list", "--file", path.join(scratch, "first.tar.gz")).trim().split("\n"), [
    "a",
    "etc/",
    "etc/b",
    "etc/z",
  ]);
});

test("the agent's .deb and tarball contain the same agent, which runs with nothing else installed", LIMIT, async (t) => {
  const scratch = directoryOf(t);
  const context = readContext(scratch, true);
  const arch = ARCHITECTURES.find(({ node }) => node === process.arch);
  assert.ok(arch !== undefined);
  const files = await packageAgent(arch, await bundleForPackages(context), scratch, context);
  const [deb, tarball] = ["deb", "tarball"].map((kind) => path.join(scratch, files.find((file) => file.kind === kind)?.name ?? ""));
  const [robot, unpacked] = [path.join(scratch, "robot"), path.join(scratch, "unpacked")];
  mkdirSync(unpacked);
  output("dpkg-deb", "--extract", String(deb), robot);
  output("tar", "--extract", "--file", String(tarball), "--directory", unpacked);
  const agent = path.join(robot, "opt/roamfleet/agent");
  const installed = path.join(agent, context.version);
  assert.equal(output("diff", "--recursive", installed, unpacked), "");
  const about = JSON.parse(readFileSync(path.join(installed, "agent.json"), "utf8")) as Record<string, string>;
  assert.deepEqual([about.version, about.commit, about.arch], [context.version, context.commit, arch.deb]);
  const node = path.join(installed, "bin/node");
  assert.equal(output(node, "--version").trim(), `v${about.node}`);
  const described = `${context.version} (commit ${context.commit.slice(0, 7)}, ${context.built_at.slice(0, 10)})\n`;
  assert.equal(output(node, path.join(installed, "rf-agent.mjs"), "--version"), described);
  const pty = "require('@lydell/node-pty/requireBinary.js').requireBinary('pty.node').fork";
  assert.equal(execFileSync(node, ["-p", `typeof ${pty}`], { cwd: installed, encoding: "utf8", env: BARE }).trim(), "function");
  const licenses = readFileSync(path.join(installed, "LICENSES"), "utf8");
  assert.deepEqual(
    [/\nws 8\./, /\nnode-linux-/, /\n@lydell\/node-pty-linux-/].filter((start) => !start.test(licenses)),
    [],
  );
  launchesWithoutCurrent(agent, context);
});

/** Asserts that the launcher starts the only existing version if dpkg was interrupted before it set the link `current`. */
function launchesWithoutCurrent(agent: string, { version }: BuildContext): void {
  const launch = path.join(agent, "launch");
  assert.match(output(launch, "--help"), /--enroll-key/);
  symlinkSync("0.0.1", path.join(agent, "current"));
  assert.match(output(launch, "--help"), /--enroll-key/);
  rmSync(path.join(agent, version, "rf-agent.mjs"));
  assert.throws(() => output(launch, "--help"), /contains no version of the agent/);
}

test("the service unit in the agent's .deb has the settings of the unit that `rf-agent install` writes", LIMIT, async () => {
  const config = await loadConfig({ server: "https://fleet.example.com", state: "/var/lib/roamfleet-agent" }, {});
  const options = { node: "/n", program: "/p", environment_file: "/etc/roamfleet/agent.env", allow_new_privileges: false };
  const settings = (unit: string): string[] => unit.split("\n").filter((line) => /^\w+=/.test(line) && !line.startsWith("ExecStart="));
  const packaged = settings(readFileSync(path.join(root, "packages/agent/debian/roamfleet-agent.service"), "utf8"));
  const missing = settings(unitText(config, options)).filter((line) => !packaged.includes(line));
  assert.deepEqual(missing, []);
});

test("the manifest and the checksums are signed, and sha256sum accepts them", LIMIT, async (t) => {
  const directory = directoryOf(t);
  writeFileSync(path.join(directory, "example_all.deb"), "content");
  const key = newSigningKey();
  await writeManifest(
    directory,
    [{ name: "example_all.deb", kind: "deb", package: "example", arch: "all" }],
    key,
    readContext(directory, true),
  );
  execFileSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: directory, timeout: 60_000 });
  const read = (name: string): string => readFileSync(path.join(directory, name), "utf8");
  const signature = Buffer.from(read("SHA256SUMS.sig"), "base64");
  const key_of = createPublicKey(read("signing-key.pem"));
  assert.ok(verify(null, Buffer.from(read("SHA256SUMS")), key_of, signature));
  assert.ok(!verify(null, Buffer.from(`${read("SHA256SUMS")} `), key_of, signature));
  assert.match(read("SHA256SUMS"), /manifest\.json/);
  writeFileSync(path.join(directory, "key.pem"), key.export({ type: "pkcs8", format: "pem" }));
  assert.ok((await readSigningKey(path.join(directory, "key.pem"))).equals(key));
  await assert.rejects(readSigningKey(path.join(directory, "SHA256SUMS")), /contains no readable private key/);
});
