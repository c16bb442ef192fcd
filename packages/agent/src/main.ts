import { constants } from "node:os";
import { systemClock } from "@roamfleet/clock";
import { armFailpoints } from "@roamfleet/clock/failpoint";
import { endProcess, flushOutput, LineOutput } from "@roamfleet/clock/line-output";
import { Command, CommanderError, Option } from "commander";
import { describeVersion } from "@roamfleet/protocol/version";
import { UntrustedAuthority } from "@roamfleet/protocol/authority";
import { type Agent, AGENT_VERSION, startAgent } from "./agent.ts";
import { addLocalCommands } from "./commands/local-commands.ts";
import { type AgentConfig, type ConfigFlags, loadConfig, readWorkloadPlace, UsageError } from "./config.ts";
import { StateLockedError } from "./disk/lock.ts";
import { errorText } from "./disk/write-atomically.ts";
import { EnrollmentRefused, NotEnrolled } from "./identity/enroll.ts";
import { AgentRefused, AgentUnreachable } from "./local/client.ts";
import { LockHeld } from "./safety/update-lock.ts";
import { install, type InstallFlags, type PlaceFlags, uninstall } from "./install.ts";
import { startHeartbeat } from "./self-update/heartbeat.ts";
import { EXIT_REPLACED } from "./self-update/launched.ts";
import { type TrustKeyFlags, trustKeys } from "./signing/pinned-trust.ts";

const EXIT = { ok: 0, error: 1, usage: 2, auth: 4, not_found: 5, conflict: 6, unreachable: 7 } as const;

const collect = (value: string, before: string[] = []): string[] => [...before, value];

function withRunOptions(command: Command): Command {
  return (
    command
      .option("--server <url>", "address of the Roamfleet server (or ROAMFLEET_SERVER)")
      .option("--enroll-key <key>", "enrollment key, needed once (or ROAMFLEET_ENROLL_KEY, which other users of the machine cannot see)")
      .option(
        "--config <file>",
        "the robot's own config file: which streams, devices and directories may be used (default: /etc/roamfleet/agent.yaml; or ROAMFLEET_AGENT_CONFIG)",
      )
      .option("--state <dir>", "directory of the robot's identity, releases and buffers (or ROAMFLEET_STATE)")
      .option("--name <name>", "name of the robot when it enrolls (or ROAMFLEET_ROBOT_NAME)")
      .option(
        "--label <key=value>",
        "label of the robot when it enrolls; repeatable (or ROAMFLEET_ROBOT_LABELS, separated by commas)",
        collect,
      )
      .option("--stop-workloads", "stop workloads when the agent stops (default: they keep running, and the next agent supervises them)")
      // This flag is the default now. It is still accepted, since systemd units that an earlier version wrote contain it.
      .addOption(new Option("--keep-workloads").hideHelp())
      .option("--allow-files <dir>", "directory below which `file` releases may be installed; repeatable", collect)
      .option("--allow-devices", "containers may use the robot's devices (or ROAMFLEET_ALLOW_DEVICES=on)")
      .option("--allow-host-network", "containers may use the host network (or ROAMFLEET_ALLOW_HOST_NETWORK=on)")
      .option("--allow-mounts <dir>", "directory below which containers may mount directories of the robot; repeatable", collect)
      .option(
        "--container-socket <path>",
        "unix socket of dockerd or podman, or none (default: their default sockets; or ROAMFLEET_CONTAINER_SOCKET)",
      )
      .option("--socket <path>", "unix socket for the robot's own software (default: run/agent.sock in the state directory)")
      .option("--workload-user <name>", "user that programs of bundles run as; default: the agent's user (or ROAMFLEET_WORKLOAD_USER)")
      .option(
        "--tpm <mode>",
        "where a new robot creates its key: auto (in the TPM if the robot has a TPM and tpm2-tools, otherwise in a file), required (only in the TPM) or off (in a file); default: auto (or ROAMFLEET_TPM)",
      )
      .option("--socket-group <group>", "group that may use the socket, besides the agent's own user (or ROAMFLEET_SOCKET_GROUP)")
      .option(
        "--safe-to-update-command <command>",
        "command that decides before each update: exit code 0 means safe (or ROAMFLEET_SAFE_TO_UPDATE_COMMAND)",
      )
      .option("--safe-to-update-url <url>", "URL that decides before each update: status 200 means safe (or ROAMFLEET_SAFE_TO_UPDATE_URL)")
      .option(
        "--safe-to-update-timeout <seconds>",
        "timeout of the safe-to-update command or URL; no answer means not safe (default: 10; or ROAMFLEET_SAFE_TO_UPDATE_TIMEOUT)",
      )
      .option("--log-spool-mib <number>", "log records kept on disk while the server is unreachable, in MiB (default: 64)")
      .option("--log-level <level>", "trace, debug, info, warn, error, fatal or silent (default: info)")
      .option(
        "--ca-fingerprint <sha256:…>",
        "trust the server's own certificate authority that has this fingerprint (or ROAMFLEET_CA_FINGERPRINT)",
      )
      .option("--ca-file <file>", "trust only the certificate authority in this PEM file")
      .option(
        "--trust-on-first-use",
        "trust the certificate authority that the server presents at the first connection, without verification",
      )
      .option("--allow-insecure-http", "accept a plain http server on another machine")
      .option("--crash-at-failpoint", "for crash tests only: the agent kills itself at ROAMFLEET_FAILPOINT")
  );
}

