import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError, type Client, createClient } from "@roamfleet/sdk";
import { buildHelloRobot, HELLO_VERSIONS } from "../../examples/hello-robot/build.ts";

const ORG = "demo";
const SITE = "Lab";
const FLEET = "Carts";
const ONLINE_TIMEOUT_MS = 60_000;

/** State that must survive a restart of the demo: secrets that the server shows only once. */
interface Kept {
  token: string;
  enrollment_key: string;
}

export interface Demo extends Kept {
  fleet_id: string;
  robotsOnline(names: readonly string[], failure: () => string | undefined): Promise<void>;
  robotId(name: string): Promise<string>;
}

/** Creates the missing objects of the demo's org, and finds existing ones. */
export async function setUpOrg(url: string, data: string): Promise<Demo> {
  const file = path.join(data, "demo", "demo.json");
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const kept = JSON.parse(await readFile(file, "utf8").catch(() => "{}")) as Partial<Kept>;
  const token = kept.token !== undefined && (await works(url, kept.token)) ? kept.token : await approveOrg(url);
  const api = createClient({ base_url: url, token });
  const site = (await api.listSites({})).items.find(({ name }) => name === SITE) ?? (await api.createSite({ body: { name: SITE } })).data;
  const fleet =
    (await api.listFleets({})).items.find(({ name }) => name === FLEET) ??
    (await api.createFleet({ body: { name: FLEET, site_id: site.id } })).data;
  const enrollment_key =
    kept.token === token && kept.enrollment_key !== undefined ? kept.enrollment_key : await makeKey(api, site.id, fleet.id);
  await writeFile(`${file}.tmp`, `${JSON.stringify({ token, enrollment_key }, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.tmp`, file);
  return {
    token,
    enrollment_key,
    fleet_id: fleet.id,
    robotsOnline: (names, failure) => robotsOnline(api, names, failure),
    robotId: async (name) => (await api.listRobots({})).items.find((robot) => robot.name === name)?.id ?? "",
  };
}

async function works(url: string, token: string): Promise<boolean> {
  try {
    await createClient({ base_url: url, token }).getMe({});
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false;
    throw error;
  }
}

/**
 * Creates and approves an org, and returns its first token. Appends a number to the name if an org of that name exists. The admin routes
 * are open on loopback while SERVICE_ADMIN_TOKEN is not set.
 */
async function approveOrg(url: string): Promise<string> {
  const admin = createClient({ base_url: url, admin_token: process.env.SERVICE_ADMIN_TOKEN });
  const taken = new Set((await admin.listOrgs({})).items.map(({ name }) => name));
  let name = ORG;
  for (let i = 2; taken.has(name); i += 1) name = `${ORG}-${i}`;
  const { data: org } = await admin.createOrg({ body: { name } });
  const { data } = await admin.approveOrg({ params: { id: org.id } });
  if (data.token === null) throw new Error("the server did not show the org's token");
  return data.token;
}

async function makeKey(api: Client, site_id: string, fleet_id: string): Promise<string> {
  const { data } = await api.createEnrollmentKey({ body: { site_id, fleet_id, label: "demo robots", max_uses: 100, expires_in_hours: 0 } });
  if (data.key === null) throw new Error("the server did not show the enrollment key");
  return data.key;
}

async function robotsOnline(api: Client, names: readonly string[], failure: () => string | undefined): Promise<void> {
  const deadline = performance.now() + ONLINE_TIMEOUT_MS;
  for (;;) {
    const online = new Set((await api.listRobots({ query: { status: "online" } })).items.map(({ name }) => name));
    if (names.every((name) => online.has(name))) return;
    const why = failure();
    if (why !== undefined) throw new Error(why);
    if (performance.now() > deadline) throw new Error(`the robots were not online within ${ONLINE_TIMEOUT_MS / 1_000} s`);
    await sleep(200);
  }
}

/** Writes the sample app's versions as bundles that can be pushed. Returns their paths by version. */
export async function writeBundles(directory: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const version of HELLO_VERSIONS) {
    const file = path.join(directory, `hello-robot-${version}.tar.gz`);
    await writeFile(file, (await buildHelloRobot(version)).bytes);
    files[version] = file;
  }
  return files;
}
