import { access, open, rm } from "node:fs/promises";
import path from "node:path";
import { syncDirectory } from "../../../kernel/sync-directory.ts";
import { errorCode, Refusal } from "../embedded/index.ts";

/** Marker file in a data directory while a restore fills it. */
const MARK = "restore-unfinished";

/** Throws Refusal if a restore into this data directory started and did not finish. */
export async function refuseUnfinished(data_directory: string): Promise<void> {
  const found = await access(path.join(data_directory, MARK)).then(
    () => true,
    () => false,
  );
  if (!found) return;
  throw new Refusal(
    `a restore into ${data_directory} is running or was interrupted: if none is running, remove the contents of this directory and run roamfleet restore again`,
  );
}

/** Marks the directory as being restored. */
export async function markUnfinished(data_directory: string): Promise<void> {
  const handle = await open(path.join(data_directory, MARK), "wx", 0o600).catch(async (error: unknown) => {
    if (errorCode(error) === "EEXIST") await refuseUnfinished(data_directory);
    throw error;
  });
  await handle.close();
  await syncDirectory(data_directory);
}

export async function markFinished(data_directory: string): Promise<void> {
  await rm(path.join(data_directory, MARK), { force: true });
  await syncDirectory(data_directory);
}
