import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import fs from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import { isTerminal } from "@roamfleet/protocol";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { signRelease, signTrust } from "@roamfleet/protocol/signatures";
import type { Client } from "@roamfleet/sdk";
import { WebSocket } from "ws";
import { AgentRefused, askAgent } from "../../packages/agent/src/local/client.ts";
import { writeTrust } from "../../packages/agent/src/signing/pinned-trust.ts";
import { releaseOf, shellRelease, type TestRelease, WELL } from "../../packages/agent/src/testing/bundles.ts";
import { DeploymentsRig } from "../../packages/agent/src/testing/deployments-rig.ts";
import { signed, statementOf, trusting } from "../../packages/agent/src/testing/signing.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { streamTarget } from "../harness/stream-target.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ATTACKS, LABELS, ROBOT, SIGNERS, TEST_ORG } from "./signed-offers.ts";
import { AttackLedger, readRunning } from "./signed-only-robot.ts";

const ROUNDS = promiseSize({ test: 1, full: 40 });
const OPERATOR_ROUNDS = promiseSize({ test: 1, full: 5 });
const LIMIT = { timeout: 900_000 };
const MAKER = SIGNERS.first;
const TRUST = { serial: 1, require_signature: true, keys: [{ name: MAKER.name, public_key: MAKER.public_key }] };
const DEPLOYED = ["main", "maps"] as const;

/** A robot that trusts MAKER alone and runs version 3 of two apps; version 3 withdrew version 1, which ran before. */
class SignedRobot {
  readonly rig: DeploymentsRig;
  readonly ledger: AttackLedger;
  readonly current = new Map<string, DesiredRelease>();
  #targets = 0;

  constructor(rig: DeploymentsRig, ledger: AttackLedger) {
    this.rig = rig;
    this.ledger = ledger;
  }

  readonly look = (): string => readRunning(this.rig.state, DEPLOYED);

  async make(app: string, tag: string): Promise<TestRelease> {
    if (app === "main") return await shellRelease(tag, `${WELL} # ${tag}`);
    return releaseOf(`maps-${tag}`, Buffer.from(`a map ${tag}`), { kind: "file", manifest: {} });
  }

  async deploy(app: string, one: TestRelease): Promise<string> {
    const end = await this.rig.ended(this.rig.deploy(one, { app, target: `tgt_${(this.#targets += 1)}` }));
    return `${end.status} ${end.reason ?? ""}`;
  }

  async install(app: string, one: TestRelease): Promise<void> {
    const before = this.look();
    assert.match(await this.deploy(app, one), /^applied/);
    assert.notEqual(this.look(), before, "what runs is seen to change");
    this.current.set(app, one.release);
  }

  /** Offers a release that the maker did not sign for this robot and app. */
  async offer(channel: string, what: string, app: string, one: TestRelease): Promise<void> {
    await this.ledger.attack(channel, what, this.look, async () => {
      assert.match(await this.deploy(app, one), /^failed/, `${channel}: ${what}`);
    });
  }
}

async function attackReleases(robot: SignedRobot, app: string, random: () => number): Promise<void> {
  const next = await robot.make(app, "v4");
  const statement = statementOf(next.release, 4, { app });
  const offer = {
    release: { ...next.release, signature: signRelease(statement, MAKER.private_key) },
    app,
    meant: { signer: MAKER, statement },
    attack: "none",
    refused_by: [],
  };
  const running = robot.current.get(app)!;
  const other = { ...offer, release: running };
  for (const [what, { apply, refused_by }] of Object.entries(ATTACKS)) {
    // Only images have layers.
    if (refused_by.length === 0) continue;
    const { app: offered = app, ...change } = apply(random, offer, { offer: other, current: running });
    await robot.offer("release", what, offered, { bytes: next.bytes, release: { ...offer.release, ...change } });
  }
  const past = { issued_at: "2026-01-01T00:00:00Z", expires_at: "2026-01-02T00:00:00Z" };
  const [first, never] = [await robot.make(app, "v1"), await robot.make(app, "never")];
  for (const [what, one] of [
    ["an older release that never ran", signed(never, MAKER, 2, { app })],
    ["a release that ran and was withdrawn", signed(first, MAKER, 1, { app })],
    ["an expired release", signed(next, MAKER, 4, { app, ...past })],
    ["another robot's release", signed(next, MAKER, 4, { app, robots: ["rob_2"] })],
    ["a release for other labels", signed(next, MAKER, 4, { app, labels: { model: "arm" } })],
    ["a release of a stranger", signed(next, SIGNERS.stranger, 4, { app })],
  ] as const)
    await robot.offer("release", what, app, one);
}

