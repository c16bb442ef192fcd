import { systemClock } from "@roamfleet/clock";
import type { Command } from "commander";
import { readBlobs, readStore } from "./config.ts";
import { type BackupMade, makeBackup, makeRotatedBackup, verifyBackup } from "./engines/db/backup/index.ts";
import { Refusal } from "./engines/db/embedded/index.ts";
import { createLog } from "./kernel/log.ts";

interface BackupFlags {
  to?: string;
  data?: string;
  keep?: string;
}

/** Adds `roamfleet backup` and `roamfleet backup verify`. */
export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("copy database, artifacts and certificate authority of a running or stopped server")
    .option("--to <dir>", "new directory for the backup; with --keep the directory of dated backups")
    .option("--keep <number>", "create a dated backup in --to, then remove the oldest ones beyond this number")
    .option("--data <dir>", "the server's data directory (default: ./.roamfleet)")
    .action((flags: BackupFlags) => runBackup(flags))
    .command("verify")
    .description("compare every file of a backup with the checksums in its manifests; exits with 1 when one differs")
    .argument("<dir>", "the backup")
    .action((directory: string) => runVerify(directory));
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
  for (const name of made.damaged) warn(`the artifact ${name} differs from the upload; it was copied unchanged`);
  if (is_elsewhere) warn("artifacts are in the S3 store of ROAMFLEET_BLOBS_URL and not in the backup");
  if (made.left_out.length > 0) warn(`not of Roamfleet, and not in the backup: ${made.left_out.join(", ")}`);
  print(`backup written to ${made.directory}: the database and ${made.files} files of ${made.bytes} bytes`);
  for (const name of made.removed ?? []) print(`removed the old backup ${name}`);
}

async function runVerify(directory: string): Promise<void> {
  const { made_at, files, bytes, damaged } = await verifyBackup(directory);
  for (const name of damaged) warn(`${name} is missing or differs from what was backed up`);
  if (damaged.length > 0) {
    warn(`the backup of ${made_at} is damaged: ${damaged.length} of ${files} files. Use another backup`);
    process.exit(1);
  }
  print(`the backup of ${made_at} is complete: ${files} files of ${bytes} bytes match their checksums`);
}
