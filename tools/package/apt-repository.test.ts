import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { writeAptRepository } from "./apt-repository.ts";
import { digestFile, writeDeb } from "./archives.ts";
import { type BuildContext, readContext } from "./build-context.ts";
import { newSigningKey, type Packaged } from "./manifest.ts";
import type { KeyObject } from "node:crypto";

const LIMIT = { timeout: 120_000 };

async function repository(t: TestContext, key: KeyObject): Promise<{ directory: string; apt: string; context: BuildContext }> {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-apt-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const context = readContext(directory, true);
  const files: Packaged[] = [];
  for (const arch of ["amd64", "arm64", "all"] as const) {
    const tree = path.join(directory, `tree-${arch}`);
    mkdirSync(tree);
    writeFileSync(path.join(tree, "content"), arch);
    const name = `example-${arch}_${context.version}_${arch}.deb`;
    const control = { Package: `example-${arch}`, Architecture: arch, Description: "Example\n With a second line." };
    await writeDeb(tree, path.join(directory, name), { control }, context);
    files.push({ name, kind: "deb", package: `example-${arch}`, arch });
  }
  await writeAptRepository(directory, files, key, context);
  return { directory, apt: path.join(directory, "apt"), context };
}

/** Runs apt-get or apt-cache with lists and caches in `state`, for a machine of architecture `arch`. */
function apt(state: string, arch: string, program: string, ...args: string[]): { status: number | null; text: string } {
  const options = [`Dir=${state}`, "Dir::State::Status=/dev/null", `APT::Architecture=${arch}`, `APT::Architectures::=${arch}`];
  options.push(`APT::Sandbox::User=root`, "Acquire::Languages=none", "APT::Update::Error-Mode=any");
  const words = options.flatMap((option) => ["-o", option]);
  const { status, stdout, stderr } = spawnSync(program, [...words, ...args], { cwd: state, encoding: "utf8", timeout: 60_000 });
  return { status, text: stdout + stderr };
}

function aptState(directory: string, place: string): string {
  const state = path.join(directory, "state");
  for (const name of ["etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"])
    mkdirSync(path.join(state, name), { recursive: true });
  writeFileSync(path.join(state, "etc/apt/sources.list"), `deb [signed-by=${place}/roamfleet.gpg] file:${place} stable main\n`);
  return state;
}

test("apt verifies the repository and downloads the packages of its architecture", LIMIT, async (t) => {
  const { directory, apt: place, context } = await repository(t, newSigningKey());
  const state = aptState(directory, place);
  const updated = apt(state, "arm64", "apt-get", "update");
  assert.equal(updated.status, 0, updated.text);
  assert.doesNotMatch(updated.text, /^[WE]:/m);
  const names = apt(state, "arm64", "apt-cache", "pkgnames").text.trim().split("\n").toSorted();
  assert.deepEqual(names, ["example-all", "example-arm64"]);
  const downloaded = apt(state, "arm64", "apt-get", "download", "example-arm64");
  assert.equal(downloaded.status, 0, downloaded.text);
  const name = `example-arm64_${context.version}_arm64.deb`;
  assert.equal(await digestFile(path.join(state, name)), await digestFile(path.join(directory, name)));
});

test("apt refuses a repository that was changed, or that another key signed", LIMIT, async (t) => {
  const { directory, apt: place } = await repository(t, newSigningKey());
  const { apt: other } = await repository(t, newSigningKey());
  const state = aptState(directory, place);
  const keyring = readFileSync(path.join(place, "roamfleet.gpg"));
  writeFileSync(path.join(place, "roamfleet.gpg"), readFileSync(path.join(other, "roamfleet.gpg")));
  const foreign = apt(state, "amd64", "apt-get", "update");
  assert.notEqual(foreign.status, 0);
  assert.match(foreign.text, /NO_PUBKEY|not signed/);
  writeFileSync(path.join(place, "roamfleet.gpg"), keyring);
  rmSync(path.join(place, "dists/stable/main/binary-amd64/Packages.gz"));
  appendFileSync(path.join(place, "dists/stable/main/binary-amd64/Packages"), "\nPackage: intruder\n");
  assert.notEqual(apt(state, "amd64", "apt-get", "update").status, 0);
  const release = path.join(place, "dists/stable/InRelease");
  writeFileSync(release, readFileSync(release, "utf8").replace("Origin: Roamfleet", "Origin: Intruder"));
  assert.match(apt(state, "amd64", "apt-get", "update").text, /BADSIG|not signed/);
});

test("each file of the repository is signed, and the same key and commit give the same bytes", LIMIT, async (t) => {
  const key = newSigningKey();
  const [{ apt: first }, { apt: second }] = [await repository(t, key), await repository(t, key)];
  for (const name of ["dists/stable/InRelease", "dists/stable/Release.gpg", "roamfleet.gpg"])
    assert.equal(await digestFile(path.join(first, name)), await digestFile(path.join(second, name)));
  const suite = path.join(first, "dists/stable");
  const verified = ["--keyring", path.join(first, "roamfleet.gpg"), path.join(suite, "Release.gpg"), path.join(suite, "Release")];
  execFileSync("gpgv", verified, { stdio: "ignore", timeout: 60_000 });
  execFileSync("gpgv", ["--keyring", path.join(first, "roamfleet.gpg"), path.join(suite, "InRelease")], {
    stdio: "ignore",
    timeout: 60_000,
  });
});