/** Serves other bytes than the signed ones. */
async function attackBytes(robot: SignedRobot, app: string, random: () => number): Promise<void> {
  const next = signed(await robot.make(app, "v4"), MAKER, 4, { app });
  const { bytes } = next;
  const flipped = Buffer.from(bytes);
  flipped[Math.floor(random() * bytes.length)]! ^= 1 << Math.floor(random() * 8);
  for (const [what, served] of Object.entries({
    "a bit flipped": flipped,
    "the end cut off": bytes.subarray(0, Math.floor(random() * bytes.length)),
    "bytes added": Buffer.concat([bytes, Buffer.from("EVIL")]),
    "another artifact": (await robot.make(app, "evil")).bytes,
  })) {
    robot.rig.server.trouble = ({ path: asked }) => (asked.startsWith("/agent/artifacts/") ? { bytes: served } : undefined);
    await robot.offer("artifact", what, app, next);
  }
  robot.rig.server.trouble = () => undefined;
}

/** Sends false lists of trusted keys, then offers a release that such a list would allow. */
async function attackKeys(robot: SignedRobot): Promise<void> {
  const { stranger } = SIGNERS;
  const next = await robot.make("main", "v5");
  const keys = [{ name: stranger.name, public_key: stranger.public_key }];
  const other_org = { org_id: "org_2", serial: 2, require_signature: false, keys, issued_at: new Date().toISOString() };
  const lies: Record<string, unknown> = {
    "a stranger's key, signed by the stranger": trusting(2, [stranger], stranger),
    "signatures no longer required, signed by a stranger": trusting(2, [MAKER], stranger, false),
    "a stranger's statement under the maker's key": { ...trusting(2, [stranger], stranger), key_id: MAKER.id },
    "an old serial that required nothing": trusting(1, [MAKER, stranger], MAKER, false),
    "another org's statement": signTrust(other_org, MAKER.private_key),
    "a release's signature as a statement of keys": robot.current.get("main")!.signature,
    "the maker's text changed": { ...trusting(2, [MAKER], MAKER), text: trusting(2, [stranger], stranger).text },
    "no statement at all": { key_id: MAKER.id, text: "{}", value: "" },
  };
  for (const [what, statement] of Object.entries(lies)) {
    const body = Buffer.from(JSON.stringify({ items: [statement] }));
    robot.rig.server.trouble = ({ path: asked }) => (asked.startsWith("/agent/signing") ? { bytes: body } : undefined);
    await robot.offer("signing keys", `${what}, then an unsigned release`, "main", next);
    await robot.offer("signing keys", `${what}, then a stranger's release`, "main", signed(next, stranger, 5));
  }
  robot.rig.server.trouble = () => undefined;
}

/** Sends configs with the names and content of files and manifests. They may be written, but only as configs. */
async function attackConfigs(robot: SignedRobot, round: number): Promise<void> {
  const text = JSON.stringify({ start: ["sh", "-c", "echo EVIL"], env: { PATH: "/evil" }, keys: [], require_signature: false });
  for (const namespace of ["default", "../apps/main/current/roamfleet", "../identity/signing", "roamfleet", "main"]) {
    const target_id = `tgt_config_${round}_${namespace}`;
    robot.rig.server.setConfig(namespace, Buffer.from(text));
    await robot.ledger.attack("config", namespace, robot.look, async () => {
      const sha256 = createHash("sha256").update(text).digest("hex");
      robot.rig.want({}, { [namespace]: { version: 1, sha256, target_id, deployment_id: "cdep_1", attempt: 1 } });
      await robot.rig.ended(target_id);
    });
  }
}

async function attackAsServer(ledger: AttackLedger): Promise<void> {
  await using rig = await DeploymentsRig.start({
    guarded: { org_id: TEST_ORG, robot_id: ROBOT, labels: LABELS },
    before_boot: (state) => writeTrust(state, TRUST),
    config: { file_directories: [] },
  });
  const robot = new SignedRobot(rig, ledger);
  for (const app of DEPLOYED) {
    await robot.install(app, signed(await robot.make(app, "v1"), MAKER, 1, { app }));
    await robot.install(app, signed(await robot.make(app, "v3"), MAKER, 3, { app, minimum_version: 3 }));
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    const random = seededRandom(29 + round);
    for (const app of DEPLOYED) {
      await attackReleases(robot, app, random);
      await attackBytes(robot, app, random);
    }
    await attackKeys(robot);
    await attackConfigs(robot, round);
  }
  // Releases that the maker has signed can still be installed.
  for (const app of DEPLOYED) await robot.install(app, signed(await robot.make(app, "v4"), MAKER, 4, { app }));
}

