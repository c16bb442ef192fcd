import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { createPackagesDirectory } from "../../packages/server/src/features/packages/testing/packages-directory.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { ServerProcess } from "./server-process.ts";

// Tests the part of install.sh that runs before it changes anything, on this machine. tests/machines installs the agent with the script.
const TIMEOUT = { timeout: 120_000, skip: oneNodeOnly("the certificate authority belongs to one node") };
const RUN_MS_MAX = 60_000;
const place = await mkdtemp(path.join(tmpdir(), "rf-install-"));
const packages = await createPackagesDirectory("0.3.0");
after(async () => {
  await packages[Symbol.asyncDispose]();
  await rm(place, { recursive: true, force: true });
});

interface Ran {
  code: number;
  text: string;
}

function sh(words: readonly string[], input = "", env: Record<string, string> = {}): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { timeout: RUN_MS_MAX, cwd: place, env: { PATH: process.env["PATH"], TMPDIR: place, ...env } };
    const child = execFile("sh", words, options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), text: stdout + stderr }),
    );
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

/** Starts a server with its own certificate authority. Returns its script, and the fingerprint of that authority. */
async function start(): Promise<{ server: ServerProcess; script: string; ca_fingerprint: string }> {
  const server = await ServerProcess.start({ args: ["--tls", "auto", "--packages", packages.directory] });
  const { api } = await server.org("Acme");
  const { install } = (await api.getHostedPackages()).data;
  const response = await api.request("GET", "/install.sh", { headers: { accept: "*/*" } });
  const script = path.join(place, "install.sh");
  const text = await response.text();
  await writeFile(script, text);
  assert.equal(install?.script_sha256, hash("sha256", text));
  return { server, script, ca_fingerprint: install?.ca_fingerprint ?? "" };
}

test("downloads packages for another architecture only if the certificate authority has the pinned fingerprint", TIMEOUT, async () => {
  const { server, script, ca_fingerprint } = await start();
  await using _ = server;
  const target = path.join(place, "target");
  const words = [script, "--download-only", target, "--arch", "arm64"];
  const unpinned = await sh(words);
  assert.equal(unpinned.code, 1);
  assert.match(unpinned.text, /certificate.*cannot download/is);
  const wrong = await sh([...words, "--ca-fingerprint", `sha256:${"0".repeat(64)}`]);
  assert.equal(wrong.code, 1);
  assert.match(wrong.text, /has the fingerprint sha256:[0-9a-f]{64}, not sha256:0+: do not trust this connection/);
  assert.ok(!existsSync(path.join(target, "manifest.json")));

  const right = await sh([...words, "--ca-fingerprint", ca_fingerprint.toUpperCase().replace("SHA256", "sha256")]);
  assert.equal(right.code, 0, right.text);
  for (const name of [
    "manifest.json",
    "SHA256SUMS",
    "SHA256SUMS.sig",
    "roamfleet-agent_0.3.0_arm64.tar.gz",
    "apt/dists/stable/InRelease",
    "apt/dists/stable/main/binary-arm64/Packages",
    "apt/pool/main/r/roamfleet-agent/roamfleet-agent_0.3.0_arm64.deb",
  ])
    assert.deepEqual(await readFile(path.join(target, name)), await readFile(path.join(packages.directory, name)), name);
  assert.deepEqual(await readFile(path.join(target, "install.sh")), await readFile(script));
});

test("refuses invalid options, other architectures and plain http before it changes anything", async () => {
  await using server = await ServerProcess.start({ args: ["--packages", packages.directory] });
  const script = path.join(place, "plain.sh");
  await writeFile(script, await (await fetch(`${server.own_url}/install.sh`)).text());
  const target = path.join(place, "refused");
  const refused: [words: string[], message: RegExp][] = [
    [["--enrol-key", "x"], /unknown option --enrol-key/],
    [["--enroll-key"], /--enroll-key needs a value/],
    [["--enroll-key", "$(id)"], /invalid characters/],
    [["--name", 'a"b'], /must not contain quotes/],
    [["--label", "a=b\nROAMFLEET_SERVER=x"], /line breaks/],
    [["--ca-fingerprint", "sha256:12"], /64 hexadecimal digits/],
    [["--server", "http://fleet.example.com"], /plain http to another machine/],
    [["--server", "http://localhost.example.com"], /plain http to another machine/],
    [["--server", "https://a b"], /invalid characters/],
    [["--download-only", target, "--arch", "armhf"], /architecture is armhf; the agent runs on amd64 and arm64/],
    [["--enroll-key", "-"], /contains no enrollment key/],
  ];
  for (const [words, message] of refused) {
    const { code, text } = await sh([script, ...words]);
    assert.equal(code, 1, `${words.join(" ")}: ${text}`);
    assert.match(text, message);
  }
  assert.ok(!existsSync(target));
  assert.equal((await sh([script, "--help"])).code, 0);
});

test("an incomplete install script does nothing, wherever it is cut off", async () => {
  await using server = await ServerProcess.start({ args: ["--packages", packages.directory] });
  const script = await (await fetch(`${server.own_url}/install.sh`)).text();
  const target = path.join(place, "cut");
  const words = ["-s", "--", "--download-only", target, "--arch", "amd64"];
  const lines = script.split("\n");
  const starts = lines.map((_, at) => lines.slice(0, at).join("\n"));
  // Cut the script after every tenth line, and at each of its last 120 bytes. Each run takes 2 ms.
  const ends = Array.from({ length: 120 }, (_, at) => script.slice(0, script.length - 2 - at));
  for (const cut of [...starts.filter((_, at) => at % 10 === 0), ...ends]) {
    const { text } = await sh(words, cut);
    assert.ok(!existsSync(target), `a script of ${cut.length} of ${script.length} characters ran: ${text}`);
  }
  const whole = await sh(words, script);
  assert.equal(whole.code, 0, whole.text);
  assert.ok(existsSync(target));
});
