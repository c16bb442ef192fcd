import { readFile, stat } from "node:fs/promises";
import { countDataKeys } from "../../features/configs/index.ts";
import { masterKeyFile, MasterKeyError, type MasterKeys, parseMasterKeys } from "../../kernel/master-keys.ts";
import { type Check, type DoctorContext, ok, onDatabase, problem, type Seen, warning } from "../finding.ts";
import { errorCode } from "../../kernel/files.ts";

const OPENSSL = "`openssl rand -hex 32` creates one";

export const secretsKeyCheck: Check = {
  name: "secrets key",
  async check(context) {
    const { settings } = context;
    const found = await readKeys(settings);
    if ("problem" in found) return [found.problem];
    const warnings = await evaluatePlace(settings, found);
    const counts = await countIn(context, found.keys);
    return [evaluateKeys(found, counts), ...warnings];
  },
};

interface FoundKeys {
  /** Master keys of this server; undefined if none was created yet. */
  keys: MasterKeys | undefined;
  where: string;
  file: string | undefined;
}

async function readKeys({
  data_directory,
  secrets_key,
  secrets_key_file,
}: DoctorContext["settings"]): Promise<FoundKeys | { problem: Seen }> {
  const given = secrets_key === undefined ? secrets_key_file : undefined;
  const file = secrets_key === undefined ? (given ?? masterKeyFile(data_directory)) : undefined;
  const where = file ?? "ROAMFLEET_SECRETS_KEY";
  try {
    const text = secrets_key ?? (await readFile(where, "utf8"));
    return { keys: parseMasterKeys(text, where), where, file };
  } catch (error) {
    if (error instanceof MasterKeyError) return { problem: problem(error.message, OPENSSL) };
    if (errorCode(error) === "ENOENT" && given === undefined) return { keys: undefined, where, file: undefined };
    const reason = errorCode(error) === "ENOENT" ? "does not exist" : `cannot be read (${errorCode(error) ?? String(error)})`;
    return {
      problem: problem(
        `${where} ${reason}`,
        given === undefined
          ? "the file must belong to the server's user"
          : "correct ROAMFLEET_SECRETS_KEY_FILE, or the permissions of the file",
      ),
    };
  }
}

async function evaluatePlace(settings: DoctorContext["settings"], { file }: FoundKeys): Promise<Seen[]> {
  const found: Seen[] = [];
  if (file !== undefined && ((await stat(file)).mode & 0o004) !== 0)
    found.push(warning(`${file} can be read by every user of this machine`, `chmod o-rwx ${file}`));
  const is_shared = settings.database_url !== undefined && settings.bus !== undefined;
  if (is_shared && settings.secrets_key === undefined && settings.secrets_key_file === undefined)
    found.push(
      warning(
        "several servers on one database need the same key, but each creates a different one in its data directory",
        "set the same ROAMFLEET_SECRETS_KEY or ROAMFLEET_SECRETS_KEY_FILE on all servers",
      ),
    );
  return found;
}

type Counts = Awaited<ReturnType<typeof countDataKeys>>;

/**
 * Counts the data keys that `keys` can and cannot decrypt. Without `keys`, none can be decrypted. Returns undefined if the database is
 * unreachable or has no tables yet.
 */
const countIn = (context: DoctorContext, keys: MasterKeys | undefined): Promise<Counts | undefined> =>
  onDatabase(context, (db) => countDataKeys(db, { secrets: keys ?? parseMasterKeys("0".repeat(64), "no key") }), { with_pending: true });

export function evaluateKeys({ keys, where }: Pick<FoundKeys, "keys" | "where">, counts: Counts | undefined): Seen {
  const lost = (counts?.unknown ?? 0) + (counts?.damaged ?? 0);
  const orgs = lost === 1 ? "the secrets of one data key" : `the secrets of ${lost} data keys`;
  if (keys === undefined && lost > 0)
    return problem(
      `there is no secrets key, but the database contains ${orgs}`,
      `restore ${where} from a backup, or set the key as ROAMFLEET_SECRETS_KEY; the next start would create a new key`,
    );
  if (keys === undefined) return ok("created at the first start");
  if (counts !== undefined && counts.damaged > 0)
    return problem(
      `${counts.damaged} data keys in the database are damaged or were not encrypted with the server's key`,
      "restore the database from a backup",
    );
  if (lost > 0)
    return problem(
      `${orgs} cannot be decrypted: they were encrypted with another key than that in ${where}`,
      "add the earlier key after the current one, on a separate line or after a comma",
    );
  if (counts === undefined) return ok(`${where} contains a key, which was not compared with the database`);
  return ok(
    `${where} ${counts.readable === 0 ? "contains a key; the database has no data keys yet" : `decrypts all ${counts.readable} data keys of the database`}`,
  );
}