async function run(flags: ConfigFlags): Promise<void> {
  const config = await loadConfig(flags);
  armFailpoints(config.failpoint);
  const stopping = new AbortController();
  const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener("abort", () => resolve()));
  // A second signal exits without waiting, for example for workloads to stop. The next agent supervises the remaining workloads.
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => (stopping.signal.aborted ? void endProcess(128 + constants.signals[signal]) : stopping.abort()));
  // The reader of stderr may stall or disappear, for example a closed terminal. The agent continues all the same.
  const output = new LineOutput(process.stderr);
  output.onGap = (lines) =>
    output.write(`${systemClock.now().toISOString()} warn  dropped log lines that stderr did not accept lines=${lines}\n`);
  process.on("SIGHUP", () => {});
  let agent: Agent | undefined;
  let is_replaced = false;
  const replace = (): void => {
    is_replaced = true;
    stopping.abort();
  };
  const stopHeartbeat = watchLauncher(config, output, replace);
  survive((error, origin) => {
    if (agent !== undefined) return agent.log.error({ err: error, origin }, "unexpected error: the agent continues");
    process.stderr.write(`rf-agent: unexpected error: ${errorText(error)}\n`);
    void endProcess(EXIT.error);
  });
  try {
    agent = await startAgent({ config, clock: systemClock, log: (line) => output.write(line), signal: stopping.signal, replace });
    await stopped;
    await agent.stop({ is_replaced });
  } catch (error) {
    if (agent !== undefined || !stopping.signal.aborted) throw error;
  } finally {
    // Its timer keeps the process running.
    stopHeartbeat();
  }
  if (is_replaced) exit_code = EXIT_REPLACED;
}

/**
 * Shows the launcher that this agent does not hang. Calls `replace` if the launcher has ended without this agent: the service manager then
 * starts both again.
 */
function watchLauncher({ launched }: AgentConfig, output: LineOutput, replace: () => void): () => void {
  if (launched === undefined) return () => {};
  const log = (text: string): void => output.write(`${systemClock.now().toISOString()} warn  ${text}\n`);
  return startHeartbeat(launched, {
    clock: systemClock,
    log,
    orphaned: () => {
      log("the launcher has ended; the agent ends, too, and leaves its workloads running");
      replace();
    },
  });
}

/**
 * Logs an uncaught exception without ending the agent. By default Node would end the process, since its state may be inconsistent. On a
 * robot, ending every stream and shell is worse (docs/decisions/0063).
 */
