/** The parts of a packages directory's manifest.json that the server uses. `npm run package` writes the file. */
export interface Manifest {
  version: string;
  commit: string | null;
  built_at: string | null;
  /** Names of the files, without a directory. */
  files: string[];
  /** Architectures of the agent's packages, as Debian names them. */
  architectures: string[];
}

export const MANIFEST_BYTES_MAX = 1024 ** 2;
/** Only characters that need no quotes in a shell script or a URL. */
const VERSION = /^[0-9A-Za-z][0-9A-Za-z.+~-]{0,63}$/;
const FILE_NAME = /^[0-9A-Za-z][0-9A-Za-z._+~-]{0,199}$/;
const ARCHITECTURE = /^[a-z0-9]{1,20}$/;
const AGENT_PACKAGE = "roamfleet-agent";

/** Parses manifest.json. Throws an Error that states what is wrong with it. */
export function readManifest(text: string): Manifest {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error("manifest.json is not JSON");
  }
  const { version, commit, built_at, files } = (json ?? {}) as Record<string, unknown>;
  if (typeof version !== "string" || !VERSION.test(version)) throw new Error("manifest.json has no valid version");
  if (!Array.isArray(files)) throw new Error("manifest.json has no list of files");
  const entries = (files as unknown[]).map((file) => (file ?? {}) as Record<string, unknown>);
  const names = entries.map(({ name }) => name);
  const wrong = names.findIndex((name) => typeof name !== "string" || !FILE_NAME.test(name));
  if (wrong !== -1) throw new Error(`manifest.json: file ${wrong} has no valid name`);
  const architectures = entries
    .filter((entry) => entry["package"] === AGENT_PACKAGE && entry["kind"] === "deb")
    .map(({ arch }) => arch)
    .filter((arch) => typeof arch === "string" && ARCHITECTURE.test(arch));
  return {
    version,
    commit: textOf(commit),
    built_at: timeOf(built_at),
    files: names as string[],
    architectures: [...new Set(architectures as string[])].toSorted(),
  };
}

const textOf = (value: unknown): string | null => (typeof value === "string" && value.length <= 100 ? value : null);

function timeOf(value: unknown): string | null {
  const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? null : new Date(ms).toISOString();
}