/**
 * The plane, a real agent that trusts MAKER alone, and an operator's token, which is used for everything except attacks on the database.
 */
interface OperatorScene {
  plane: Harness;
  operator: Client;
  robot: AgentProcess;
  robot_id: string;
  token: string;
  ledger: AttackLedger;
  look: () => string;
}

/** Uploads a release, applies `change` to it as the owner of the server's database would, and deploys it. Returns the last event of its target. */
async function deploy(
  { plane, operator, robot_id }: OperatorScene,
  kind: string,
  change: (tag: string, bytes: Buffer) => Promise<unknown>,
): Promise<string> {
  const tag = `r-${randomUUID().slice(0, 8)}`;
  const bytes = kind === "file" ? Buffer.from(`a map ${tag}`) : await appBundle();
  await pushBundle(operator, tag, bytes, { kind, app: kind === "file" ? "maps" : "main" });
  await change(tag, bytes);
  const body = { release: tag, robot_id, rollout: { verify_seconds: 1 } };
  const { id } = (await operator.createDeployment({ body, idempotency_key: randomUUID() })).data;
  await plane.until(`deployment ${id} to end`, async () => isTerminal((await operator.getDeployment({ params: { id } })).data.status));
  const { items } = await operator.listDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } });
  return items.findLast(({ target_status }) => target_status !== null && isTerminal(target_status))?.kind ?? "nothing";
}

function signWith({ plane }: OperatorScene, signer: typeof MAKER, version: number) {
  return (tag: string, bytes: Buffer) => {
    const org_id = plane.default_org.id;
    const signature = signRelease(statementOf(releaseOf(tag, bytes).release, version, { org_id }), signer.private_key);
    return plane.db.run(sql`update release set signature = ${JSON.stringify(signature)}::jsonb where org_id = ${org_id} and tag = ${tag}`);
  };
}

async function attackDeployments(scene: OperatorScene): Promise<void> {
  const { ledger, look } = scene;
  const attacks = {
    "an unsigned bundle": () => deploy(scene, "app_bundle", async () => {}),
    "an unsigned file": () => deploy(scene, "file", async () => {}),
    "a bundle signed by a stranger": () => deploy(scene, "app_bundle", signWith(scene, SIGNERS.stranger, 9)),
    "an older signed bundle that never ran": () => deploy(scene, "app_bundle", signWith(scene, MAKER, 2)),
  };
  for (const [what, act] of Object.entries(attacks))
    await ledger.attack("deployment", what, look, async () => assert.equal(await act(), "target.failed", what));
}

/** Opens a stream as an operator, uses it immediately, and returns how it ends. */
function useStream(
  { plane, robot_id, token }: OperatorScene,
  name: "shell" | "files" | "forward",
  query: Record<string, string>,
  text: string,
) {
  const target = streamTarget(name, robot_id, { ...query, token });
  const ws = new WebSocket(plane.url.replace(/^http/, "ws") + target);
  ws.on("error", () => {});
  ws.on("open", () => ws.send(name === "files" ? text : Buffer.from(text)));
  return new Promise<string>((resolve) => ws.once("close", (code, reason) => resolve(`${code} ${reason.toString("utf8")}`)));
}

async function attackStreams(scene: OperatorScene, port: number): Promise<void> {
  const { ledger, look, robot } = scene;
  const main = path.join(robot.state, "apps", "main");
  const program = path.join(main, "current", "run.sh");
  const keys = path.join(robot.state, "identity", "signing.json");
  const pids = robot.workloads().map(({ pid }) => pid);
  const write = (file: string) =>
    JSON.stringify({ type: "write", path: file, size: 0, sha256: createHash("sha256").digest("hex"), mode: 0o755 });
  const attacks: [name: "shell" | "files" | "forward", query: Record<string, string>, text: string][] = [
    ["shell", {}, `echo EVIL > ${program}\r`],
    ["shell", {}, `kill -9 ${pids.join(" ")}\r`],
    ["shell", { app: "main" }, "echo EVIL > run.sh\r"],
    ["files", {}, write(program)],
    ["files", {}, write(keys)],
    ["files", {}, write(`/proc/self/root${keys}`)],
    ["files", {}, JSON.stringify({ type: "read", path: path.join(robot.state, "identity", "key.pem"), offset: 0 })],
    ["forward", { port: String(port) }, "EVIL"],
  ];
  for (const [name, query, text] of attacks)
    await ledger.attack(name, text, look, async () => assert.match(await useStream(scene, name, query, text), /signed releases only/));
}

