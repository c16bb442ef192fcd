import { existsSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import { fingerprintOf } from "@roamfleet/protocol/authority";
import { describeVersion } from "@roamfleet/protocol/version";
import { armFailpoints } from "@roamfleet/clock/failpoint";
import { endProcess, LineOutput } from "@roamfleet/clock/line-output";
import { Command, InvalidArgumentError } from "commander";
import type { Logger } from "pino";
import packageJson from "../package.json" with { type: "json" };
import { readDataDirectory, readSettings, type ServeFlags, SettingsError } from "./config.ts";
import { ConnectionLost, migrate, MIGRATIONS_DIRECTORY } from "./engines/db/index.ts";
import { refuseUnfinished } from "./engines/db/backup/index.ts";
import { Refusal, upgradeDatabase } from "./engines/db/embedded/index.ts";
import { addBackup, addRestore } from "./backup-command.ts";
import { addDoctor } from "./doctor/command.ts";
import { addFlags, SERVE_FLAGS, serveHelp } from "./flags.ts";
import { startReleasingMemory } from "./idle-memory.ts";
import { createLog } from "./kernel/log.ts";
import { MasterKeyError } from "./kernel/master-keys.ts";
import { authorityFile } from "./kernel/tls/certificate-authority.ts";
import { TlsError } from "./kernel/tls/tls.ts";
import { addNodes } from "./nodes.ts";
import { type RunningPlane, startPlane } from "./plane.ts";

const program = new Command("roamfleet").description("The control plane for robot fleets").version(describeVersion(packageJson.version));

const serving = program.command("serve", { isDefault: true }).description("run the server").addHelpText("after", serveHelp);
addFlags(serving, SERVE_FLAGS).action((flags: ServeFlags) => serve(flags));

addBackup(program);
addRestore(program);

program
  .command("upgrade-database")
  .description("upgrade the embedded database to the newest installed PostgreSQL; the old database is kept")
  .option("--data <dir>", "the server's data directory (default: ./.roamfleet)")
  .action(async (flags: { data?: string }) => {
    const log = createLog({ level: "warn" });
    await refuseUnfinished(readDataDirectory(flags.data));
    const result = await upgradeDatabase({
      directory: databaseDirectory(flags.data),
      clock: systemClock,
      log,
      migrate: (connection) => migrate(connection, { directory: MIGRATIONS_DIRECTORY, log }),
    });
    print(
      result.kept === undefined
        ? `the database already uses PostgreSQL ${result.to}`
        : `PostgreSQL ${result.from} → ${result.to}: ${result.tables} tables, ${result.rows} rows; the old database is kept in ${result.kept}`,
    );
  });

program
  .command("fingerprint")
  .description("show the fingerprint of the certificate authority of `serve --tls auto`")
  .option("--data <dir>", "the server's data directory (default: ./.roamfleet)")
  .action((flags: { data?: string }) => {
    const file = authorityFile(readDataDirectory(flags.data));
    if (!existsSync(file)) throw new Refusal(`there is no ${file}: the first start with --tls auto creates it`);
    print(fingerprintOf(readFileSync(file, "utf8")));
  });

addDoctor(program);
addNodes(program);
program
  .command("swarm")
  .description("run simulated robots against a server, in a clone of the repository")
  .helpOption(false)
  .allowUnknownOption()
  .allowExcessArguments()
  .action(() => {
    // bin/roamfleet.mjs starts a separate program for this command, because the server and its image do not contain simulated robots.
    throw new Refusal("simulated robots are not part of the server: start them in a clone with ./bin/roamfleet.mjs swarm");
  });

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const warn = (line: string): void => void process.stderr.write(`roamfleet: ${line}\n`);
const databaseDirectory = (data: string | undefined): string => path.join(readDataDirectory(data), "postgres");

/** True while the server starts and does not listen yet. */
let is_starting = false;

async function serve(flags: ServeFlags): Promise<void> {
  is_starting = true;
  const settings = readSettings(flags);
  armFailpoints(settings.failpoint);
  const output = new LineOutput(process.stdout);
  const log = createLog({ level: settings.log_level, output });
  endOnUncaughtException(log);
  if (settings.failpoint !== undefined) log.warn({ failpoint: settings.failpoint.spec }, "this server kills itself at a failpoint");
  if (settings.failpoint_ignored) log.warn({}, "ROAMFLEET_FAILPOINT is ignored: it needs --crash-at-failpoint");
  const stopped = new AbortController();
  const started: { plane?: RunningPlane } = {};
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    process.on(signal, () => (stopped.signal.aborted ? void endNow(signal, started.plane, log) : stopped.abort(signal)));
  const running = await startPlane({ settings, clock: systemClock, log, output });
  started.plane = running;
  is_starting = false;
  const releasing = startReleasingMemory(systemClock, () => running.plane.link.count);
  log.info({ url: running.url, data: path.resolve(settings.data_directory) }, "listening");
  if (settings.admin_token === undefined) log.warn({}, "SERVICE_ADMIN_TOKEN is not set: admin routes are open to this machine");
  const asked = new Promise<undefined>((resolve) => stopped.signal.addEventListener("abort", () => resolve(undefined), { once: true }));
  const failed = stopped.signal.aborted ? undefined : await Promise.race([asked, running.failed]);
  log.info(failed === undefined ? { signal: String(stopped.signal.reason) } : { why: failed }, "stopping");
  releasing.cancel();
  await running.stop();
  log.info({}, "stopped");
  if (failed !== undefined) throw new Error(`the server ended: ${failed}`);
}

/**
 * Ends the process at the second signal, without waiting for running requests. The embedded database is still stopped, unless the server
 * was starting. In that case the next start adopts the running PostgreSQL.
 */
async function endNow(signal: NodeJS.Signals, running: RunningPlane | undefined, log: Logger): Promise<void> {
  log.warn({ signal }, "second signal: ending without waiting for requests");
  await running?.abort().catch((error: unknown) => log.error({ err: error }, "the database did not stop"));
  await endProcess(128 + constants.signals[signal]);
}

/**
 * Logs an uncaught exception, prints it on stderr and ends the process. Node's default does not write it to the log, and loses the log
 * lines that are still buffered. Further exceptions are ignored until the process ends.
 */
function endOnUncaughtException(log: Logger): void {
  let is_ending = false;
  process.on("uncaughtException", (error: unknown, origin) => {
    if (is_ending) return;
    is_ending = true;
    log.fatal({ err: error, origin }, "unexpected error: the server ends");
    warn(`unexpected error: ${textOf(error)}`);
    void endProcess(1);
  });
}

const textOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** Suggests `roamfleet doctor` after a failed start, because the error rarely names every problem. */
function suggestDoctor(): void {
  if (is_starting) warn("for details, run roamfleet doctor with the same flags and environment");
}

try {
  await program.parseAsync();
  await endProcess(0);
} catch (error) {
  if (
    error instanceof SettingsError ||
    error instanceof MasterKeyError ||
    error instanceof TlsError ||
    error instanceof Refusal ||
    error instanceof InvalidArgumentError
  ) {
    process.stderr.write(`roamfleet: ${error.message}\n`);
    suggestDoctor();
    await endProcess(2);
  }
  if (error instanceof ConnectionLost) {
    const { message } = error.cause instanceof Error && error.cause.message !== "" ? error.cause : error;
    warn(`the database cannot be reached: ${message}`);
    suggestDoctor();
    await endProcess(1);
  }
  const { code, address, port } = error as { code?: string; address?: string; port?: number };
  if (code === "EADDRINUSE" || code === "EACCES") {
    const why = code === "EADDRINUSE" ? "is in use by another process" : "cannot be used by this user (ports below 1024 need a privilege)";
    process.stderr.write(`roamfleet: ${address}:${port} ${why}; choose another address with --listen HOST:PORT\n`);
    suggestDoctor();
    await endProcess(1);
  }
  warn(textOf(error));
  suggestDoctor();
  await endProcess(1);
}
