import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { installCommand } from "@roamfleet/protocol/install-command";
import { type Client, createClient } from "@roamfleet/sdk";
import { oneNodeOnly } from "../harness/nodes.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { buildPackages } from "./build-packages.ts";
import { ContainerRig, type SystemdContainer, whyNoContainers } from "./systemd-container.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

// Real packages on clean systems: building the packages takes 10 s, each installation a few seconds.
const skip =
  whyNoContainers() ??
  (oneNodeOnly("the certificate authority belongs to one node") || (MACHINES_FULL ? false : "takes a minute: npm run test:machines"));
const LIMIT = { timeout: 600_000, skip };
/** The promise of the installation: online within a minute after the command was started. */
const ONLINE_MS_MAX = 60_000;

const stack = new AsyncDisposableStack();
let rig: ContainerRig;
let server: ServerProcess;
let api: Client;
let place: string;
let fleet: { site_id: string; fleet_id: string };

before(async () => {
  if (skip !== false) return;
  place = await mkdtemp(path.join(tmpdir(), "rf-install-machines-"));
  stack.defer(() => rm(place, { recursive: true, force: true }));
  buildPackages(path.join(place, "packages"), "--arch", "amd64", "--only", "agent");
  rig = stack.use(await ContainerRig.start());
  const args = ["--tls", "auto", "--packages", path.join(place, "packages")];
  server = stack.use(await ServerProcess.start({ listen: "0.0.0.0:0", args, nodes: 1 }));
  const { token } = await server.org("Acme");
  api = createClient({ base_url: rig.reach(server.url), ca: server.ca, token });
  const site_id = (await api.createSite({ body: { name: "Site" } })).data.id;
  fleet = { site_id, fleet_id: (await api.createFleet({ body: { name: "Fleet", site_id } })).data.id };
}, LIMIT);
after(() => stack.disposeAsync());

/** Returns the command that `rf keys new` prints, without sudo, which a minimal system does not have. */
async function newCommand(more = ""): Promise<string> {
  const { key } = (await api.createEnrollmentKey({ body: fleet })).data;
  const { install } = (await api.getHostedPackages()).data;
  assert.ok(install != null && key !== null);
  return `cd /root && ${installCommand(install, api.base_url, key).replace("sudo ", "")} ${more}`;
}

const robots = async (): Promise<{ id: string; name: string; status: string; labels: Record<string, string> }[]> =>
  (await api.listRobots({ query: { sort: "newest" } })).items.filter(({ status }) => status !== "decommissioned");

/** Runs a shell command. Returns its exit code and everything that it printed. */
async function attempt(machine: SystemdContainer, command: string): Promise<{ code: number | null; text: string }> {
  const { code, stdout, stderr } = await machine.exec(["sh", "-c", command]);
  return { code, text: stdout + stderr };
}

async function assertNothingInstalled(machine: SystemdContainer): Promise<void> {
  const { text } = await attempt(
    machine,
    "ls -d /opt/roamfleet /etc/roamfleet /var/lib/roamfleet-agent /usr/bin/rf-agent /usr/local/bin/rf-agent /var/tmp/roamfleet* 2>/dev/null",
  );
  assert.equal(text, "");
}

