import { systemClock } from "@roamfleet/clock";
import { type Command, InvalidArgumentError } from "commander";
import { readClientPlace, UsageError } from "../config.ts";
import type { AppStatus } from "../contract.ts";
import { type HeldLock, isOwner, isTtl, LOCK_TTL_SECONDS_MAX } from "../safety/update-lock.ts";

const TTL_SECONDS_DEFAULT = 600;
const WAIT_SECONDS_DEFAULT = 3_600;
const UNITS: Record<string, number> = { "": 1, s: 1, m: 60, h: 3_600 };

/** Parses `90`, `90s`, `10m` or `2h`; returns seconds. */
function parseSeconds(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([smh]?)$/.exec(text);
  if (match === null) throw new InvalidArgumentError("a time must be a number with the suffix s, m or h, such as 10m");
  return Number(match[1]) * (UNITS[match[2] ?? ""] ?? 1);
}

interface PlaceFlags {
  socket?: string;
  state?: string;
}

const withPlace = (command: Command): Command =>
  command
    .option("--socket <path>", "the agent's socket (or ROAMFLEET_SOCKET)")
    .option("--state <dir>", "the agent's state directory, where its socket is (or ROAMFLEET_STATE, or /var/lib/roamfleet-agent)");

/**
 * Adds the commands for people and scripts on the robot. They call the running agent through its socket. `end` is called with the exit
 * code.
 */
export function addLocalCommands(program: Command, end: (code: number) => void): void {
  const print = (text: string): void => void process.stdout.write(text);
  withPlace(program.command("status"))
    .description("show the apps on this robot and its connection")
    .option("--json", "print JSON")
    .action(async (flags: PlaceFlags & { json?: boolean }) => {
      const { askAgent } = await import("../local/client.ts");
      const status = await askAgent<Status>(readClientPlace(flags).socket, "GET", "/v1/status");
      print(flags.json === true ? `${JSON.stringify(status)}\n` : statusText(status));
    });
  addLockCommands(program, end);
  withPlace(program.command("configs"))
    .argument("[namespace]", "print the content of this config")
    .description("list the configs on this robot, or print one")
    .action(async (namespace: string | undefined, flags: PlaceFlags) => {
      const { askAgent } = await import("../local/client.ts");
      const { socket } = readClientPlace(flags);
      if (namespace === undefined) {
        const { configs } = await askAgent<{ configs: { namespace: string; sha256: string; bytes: number }[] }>(
          socket,
          "GET",
          "/v1/configs",
        );
        for (const config of configs) print(`${config.namespace}  ${config.bytes} bytes  sha256:${config.sha256}\n`);
        return;
      }
      const { content } = await askAgent<{ content: unknown }>(socket, "GET", `/v1/configs/${encodeURIComponent(namespace)}`);
      print(`${JSON.stringify(content, null, 2)}\n`);
    });
  withPlace(program.command("events"))
    .option("--after <id>", "begin after this event")
    .description("print events of this robot, one JSON object per line, until Ctrl-C")
    .action(async (flags: PlaceFlags & { after?: string }) => {
      const { readEvents } = await import("../local/client.ts");
      for await (const event of readEvents(readClientPlace(flags).socket, flags.after)) print(`${JSON.stringify(event)}\n`);
    });
}

interface LockFlags extends PlaceFlags {
  owner: string;
  ttl: number;
  wait?: number | true;
}

function addLockCommands(program: Command, end: (code: number) => void): void {
  const say = (line: string): void => void process.stderr.write(`rf-agent: ${line}\n`);
  withPlace(program.command("lock"))
    .requiredOption("--owner <name>", "name of the lock's owner")
    .option("--ttl <time>", "maximum duration, such as 90s, 10m or 2h", parseSeconds, TTL_SECONDS_DEFAULT)
    .option(
      "--wait [time]",
      "wait at most this long, such as 30s or 10m (default: 1h), while another owner holds the lock or an update is in progress",
      parseSeconds,
    )
    .argument(
      "[command...]",
      "command to run under the lock, after --; the lock is renewed while the command runs, and released afterwards",
    )
    .description("postpone updates until `rf-agent unlock`, until the lock expires, or while a command runs")
    .action(async (command: string[], flags: LockFlags) => {
      if (!isOwner(flags.owner)) throw new UsageError("--owner must be a short name");
      if (!isTtl(flags.ttl)) throw new UsageError(`--ttl must be from 1s to ${LOCK_TTL_SECONDS_MAX / 3_600}h`);
      const { runLocked, takeLock } = await import("./lock.ts");
      const place = { ...readClientPlace(flags), clock: systemClock, say };
      const wait_ms = 1_000 * (flags.wait === true ? WAIT_SECONDS_DEFAULT : (flags.wait ?? 0));
      const request = { owner: flags.owner, ttl_seconds: flags.ttl };
      if (command.length > 0) return end(await runLocked(place, request, wait_ms, command));
      const held = await takeLock(place, request, wait_ms);
      process.stdout.write(`${held.owner} holds the update lock for ${held.expires_in_seconds} s\n`);
    });
  withPlace(program.command("unlock"))
    .option("--owner <name>", "name of the lock's owner")
    .option("--force", "release the lock of any owner")
    .description("release the lock, so that updates continue")
    .action(async (flags: PlaceFlags & { owner?: string; force?: boolean }) => {
      if ((flags.owner === undefined) === (flags.force !== true))
        throw new UsageError("the owner of the lock is required: pass --owner NAME, or --force for any owner");
      const { releaseLock } = await import("./lock.ts");
      const released = await releaseLock({ ...readClientPlace(flags), clock: systemClock, say }, flags.owner);
      process.stdout.write(released ? "unlocked\n" : "there was no lock\n");
    });
}

interface Status {
  robot_id: string;
  name: string;
  agent_version: string;
  key: "file" | "tpm";
  connected: boolean;
  apps: AppStatus[];
  lock: HeldLock | null;
}

function statusText({ robot_id, name, agent_version, key, connected, apps, lock }: Status): string {
  const lines = [`${name} (${robot_id}), agent ${agent_version}, ${connected ? "connected" : "not connected"}`];
  if (key === "tpm") lines.push("key: in the TPM");
  lines.push(
    lock === null
      ? "update lock: free"
      : `update lock: held by ${lock.owner}${lock.pid === null ? "" : ` (process ${lock.pid})`} for another ${lock.expires_in_seconds} s`,
  );
  for (const app of apps) lines.push(appText(app));
  if (apps.length === 0) lines.push("no apps installed");
  return `${lines.join("\n")}\n`;
}

function appText({ app, current, desired, phase, held, workload }: AppStatus): string {
  const runs = current === null ? "nothing" : `${current.tag} (${current.kind})`;
  const parts = [`${app}: ${runs}${workload === null ? "" : `, ${workload.status}`}`];
  if (desired !== null && desired.id !== current?.id) parts.push(`desired: ${desired.tag}`);
  if (phase !== null) parts.push(phase.replace("_", " "));
  if (held !== null) parts.push(`postponed by the ${held.by === "lock" ? "update lock" : "safe-to-update check"}: ${held.why}`);
  return parts.join("; ");
}
