import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { systemClock } from "@robofleet/clock";
import { fingerprintOf } from "@robofleet/protocol/authority";
import { armFailpoints } from "@robofleet/clock/failpoint";
import { Command, InvalidArgumentError } from "commander";
import packageJson from "../package.json" with { type: "json" };
import { readSettings, type ServeFlags, SettingsError } from "./config.ts";
import { migrate, MIGRATIONS_DIRECTORY } from "./engines/db/index.ts";
import { backup, Refusal, restore, runningDatabase, startEmbedded, upgradeDatabase } from "./engines/db/embedded/index.ts";
import { SERVE_FLAGS, serveHelp } from "./flags.ts";
import { createLog } from "./kernel/log.ts";
import { authorityFile } from "./kernel/tls/index.ts";
import { startPlane } from "./plane.ts";

const program = new Command("robofleet").description("The control plane for robot fleets").version(packageJson.version);

const serving = program.command("serve", { isDefault: true }).description("run the server").addHelpText("after", serveHelp);
for (const { flags, meaning, repeatable } of SERVE_FLAGS) {
  if (repeatable) serving.option(flags, meaning, (one: string, all: string[] | undefined) => [...(all ?? []), one]);
  else serving.option(flags, meaning);
}
serving.action((flags: ServeFlags) => serve(flags));

program
  .command("backup")
  .description("copy the embedded database of a running or stopped server")
  .requiredOption("--to <dir>", "new directory for the backup")
  .option("--data <dir>", "the server's data directory (default: ./.robofleet)")
  .action((flags: { to: string; data?: string }) => runBackup(flags));

program
  .command("restore")
  .description("make a data directory's database from a backup")
  .requiredOption("--from <dir>", "the backup")
  .option("--data <dir>", "the data directory, which must have no database yet (default: ./.robofleet)")
  .action(async (flags: { from: string; data?: string }) => {
    await restore({ from: flags.from, directory: databaseDirectory(flags.data) });
    print(`restored into ${databaseDirectory(flags.data)}`);
  });

program
  .command("upgrade-database")
  .description("move the embedded database to the newest PostgreSQL here; the old one is kept")
  .option("--data <dir>", "the server's data directory (default: ./.robofleet)")
  .action(async (flags: { data?: string }) => {
    const log = createLog({ level: "warn" });
    const result = await upgradeDatabase({
      directory: databaseDirectory(flags.data),
      clock: systemClock,
      log,
      migrate: (connection) => migrate(connection, { directory: MIGRATIONS_DIRECTORY, log }),
    });
    print(
      result.kept === undefined
        ? `the database is of PostgreSQL ${result.to} already`
        : `PostgreSQL ${result.from} → ${result.to}: ${result.tables} tables, ${result.rows} rows; the old database is kept in ${result.kept}`,
    );
  });

program
  .command("fingerprint")
  .description("show the fingerprint of the certificate authority that `serve --tls auto` made")
  .option("--data <dir>", "the server's data directory (default: ./.robofleet)")
  .action((flags: { data?: string }) => {
    const file = authorityFile(dataDirectory(flags.data));
    if (!existsSync(file)) throw new Refusal(`there is no ${file}: the first start with --tls auto makes it`);
    print(fingerprintOf(readFileSync(file, "utf8")));
  });

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const dataDirectory = (data: string | undefined): string => data ?? readSettings({}).data_directory;
const databaseDirectory = (data: string | undefined): string => path.join(dataDirectory(data), "postgres");

async function serve(flags: ServeFlags): Promise<void> {
  const settings = readSettings(flags);
  armFailpoints(settings.failpoint);
  const log = createLog({ level: settings.log_level });
  const stopped = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => stopped.abort(signal));
  const running = await startPlane({ settings, clock: systemClock, log });
  log.info({ url: running.url, data: path.resolve(settings.data_directory) }, "listening");
  if (settings.admin_token === undefined) log.warn({}, "SERVICE_ADMIN_TOKEN is not set: admin routes are open to this machine");
  if (!stopped.signal.aborted) await new Promise((resolve) => stopped.signal.addEventListener("abort", resolve, { once: true }));
  log.info({ signal: String(stopped.signal.reason) }, "stopping");
  await running.stop();
  log.info({}, "stopped");
}

/** Backs up beside a running server, or starts the database for as long as it takes. */
async function runBackup(flags: { to: string; data?: string }): Promise<void> {
  const directory = databaseDirectory(flags.data);
  if (!existsSync(directory)) throw new Refusal(`there is no database in ${directory}`);
  const running = await runningDatabase(directory);
  const started =
    running === undefined ? await startEmbedded({ directory, clock: systemClock, log: createLog({ level: "warn" }) }) : undefined;
  try {
    const connection = running ?? started?.connection;
    if (connection === undefined) throw new Error("the database was started without a connection");
    await backup({ connection, dataDirectory: directory, to: flags.to });
    print(`backup written to ${path.resolve(flags.to)}`);
  } finally {
    await started?.stop();
  }
}

try {
  await program.parseAsync();
  process.exit(0);
} catch (error) {
  if (error instanceof SettingsError || error instanceof Refusal || error instanceof InvalidArgumentError) {
    process.stderr.write(`robofleet: ${error.message}\n`);
    process.exit(2);
  }
  const { code, address, port } = error as { code?: string; address?: string; port?: number };
  if (code === "EADDRINUSE" || code === "EACCES") {
    const why = code === "EADDRINUSE" ? "is in use by another process" : "may not be listened on by this user";
    process.stderr.write(`robofleet: ${address}:${port} ${why}; choose another with --listen HOST:PORT\n`);
    process.exit(1);
  }
  process.stderr.write(`robofleet: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(1);
}
