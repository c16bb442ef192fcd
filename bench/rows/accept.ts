import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { linkChallengeText } from "@roamfleet/protocol/link";
import { isSignedBy } from "../../packages/server/src/features/robots/public-key.ts";
import { atRest, cpuMicroseconds, ratioOf, type Round, type Sample, sample, type Side, side } from "../measure.ts";
import type { Program, Rig } from "../rig.ts";
import { type BenchRobot, concurrently, connectRobot, insertRobots } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";

/** Connections of a round, and how many are opened concurrently. */
const LINKS = 400;
const AT_A_TIME = 16;
const ROUNDS = 7;
/** Number of warm-up rounds. They are needed because per-robot code is slow for the first thousand robots. */
const WARM_UP = 3;
const VERIFICATIONS = 2_000;

type Until = "welcome" | "desired";

/** CPU and wall-clock time of the server per connecting robot. Includes the work that follows the last connect, but not disconnects. */
async function admitAll(rig: Rig, program: Program, robots: readonly BenchRobot[], until: Until): Promise<Round> {
  const server = { url: program.url, ca: rig.certificate?.ca };
  await atRest(program.pid);
  const [cpu, started] = [cpuMicroseconds(program.pid), performance.now()];
  const links = await concurrently(robots, AT_A_TIME, (robot) => connectRobot(server, robot, until));
  const wall_ms = performance.now() - started;
  await atRest(program.pid);
  const cpu_us = (cpuMicroseconds(program.pid) - cpu) / robots.length;
  for (const link of links) link.terminate();
  return { wall_us: (wall_ms * 1_000) / robots.length, cpu_us };
}

/** Returns a function that measures the CPU time to verify one signature. The server does this for each robot that connects. */
function verification(): () => number {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const public_key = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
  const text = linkChallengeText("rob_bench", { nonce: randomBytes(32).toString("base64url"), host: "127.0.0.1:7600", channel: "" });
  const signature = sign(null, Buffer.from(text), privateKey).toString("base64");
  return () => {
    const { user, system } = process.cpuUsage();
    for (let i = 0; i < VERIFICATIONS; i += 1) if (!isSignedBy(public_key, text, signature)) throw new Error("not signed");
    const used = process.cpuUsage({ user, system });
    return (used.user + used.system) / VERIFICATIONS;
  };
}

async function compare(rig: Rig, goal: number): Promise<RowResult[]> {
  const robots = await insertRobots(rig, rig.quick ? 100 : LINKS);
  const [raw, raw_whole, link] = [
    await rig.start("limits/accept"),
    await rig.start("limits/accept", { DATABASE: JSON.stringify(rig.database) }),
    await rig.start("ours/gateway"),
  ];
  const sides: readonly { program: Program; until: Until; rounds: Round[] }[] = [
    { program: rig.server, until: "desired", rounds: [] },
    { program: raw_whole, until: "desired", rounds: [] },
    { program: link, until: "welcome", rounds: [] },
    { program: raw, until: "welcome", rounds: [] },
  ];
  const verify = verification();
  const verify_us: number[] = [];
  const warm_up = rig.quick ? 1 : WARM_UP;
  for (let i = 0; i < warm_up + (rig.quick ? 2 : ROUNDS); i += 1) {
    for (const { program, until, rounds } of sides) {
      const one = await admitAll(rig, program, robots, until);
      if (i >= warm_up) rounds.push(one);
    }
    const us = verify();
    if (i >= warm_up) verify_us.push(us);
  }
  for (const program of [raw, raw_whole, link]) await program.stop();
  const [whole_rounds, whole_limit_rounds, link_rounds, raw_rounds] = sides.map(({ rounds }) => rounds) as [
    Round[],
    Round[],
    Round[],
    Round[],
  ];
  const [whole, whole_limit, link_side, raw_side] = sides.map(({ rounds }) => side(rounds)) as [Side, Side, Side, Side];
  const difference = (more: Round[], less: Round[]): Sample =>
    sample(more.map(({ cpu_us }, i) => cpu_us - (less[i]?.cpu_us ?? Number.NaN)));
  const [admission, admission_limit] = [difference(whole_rounds, link_rounds), difference(whole_limit_rounds, raw_rounds)];
  return [
    line("letting a robot in", whole, whole_limit, goal),
    line("the link alone: upgrade, challenge, hello, welcome", link_side, raw_side, goal),
    {
      part: "admission alone: signature, presence, timeline, desired state",
      ours: admission,
      limit: admission_limit,
      unit: "µs CPU",
      ratio: ratioOf(admission, admission_limit),
    },
    {
      // Unlike a time, a share hardly depends on the speed of the machine.
      part: "the signature (Ed25519) as a share of letting a robot in",
      ours: sample(whole_rounds.map(({ cpu_us }, i) => (100 * (verify_us[i] ?? Number.NaN)) / cpu_us)),
      unit: "%",
    },
    { part: "wall-clock time, 16 at a time, the client included", ours: whole.wall, limit: whole_limit.wall, unit: "µs" },
  ];
}

/** Compares CPU time instead of wall-clock time, because the clients run on the same machine and use as much CPU as the server. */
function line(part: string, ours: Side, limit: Side, goal: number): RowResult {
  const ratio = ratioOf(ours.cpu, limit.cpu);
  return { part, ours: ours.cpu, limit: limit.cpu, unit: "µs CPU", ratio, goal: `≤ ${goal}`, met: ratio <= goal };
}

export const acceptPlain: Row = {
  name: "agent-accept-plain",
  area: "links",
  about: "admitting a robot, including its signature and database row; compared with bare node:http and bare pg doing the same",
  run: (rig) => compare(rig, 1.2),
};

export const acceptTls: Row = {
  name: "agent-accept-tls",
  area: "links",
  about: "the same over TLS with a full handshake each time; compared with bare node:tls",
  server: { tls: true },
  run: (rig) => compare(rig, 1.1),
};
