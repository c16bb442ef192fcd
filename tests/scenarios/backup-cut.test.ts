import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, existsSync, globSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { oneNodeOnly } from "../harness/nodes.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { runCommand, startCommand } from "../processes/server-command.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the backup of an embedded database") };

let server: ServerProcess;
let place = "";
let good = "";

before(async () => {
  if (LIMIT.skip !== false) return;
  place = mkdtempSync(path.join(tmpdir(), "roamfleet-cut-"));
  good = path.join(place, "good");
  server = await ServerProcess.start({ args: ["--tls", "auto"] });
  const { api } = await server.org("Cut");
  await pushBundle(api, "one", await appBundle());
  const made = await runCommand(["backup", "--data", server.data, "--to", good]);
  assert.equal(made.code, 0, made.output);
}, LIMIT);

after(async () => {
  await server?.[Symbol.asyncDispose]();
  rmSync(place, { recursive: true, force: true });
}, LIMIT);

test("an interrupted backup does not get its final name, and cannot be restored", LIMIT, async () => {
  const to = path.join(place, "killed");
  const program = startCommand(["backup", "--data", server.data, "--to", to]);
  const partial = await program.until("the backup to begin", () => readdirSync(place).find((name) => name.startsWith("killed.partial-")));
  await program.kill();
  assert.equal(existsSync(to), false);
  const data = path.join(place, "of-killed");
  const { code, output } = await runCommand(["restore", "--from", path.join(place, partial), "--data", data]);
  assert.deepEqual([code, /is not a complete backup: it has no readable manifest.json/.test(output)], [2, true], output);
  assert.equal(existsSync(data), false);
});

test("a restore refuses a backup with a missing or changed file and writes nothing", LIMIT, async () => {
  const [artifact = ""] = globSync("data/blobs/blobs/*/*/*", { cwd: good });
  const spoils: [name: string, message: RegExp, spoil: (file: string) => void][] = [
    [artifact, /it lacks blobs\/blobs/, (file) => rmSync(file)],
    [artifact, /damaged: blobs\/blobs\/.* differs from what was backed up/, (file) => truncateSync(file, 10)],
    ["data/tls/ca-key.pem", /damaged: tls\/ca-key.pem/, (file) => flip(file)],
    ["postgres/manifest.json", /damaged: postgres\/manifest.json/, (file) => appendFileSync(file, " ")],
    ["postgres/database/PG_VERSION", /damaged: PG_VERSION/, (file) => flip(file)],
    ["manifest.json", /damaged: manifest.json is not JSON/, (file) => truncateSync(file, 100)],
  ];
  const data = path.join(place, "spoilt");
  for (const [name, message, spoil] of spoils) {
    const file = path.join(good, name);
    copyFileSync(file, path.join(place, "kept"));
    spoil(file);
    const { code, output } = await runCommand(["restore", "--from", good, "--data", data]);
    assert.deepEqual([code, message.test(output)], [2, true], `${name}: ${output}`);
    assert.deepEqual(existsSync(data) ? readdirSync(data) : [], [], name);
    copyFileSync(path.join(place, "kept"), file);
  }
});

test("serve, backup and restore refuse the directory of an interrupted restore and state what to do", LIMIT, async () => {
  const data = path.join(place, "half");
  const program = startCommand(["restore", "--from", good, "--data", data]);
  await program.until("the restore to begin", () => existsSync(path.join(data, "restore-unfinished")));
  await program.kill();
  assert.ok(existsSync(path.join(data, "restore-unfinished")), "the kill came too late");
  for (const args of [
    ["serve", "--data", data, "--listen", "127.0.0.1:0"],
    ["backup", "--data", data, "--to", path.join(place, "of-half")],
    ["restore", "--from", good, "--data", data],
    ["upgrade-database", "--data", data],
  ]) {
    const { code, output } = await runCommand(args);
    const is_explained =
      /a restore into .*half is running or was interrupted.*remove the contents of this directory and run roamfleet restore again/.test(
        output,
      );
    assert.deepEqual([code, is_explained], [2, true], `${args[0]}: ${output}`);
  }
  for (const name of readdirSync(data)) rmSync(path.join(data, name), { recursive: true });
  const restored = await runCommand(["restore", "--from", good, "--data", data]);
  assert.equal(restored.code, 0, restored.output);
  const [was, is] = [await fingerprint(server.data), await fingerprint(data)];
  assert.equal(is, was, "the authority that clients pin");
});

async function fingerprint(data: string): Promise<string> {
  const { code, output } = await runCommand(["fingerprint", "--data", data]);
  assert.equal(code, 0, output);
  return output;
}

/** Changes the last byte. */
function flip(file: string): void {
  truncateSync(file, statSync(file).size - 1);
  appendFileSync(file, "x");
}
