import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { type Client, createClient } from "@roamfleet/sdk";
import metadata from "../../package.json" with { type: "json" };
import { bundleForPackages, packageAgent } from "../../tools/package/agent.ts";
import { writeDeb } from "../../tools/package/archives.ts";
import { ARCHITECTURES, readContext } from "../../tools/package/build-context.ts";
import { buildPackages } from "./build-packages.ts";
import type { Machine } from "./machine.ts";
import { ContainerRig, type SystemdContainer, whyNoContainers } from "./systemd-container.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

const LIMIT = { timeout: 900_000, skip: MACHINES_FULL ? whyNoContainers() : "builds all packages: npm run test:machines" };
const { version } = metadata;
const NEXT = "99.0.0";
const [ARCH] = ARCHITECTURES;
const AGENT = "roamfleet-agent";
const INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends"];
/**
 * Lists files except those that a package may leave: logs and the records of dpkg, apt and systemd. The base image has no file that is
 * newer than a package.
 */
const LIST_FILES = `find / -xdev \\( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /root -o -path /var/tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd \\) -prune -o -print | sort`;

/** Files that are written when a package creates its user. The user stays after a purge. */
const PASSWORD_BACKUPS = ["/etc/group-", "/etc/gshadow-", "/etc/passwd-", "/etc/shadow-"];

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-packages-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Builds the packages of this machine's architecture, and the agent's .deb of a later version. */
async function buildAll(t: TestContext): Promise<{ packages: string; upgrade: string; foreign: string }> {
  const scratch = directoryOf(t);
  const packages = path.join(scratch, "packages");
  buildPackages(packages, "--only", "agent,server");
  const context = { ...readContext(scratch, true), version: NEXT };
  const later = path.join(scratch, "later");
  mkdirSync(later);
  if (ARCH !== undefined) await packageAgent(ARCH, await bundleForPackages(context), later, context);
  const [tree, foreign] = [path.join(scratch, "tree"), path.join(scratch, "foreign.deb")];
  mkdirSync(tree);
  const control = { Package: AGENT, Architecture: "arm64", Description: "For another architecture" };
  await writeDeb(tree, foreign, { control }, context);
  return { packages, upgrade: path.join(later, `${AGENT}_${NEXT}_amd64.deb`), foreign };
}

interface Org {
  url: string;
  fingerprint: string;
  key: string;
  api: Client;
}