async function attackSocket({ ledger, look, robot }: OperatorScene): Promise<void> {
  const socket = path.join(robot.state, "run", "agent.sock");
  for (const [method, address] of [
    ["POST", "/v1/apps"],
    ["PUT", "/v1/apps/main"],
    ["DELETE", "/v1/apps/main"],
    ["PUT", "/v1/configs/default"],
    ["GET", "/v1/configs/..%2Fidentity%2Fsigning"],
    ["PUT", "/v1/status"],
    ["POST", "/v1/signing"],
  ] as const)
    await ledger.attack("local socket", `${method} ${address}`, look, () =>
      assert.rejects(
        askAgent(socket, method, address, method === "PUT" || method === "POST" ? { start: ["evil"] } : undefined),
        AgentRefused,
      ),
    );
}

async function attackAsOperator(ledger: AttackLedger): Promise<void> {
  let connections = 0;
  await using closing = new AsyncDisposableStack();
  const listener = createServer((socket) => void ((connections += 1), socket.destroy())).listen(0, "127.0.0.1");
  closing.defer(() => void listener.close());
  await new Promise((resolve) => listener.once("listening", resolve));
  const plane = closing.use(await startPlane());
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-signed-")), "agent.yaml");
  closing.defer(() => fs.rmSync(path.dirname(file), { recursive: true, force: true }));
  // The owner named a user for shells, but allowed nothing except signed releases.
  fs.writeFileSync(file, `shell: { user: ${os.userInfo().username} }\n`);
  // In the server's list a stranger is trusted in addition to the maker, and signatures are not required.
  const keys = [MAKER, SIGNERS.stranger].map(({ name, public_key }) => ({ name, public_key }));
  for (const serial of [1, 2]) {
    const lie = { org_id: plane.default_org.id, serial, require_signature: false, keys, issued_at: new Date().toISOString() };
    await plane.api.changeSigningKeys({ body: { statement: signTrust(lie, SIGNERS.stranger.private_key) } });
  }
  const key = await plane.enrollmentKey();
  const robot = closing.use(new AgentProcess({ url: plane.url, key, name: "cart-1", args: ["--config", file] }, { start: false }));
  writeTrust(robot.state, TRUST);
  robot.restart();
  const robot_id = await plane.until("the robot", async () => (await plane.api.listRobots({ query: { status: "online" } })).items[0]?.id);
  const look = (): string => readRunning(robot.state, DEPLOYED);
  const token = await plane.token({ role: "operator" });
  const operator = plane.default_org.client(token);
  assert.equal((await operator.getMe()).data.org.role, "operator");
  const scene = { plane, operator, robot, robot_id, token, ledger, look };
  assert.equal(await deploy(scene, "app_bundle", signWith(scene, MAKER, 3)), "target.applied");
  for (let round = 0; round < OPERATOR_ROUNDS; round += 1) {
    await attackDeployments(scene);
    await attackStreams(scene, (listener.address() as AddressInfo).port);
    await attackSocket(scene);
    await ledger.attack("config", "deployed by an operator", look, async () => {
      await operator.setConfig({ body: { key: "start", value: `evil ${round}`, scope: "robot", scope_id: robot_id } });
      const { id } = (await operator.createConfigDeployment({ body: { robot_id }, idempotency_key: randomUUID() })).data;
      await plane.until("the config", async () => isTerminal((await operator.getConfigDeployment({ params: { id } })).data.status));
    });
  }
  assert.equal(connections, 0);
  const before = look();
  assert.equal(await deploy(scene, "app_bundle", signWith(scene, MAKER, 10)), "target.applied");
  assert.notEqual(look(), before);
}

test("neither a hostile server nor an operator can run unsigned software on a robot that requires signatures", LIMIT, async (t) => {
  const ledger = new AttackLedger();
  await attackAsServer(ledger);
  await attackAsOperator(ledger);
  ledger.check();
  const channels = [...ledger.channels].map(([channel, count]) => `${channel} ${count}`).join(", ");
  provePromise(
    t,
    29,
    `${ledger.attacks} attacks through ${ledger.channels.size} channels (${channels}): ${ledger.changes.length} changes to what runs`,
  );
});