function survive(log: (error: unknown, origin: string) => unknown): void {
  process.on("uncaughtException", log);
}

function program(): Command {
  const command = new Command("rf-agent")
    .description("The Roamfleet agent: runs on a robot, keeps one connection to the server, installs and supervises releases.")
    .version(describeVersion(AGENT_VERSION))
    .exitOverride()
    .showHelpAfterError("(rf-agent --help lists the commands and flags)");
  withRunOptions(command.command("run").description("enroll if needed, then run until SIGTERM")).action(run);
  withRunOptions(command.command("install").description("write a systemd unit that runs the agent at boot, as root"))
    .option("--user <name>", "user that the agent and its workloads run as (default: root)")
    .option("--allow-new-privileges", "with --user: workloads may use sudo and setuid programs")
    .option("--dry-run", "print the unit without writing it")
    .option("--root <dir>", "write below this directory, for a disk image")
    .option("--node <path>", "path of Node on the robot (default: the Node that runs this command)")
    .option("--program <path>", "path of the agent on the robot (default: this program)")
    .action((flags: InstallFlags) => install(flags, (text) => process.stdout.write(text)));
  command
    .command("uninstall")
    .description("stop the service and remove the files that install wrote; the state directory is kept")
    .option("--dry-run", "print what would be done")
    .option("--root <dir>", "work below this directory, for a disk image")
    .action((flags: PlaceFlags) => uninstall(flags, (text) => process.stdout.write(text)));
  command
    .command("stop-workloads")
    .description("stop all workloads of this robot; stop the agent first")
    .option("--state <dir>", "directory of the robot's identity, releases and buffers (or ROAMFLEET_STATE, or /var/lib/roamfleet-agent)")
    .option("--container-socket <path>", "unix socket of dockerd or podman, or none (default: their default sockets)")
    .action(async (flags: Pick<ConfigFlags, "state" | "containerSocket">) => {
      const { stopWorkloads } = await import("./commands/stop-workloads.ts");
      await stopWorkloads({ ...readWorkloadPlace(flags), clock: systemClock, print: (text) => process.stdout.write(text) });
    });
  command
    .command("trust-key")
    .description("trust only releases signed by these keys, regardless of the server's keys; stop the agent first")
    .argument("<file...>", "PEM file of a public key")
    .requiredOption("--state <dir>", "directory of the robot's identity, releases and buffers")
    .option("--optional", "also accept unsigned releases")
    .action((files: string[], flags: TrustKeyFlags) => trustKeys(files, flags, (text) => process.stdout.write(text)));
  // Internal command: the agent starts it to read and write files as another user.
  command.command("serve-files", { hidden: true }).action(async () => (await import("./streams/files/own-process.ts")).serveStdio());
  addLocalCommands(command, (code) => (exit_code = code));
  return command;
}

/** Exit code that a local command has set, for example that of the program it ran. */
let exit_code: number = EXIT.ok;

const REFUSALS: Record<number, number> = { 400: EXIT.usage, 404: EXIT.not_found, 409: EXIT.conflict };

function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof NotEnrolled) return EXIT.usage;
  if (error instanceof EnrollmentRefused || error instanceof UntrustedAuthority) return EXIT.auth;
  if (error instanceof StateLockedError || error instanceof LockHeld) return EXIT.conflict;
  if (error instanceof AgentUnreachable) return EXIT.unreachable;
  if (error instanceof AgentRefused) return REFUSALS[error.status] ?? EXIT.error;
  return EXIT.error;
}

try {
  await program().parseAsync();
  process.exitCode = exit_code;
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has already printed the error. It also throws after printing help or the version, with exit code 0.
    process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  } else {
    process.stderr.write(`rf-agent: ${errorText(error)}\n`);
    process.exitCode = exitCodeOf(error);
  }
}
// Exit explicitly: output on stderr that is never read would keep the process alive forever.
if (!(await flushOutput(process.stderr))) process.exit();
