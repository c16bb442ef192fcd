import path from "node:path";
import { type Clock, idSource, systemClock } from "@roamfleet/clock";
import { endProcess } from "@roamfleet/clock/line-output";
import type { Command } from "commander";
import { readBlobs, readStore } from "./config.ts";
import { type BackupMade, makeBackup, makeRotatedBackup, restoreBackup, verifyBackup } from "./engines/db/backup/index.ts";
import { Refusal } from "./engines/db/embedded/index.ts";
import { connect, type DbAddress, migrate, MIGRATIONS_DIRECTORY } from "./engines/db/index.ts";
import type { EngineLog } from "./engines/log.ts";
import { revokeEveryKey } from "./features/enrollment/index.ts";
import { listActiveOrgs } from "./features/orgs/index.ts";
import { revokeEveryApproval } from "./features/robots/index.ts";
import { createCredential, revokeEveryToken } from "./features/tokens/index.ts";
import { createLog } from "./kernel/log.ts";

interface BackupFlags {
  to?: string;
  data?: string;
  keep?: string;
}

interface RestoreFlags {
  from: string;
  data?: string;
  revokeTokens?: boolean;
  revokeKeys?: boolean;
  revokeApprovals?: boolean;
}

/** Adds `roamfleet backup` and `roamfleet backup verify`. */
export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("copy database, artifacts and certificate authority of a running or stopped server")
    .option("--to <dir>", "new directory for the backup; with --keep, the directory that contains the dated backups")
    .option("--keep <number>", "create a dated backup in --to, keep this many of the newest backups, and remove older ones")
    .option("--data <dir>", "the server's data directory (default: ./.roamfleet)")
    .action((flags: BackupFlags) => runBackup(flags))
    .command("verify")
    .description("compare every file of a backup with the checksums in its manifests; exits with 1 if a file differs")
    .argument("<dir>", "directory of the backup")
    .action((directory: string) => runVerify(directory));
}

/** Adds `roamfleet restore`. */
export function addRestore(program: Command): void {
  program
    .command("restore")
    .description("create a data directory and its database from a backup")
    .requiredOption("--from <dir>", "directory of the backup")
    .option("--data <dir>", "the data directory, which must be new or empty (default: ./.roamfleet)")
    .option(
      "--revoke-tokens",
      "revoke every token, because the backup may contain tokens that were revoked later; prints a new admin token for each org",
    )
    .option("--revoke-keys", "revoke every enrollment key")
    .option(
      "--revoke-approvals",
      "withhold secrets from every robot until an admin approves it again, because the backup may contain robots that were removed or replaced later",
    )
    .action(async (flags: RestoreFlags) => {
      const { data_directory, database_url } = readStore(flags.data);
      const log = createLog({ level: "warn" });
      const what = { tokens: flags.revokeTokens === true, keys: flags.revokeKeys === true, approvals: flags.revokeApprovals === true };
      let revoked: Revoked | undefined;
      const prepare = async (connection: DbAddress): Promise<void> => {
        revoked = await revokeRestored(connection, what, { clock: systemClock, log });
      };
      const wanted = what.tokens || what.keys || what.approvals ? { prepare } : {};
      const { made_at, files } = await restoreBackup({
        from: flags.from,
        data_directory,
        database_url,
        clock: systemClock,
        log,
        ...wanted,
      });
      print(`restored the backup of ${made_at} into ${path.resolve(data_directory)}: the database and ${files} other files`);
      if (what.tokens) print(`revoked ${revoked?.tokens} tokens`);
      if (what.keys) print(`revoked ${revoked?.keys} enrollment keys`);
      if (what.approvals) print(`${revoked?.approvals} robots need an admin's approval to get secrets`);
      for (const { org, token } of revoked?.admins ?? []) print(`new admin token of ${JSON.stringify(org)}, not shown again: ${token}`);
    });
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const warn = (line: string): void => void process.stderr.write(`roamfleet: ${line}\n`);

async function runBackup({ to, data, keep }: BackupFlags): Promise<void> {
  if (to === undefined) throw new Refusal("a directory for the backup is required: --to DIR");
  const { data_directory, database_url } = readStore(data);
  const options = { data_directory, database_url, to, clock: systemClock, log: createLog({ level: "warn" }) };
  const is_elsewhere = readBlobs() !== undefined;
  const made: BackupMade & { removed?: string[] } =
    keep === undefined ? await makeBackup(options) : await makeRotatedBackup({ ...options, keep: Number(keep) });
  for (const name of made.damaged)
    warn(`the stored artifact ${name} differs from its upload; the backup contains a copy of the stored bytes`);
  if (is_elsewhere) warn("artifacts are in the S3 store of ROAMFLEET_BLOBS_URL and not in the backup");
  if (made.left_out.length > 0) warn(`not in the backup, because they do not belong to Roamfleet: ${made.left_out.join(", ")}`);
  print(`backup written to ${made.directory}: the database and ${made.files} other files (${made.bytes} bytes)`);
  for (const name of made.removed ?? []) print(`removed the old backup ${name}`);
}

async function runVerify(directory: string): Promise<void> {
  const { made_at, files, bytes, damaged } = await verifyBackup(directory);
  for (const name of damaged) warn(`${name} is missing or differs from what was backed up`);
  if (damaged.length > 0) {
    warn(`the backup of ${made_at} is damaged: ${damaged.length} of ${files} files are missing or changed. Use another backup`);
    await endProcess(1);
  }
  print(`the backup of ${made_at} is complete: ${files} files (${bytes} bytes) match their checksums`);
}

interface Revoked {
  tokens: number;
  keys: number;
  /** Number of robots that need an admin's approval again. */
  approvals: number;
  /** A new admin token for each active org, to replace the revoked tokens. Each is shown once. */
  admins: { org: string; token: string }[];
}

/**
 * Revokes all credentials of the kinds in `what`. A backup cannot show which credentials were revoked after it was made, so all of them are
 * revoked. Robots lose only their approval: they can connect, but get no secrets. Call it before a server uses the restored database.
 */
async function revokeRestored(
  connection: DbAddress,
  what: { tokens: boolean; keys: boolean; approvals: boolean },
  { clock, log }: { clock: Clock; log: EngineLog },
): Promise<Revoked> {
  await migrate(connection, { directory: MIGRATIONS_DIRECTORY, log });
  const db = await connect({ connection, pool_size: 4, clock, log });
  try {
    return await db.transaction(async (tx) => {
      const revoked: Revoked = { tokens: 0, keys: 0, approvals: 0, admins: [] };
      if (what.keys) revoked.keys = await revokeEveryKey(tx, clock.now());
      if (what.approvals) revoked.approvals = await revokeEveryApproval(tx, clock.now());
      if (!what.tokens) return revoked;
      revoked.tokens = await revokeEveryToken(tx, clock.now());
      const maker = { clock, id: idSource(clock) };
      for (const { id, name } of await listActiveOrgs(tx)) {
        const { secret } = await createCredential(tx, maker, { kind: "org", org_id: id, role: "admin", label: "after restore" });
        revoked.admins.push({ org: name, token: secret });
      }
      return revoked;
    });
  } finally {
    await db.close();
  }
}
