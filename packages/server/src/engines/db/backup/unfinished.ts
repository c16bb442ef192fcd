import { access, open, rm } from "node:fs/promises";
import path from "node:path";
import { syncDirectory } from "../../../kernel/sync-directory.ts";
import { errorCode, Refusal } from "../embedded/index.ts";

/** Lies in a data directory while a restore fills it. */
const MARK = "restore-unfinished";

/** Throws Refusal when a restore began to fill this data directory and did not end. */
export async function refuseUnfinished(data_directory: string): Promise<void> {
  const found = await access(path.join(data_directory, MARK)).then(
    () => true,
    () => false,
  );
  if (!found) return;
  throw new Refusal(
    `a restore into ${data_directory} goes on, or was cut off: if none runs any more, remove the contents of this directory and run roamfleet restore again`,
  );
}

/** Says that the directory is being filled. */
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