/** Installs the server, and creates an org and an enrollment key through its API. */
async function installServer(machine: SystemdContainer, packages: string): Promise<Org> {
  await machine.copyIn(packages, "/srv/packages");
  await machine.run([...INSTALL, `/srv/packages/roamfleet_${version}_amd64.deb`, `/srv/packages/roamfleet-packages_${version}_all.deb`]);
  const address = (await machine.sh("ip -4 -o address show scope global | awk '{print $4}' | cut -d/ -f1")).trim();
  await machine.sh(`echo ROAMFLEET_TLS_NAMES=${address} >>/etc/roamfleet/server.env; systemctl restart roamfleet`);
  const url = `https://${address}:7600`;
  await machine.until("the server to be ready", () => machine.run(["curl", "--insecure", "--fail", "--silent", `${url}/readyz`]));
  assert.match(await machine.run(["curl", "--insecure", "--fail", "--silent", `${url}/`]), /<!doctype html>[\s\S]*\/assets\//);
  const hosted = async (file: string): Promise<string> => machine.run(["curl", "--insecure", "--fail", "--silent", `${url}${file}`]);
  assert.match(await hosted("/install.sh"), /^#!\/bin\/sh\n/);
  assert.match(await hosted("/apt/dists/stable/main/binary-arm64/Packages"), /^Package: roamfleet-agent$/m);
  assert.match(await machine.run(["rf", "--version"]), /^\d+\.\d+\.\d+ \(commit [0-9a-f]{7}, \d{4}-/);
  assert.match(await machine.run(["roamfleet", "--version"]), /^\d+\.\d+\.\d+ \(commit [0-9a-f]{7}, \d{4}-/);
  const admin_token = await machine.sh(". /etc/roamfleet/server.env; printf %s $SERVICE_ADMIN_TOKEN");
  const ca = await machine.read("/var/lib/roamfleet/tls/ca.pem");
  const admin = createClient({ base_url: url, ca, admin_token });
  const { data: org } = await admin.createOrg({ body: { name: "Machines" } });
  const { token } = (await admin.approveOrg({ params: { id: org.id } })).data;
  const api = createClient({ base_url: url, ca, token: token ?? "" });
  const { data: site } = await api.createSite({ body: { name: "Hall" } });
  const { data: fleet } = await api.createFleet({ body: { name: "Fleet", site_id: site.id } });
  const { key } = (await api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id } })).data;
  const fingerprint = (await machine.run(["roamfleet", "fingerprint"])).trim();
  return { url, fingerprint, key: key ?? "", api };
}

const robotsOf = async ({ api }: Org): Promise<string[]> => (await api.listRobots()).items.map(({ name, status }) => `${name} ${status}`);

const online = (machine: Machine, org: Org): Promise<unknown> =>
  machine.until("the robot to be online", async () => (await robotsOf(org)).includes("robot online"));

/** Returns the pid of the agent itself: the unit's main process is its launcher. */
const pidOf = async (machine: Machine): Promise<string> => (await machine.read("/run/roamfleet-agent/pid")).trim();

test("packages install on a clean Debian and upgrade, unsuitable packages are refused, and a purge leaves no files", LIMIT, async (t) => {
  const { packages, upgrade, foreign } = await buildAll(t);
  await using rig = await ContainerRig.start();
  await using server = await rig.boot();
  const before_server = await server.sh(LIST_FILES);
  const org = await installServer(server, packages);

  await using robot = await rig.boot();
  const before = await robot.sh(LIST_FILES);
  await robot.copyIn(path.join(packages, `${AGENT}_${version}_amd64.deb`), "/root/agent.deb");
  const began = performance.now();
  await robot.run([...INSTALL, "/root/agent.deb"]);
  t.diagnostic(`installed after ${Math.round(performance.now() - began)} ms`);
  assert.equal((await robot.unit(AGENT, "ActiveState")).ActiveState, "inactive", "an agent without settings does not start");
  assert.equal((await robot.exec(["systemctl", "is-failed", AGENT])).stdout.trim(), "inactive");
  const settings = { ROAMFLEET_SERVER: org.url, ROAMFLEET_ENROLL_KEY: org.key, ROAMFLEET_CA_FINGERPRINT: org.fingerprint };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  await robot.write("/etc/roamfleet/agent.env", lines.join(""), "0600");
  await robot.run(["systemctl", "restart", AGENT]);
  await online(robot, org);
  t.diagnostic(`online after ${Math.round(performance.now() - began)} ms`);

  await robot.copyIn(foreign, "/root/foreign.deb");
  const pid = await pidOf(robot);
  assert.match(
    (await robot.exec(["dpkg", "--install", "/root/foreign.deb"])).stderr,
    /architecture \(arm64\) does not match system \(amd64\)/,
  );
  const cut = path.join(path.dirname(upgrade), "cut.deb");
  execFileSync("cp", [upgrade, cut]);
  truncateSync(cut, 20_000_000);
  await robot.copyIn(cut, "/root/cut.deb");
  assert.notEqual((await robot.exec(["dpkg", "--install", "/root/cut.deb"])).code, 0);
  assert.equal(await robot.run(["readlink", "/opt/roamfleet/agent/current"]), `${version}\n`);
  assert.equal(await pidOf(robot), pid, "refused packages leave the agent running");

  await robot.copyIn(upgrade, "/root/upgrade.deb");
  await robot.run([...INSTALL, "/root/upgrade.deb"]);
  assert.equal(await robot.run(["readlink", "/opt/roamfleet/agent/current"]), `${NEXT}\n`);
  const is_new = async (): Promise<boolean> =>
    (await robot.exec(["readlink", `/proc/${await pidOf(robot)}/exe`])).stdout === `/opt/roamfleet/agent/${NEXT}/bin/node\n`;
  await robot.until("the new version to run", is_new);
  await online(robot, org);

  await robot.run(["apt-get", "remove", "--yes", AGENT]);
  assert.equal((await robot.exec(["pgrep", "--full", "rf-agent"])).stdout, "");
  assert.equal((await robot.exec(["ls", "/opt/roamfleet"])).stdout, "");
  await robot.run([...INSTALL, "/root/agent.deb"]);
  await online(robot, org);
  assert.equal((await robotsOf(org)).length, 1, "the robot kept its identity");
  await robot.crash();
  await robot.waitForUnit(AGENT);
  await robot.run(["apt-get", "purge", "--yes", AGENT]);
  assert.deepEqual(
    added(before, await robot.sh(LIST_FILES)),
    PASSWORD_BACKUPS.filter((file) => !before.includes(file)),
  );

  await server.run(["apt-get", "purge", "--yes", "roamfleet", "roamfleet-packages"]);
  await server.run(["rm", "-rf", "/srv/packages"]);
  assert.deepEqual(
    added(before_server, await server.sh(LIST_FILES)),
    PASSWORD_BACKUPS.filter((file) => !before_server.includes(file)),
  );
});

/** Returns the paths that are only in the later list. */
function added(before: string, after: string): string[] {
  const known = new Set(before.split("\n"));
  return after.split("\n").filter((file) => !known.has(file));
}
