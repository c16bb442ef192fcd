import type { Db } from "../../kernel/db.ts";
import type { ConfigFile } from "./config-file.ts";
import { isSealed, openOrgSecrets, type Sealing } from "./data-keys.ts";
import { fileBound } from "./sealed-value.ts";

export interface OpenedFile {
  /** The exact bytes whose digest the robot was sent. */
  content: string;
  /** Keys of the object that are secrets. */
  secret_keys: readonly string[];
}

/** Decrypts a file that was frozen for a robot. Throws 503 if the server lacks the key that encrypted it. */
export async function openFile(
  db: Db,
  plane: Pick<Sealing, "secrets">,
  org_id: string,
  { content, sha256 }: ConfigFile,
): Promise<OpenedFile> {
  if (!isSealed(content)) return { content, secret_keys: [] };
  return JSON.parse((await openOrgSecrets(db, plane, org_id)).open(content, fileBound(sha256))) as OpenedFile;
}