test("the printed command connects a clean Debian as a robot, and later runs create no other robot", LIMIT, async (t: TestContext) => {
  await using machine = await rig.boot();
  const command = await newCommand("--name cart-7 --label zone=a --label line=2");
  const began = performance.now();
  const first = await attempt(machine, command);
  const took = Math.round(performance.now() - began);
  assert.equal(first.code, 0, first.text);
  t.diagnostic(`online ${took} ms after the start of the command\n${first.text}`);
  assert.ok(took < ONLINE_MS_MAX, `${took} ms`);
  const [robot, ...others] = await robots();
  assert.deepEqual([robot?.name, robot?.status, robot?.labels, others], ["cart-7", "online", { zone: "a", line: "2" }, []]);
  assert.match(first.text, new RegExp(`online: cart-7 \\(${robot?.id}\\)`));
  assert.equal(await machine.sh("stat -c %a /etc/roamfleet/agent.env"), "600\n");
  assert.doesNotMatch(await machine.read("/etc/roamfleet/agent.env"), /ENROLL_KEY|rf_enroll/);
  const { MainPID } = await machine.unit("roamfleet-agent", "MainPID");

  // Neither the same key nor a new one creates another robot, and the agent is not restarted.
  for (const again of [
    command,
    await newCommand(),
    "cd /root && sh install.sh --ca-fingerprint " + (command.split("--ca-fingerprint ")[1] ?? "").split(" ")[0],
  ]) {
    const { code, text } = await attempt(machine, again);
    assert.equal(code, 0, text);
    assert.match(text, /no change/);
  }
  assert.deepEqual(
    (await robots()).map(({ id }) => id),
    [robot?.id],
  );
  assert.equal((await machine.unit("roamfleet-agent", "MainPID")).MainPID, MainPID);
  const moved = await attempt(machine, "cd /root && sh install.sh --server https://other.example");
  assert.match(moved.text, /enrolled at https:\/\/10\..*, not at https:\/\/other.example/);

  assert.equal((await attempt(machine, "cd /root && sh install.sh --uninstall")).code, 0);
  assert.notEqual((await machine.exec(["systemctl", "is-active", "roamfleet-agent"])).code, 0);
  const back = await attempt(machine, command);
  assert.equal(back.code, 0, back.text);
  assert.deepEqual(
    (await robots()).map(({ id, status }) => [id, status]),
    [[robot?.id, "online"]],
  );

  const purged = await attempt(machine, "cd /root && sh install.sh --purge");
  assert.equal(purged.code, 0, purged.text);
  await assertNothingInstalled(machine);
  await api.deleteRobot({ params: { id: robot?.id ?? "" } });
});

test("installs from a downloaded directory on a robot without curl", LIMIT, async () => {
  await using machine = await rig.boot();
  const files = path.join(place, "files");
  const { install } = (await api.getHostedPackages()).data;
  const ca = install?.ca_fingerprint ?? "";
  const script = path.join(place, "install.sh");
  await writeFile(script, await (await api.request("GET", "/install.sh", { headers: { accept: "*/*" } })).text());
  const child = spawn("sh", [script, "--download-only", files, "--arch", "amd64", "--ca-fingerprint", ca], { stdio: "inherit" });
  assert.deepEqual(await once(child, "close"), [0, null]);
  await machine.copyIn(files, "/mnt/stick");
  await machine.sh("mv /usr/bin/curl /usr/bin/not-curl");
  const { key } = (await api.createEnrollmentKey({ body: fleet })).data;
  const command = `cd /mnt/stick && echo ${key} | sh install.sh --from . --enroll-key - --ca-fingerprint ${ca}`;
  const dry = await attempt(machine, `${command} --dry-run`);
  assert.equal(dry.code, 0, dry.text);
  await assertNothingInstalled(machine);
  // Damage a package on the USB stick. apt compares the package with the signed list.
  const deb = "apt/pool/main/roamfleet-agent_0.1.0_amd64.deb";
  await machine.sh(`cd /mnt/stick && cp ${deb} /root/good && printf x | dd of=${deb} bs=1 seek=100000 conv=notrunc status=none`);
  const damaged = await attempt(machine, command);
  assert.equal(damaged.code, 1);
  assert.match(damaged.text, /the package is damaged/);
  await assertNothingInstalled(machine);
  await machine.sh(`cd /mnt/stick && truncate -s 1000 ${deb}`);
  assert.match((await attempt(machine, command)).text, /the package is damaged/);
  await machine.sh(`cp /root/good /mnt/stick/${deb}`);
  const good = await attempt(machine, command);
  assert.equal(good.code, 0, good.text);
  const online = await robots();
  assert.deepEqual(
    online.map(({ name, status }) => [name, status]),
    [["robot", "online"]],
  );
  await api.deleteRobot({ params: { id: online[0]?.id ?? "" } });
});

test("installs nothing with a foreign signature, a full disk or a wrong certificate authority", LIMIT, async () => {
  await using machine = await rig.boot({ flags: ["--tmpfs=/opt:size=20m"] });
  const command = await newCommand();
  const full = await attempt(machine, command);
  assert.equal(full.code, 1);
  assert.match(full.text, /\/opt has \d+ MiB free; the installation needs 250 MiB there/);
  await machine.sh("umount /opt");
  const wrong = await attempt(machine, command.replace(/--ca-fingerprint \S+/, `--ca-fingerprint sha256:${"0".repeat(64)}`));
  assert.match(wrong.text, /do not trust this connection/);
  const changed = await attempt(machine, command.replace(/echo "\w{8}/, 'echo "00000000'));
  assert.match(changed.text, /install\.sh: FAILED/);

  const { directory, restore } = await foreignSignature();
  const foreign = await attempt(machine, command);
  await restore();
  assert.equal(foreign.code, 1, foreign.text);
  assert.match(foreign.text, /the apt repository is not valid or has a wrong signature/);
  await assertNothingInstalled(machine);
  assert.deepEqual(await robots(), []);
  assert.ok(directory);
});

test("installs the signed tarball on a system without apt, and removes it", LIMIT, async () => {
  await using machine = await rig.boot();
  await machine.sh("mv /usr/bin/apt-get /usr/bin/dpkg /root/");
  const command = await newCommand("--name hand-made");
  const tarball = path.join(place, "packages/roamfleet-agent_0.1.0_amd64.tar.gz");
  const bytes = await readFile(tarball);
  await writeFile(tarball, bytes.with(100_000, (bytes[100_000] ?? 0) ^ 1));
  const damaged = await attempt(machine, command);
  await writeFile(tarball, bytes);
  assert.match(damaged.text, /tar\.gz is damaged: its SHA-256 is not the signed one/);
  const sums = path.join(place, "packages/SHA256SUMS");
  const signed = await readFile(sums);
  await writeFile(sums, Buffer.concat([signed, Buffer.from("\n")]));
  const foreign = await attempt(machine, command);
  await writeFile(sums, signed);
  assert.match(foreign.text, /the signature of SHA256SUMS is not valid/);
  await assertNothingInstalled(machine);

  const first = await attempt(machine, command);
  assert.equal(first.code, 0, first.text);
  const again = await attempt(machine, command);
  assert.match(again.text, /is installed: no change/);
  const online = await robots();
  assert.deepEqual(
    online.map(({ name, status }) => [name, status]),
    [["hand-made", "online"]],
  );
  const { MainPID } = await machine.unit("roamfleet-agent", "MainPID");
  assert.match(await machine.read(`/proc/${MainPID}/cmdline`), /opt\/roamfleet\/agent\/(launch|0\.1\.0)/);
  const purged = await attempt(machine, "cd /root && sh install.sh --purge");
  assert.equal(purged.code, 0, purged.text);
  await assertNothingInstalled(machine);
  await api.deleteRobot({ params: { id: online[0]?.id ?? "" } });
});

/** Replaces the signature of the hosted repository by the signature of another key. The script still contains the right key. */
async function foreignSignature(): Promise<{ directory: string; restore: () => Promise<void> }> {
  const directory = path.join(place, "packages/apt/dists/stable");
  const kept = path.join(place, "InRelease");
  await cp(path.join(directory, "InRelease"), kept);
  const other = path.join(place, "other");
  buildPackages(other, "--arch", "amd64", "--only", "agent");
  await writeFile(path.join(directory, "InRelease"), await readFile(path.join(other, "apt/dists/stable/InRelease")));
  return { directory, restore: () => cp(kept, path.join(directory, "InRelease")) };
}
