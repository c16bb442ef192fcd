import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import type { Clock, Timer } from "@roamfleet/clock";
import { isOutdatedAgent, versionNumbers } from "@roamfleet/protocol/agent-version";
import { tarEntries } from "@roamfleet/protocol/release-file";
import type { Client } from "@roamfleet/sdk";
import { EXIT } from "./exit-codes.ts";
import { Failure, usage } from "./failure.ts";

export const NONE_HOSTED = "Start the server with --packages: see docs/guide/installing.md.";

/**
 * Returns the version of the agent that the server hosts, without a suffix such as `-rc.1`. Undefined if the server hosts none, or is too
 * old to report it.
 */
export async function hostedVersion(client: Client): Promise<string | undefined> {
  try {
    return versionNumbers((await client.getHostedPackages()).data.version ?? "");
  } catch {
    return undefined;
  }
}

export const agentText = (version: string | null, hosted: string | undefined): string | undefined =>
  version === null ? undefined : isOutdatedAgent(version, hosted) ? `${version} (outdated, newest ${hosted})` : version;

/** The file `agent.json` of an agent tarball. */
export interface AgentDescription {
  version: string;
  arch: string;
  commit?: string;
}

const DESCRIPTION = "agent.json";
const DESCRIPTION_BYTES_MAX = 64 * 1024;

/** Reads `agent.json` of an agent tarball. Throws a Failure if the file is not an agent tarball. */
export async function describeTarball(file: string): Promise<AgentDescription> {
  const source = createReadStream(file);
  const unpacked = source.pipe(createGunzip());
  source.on("error", (error) => unpacked.destroy(error));
  let found: Partial<AgentDescription> | undefined;
  try {
    found = JSON.parse((await readMember(unpacked as AsyncIterable<Buffer>)) ?? "null") as Partial<AgentDescription> | undefined;
  } catch (error) {
    throw usage(`${file} cannot be read as an agent tarball: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    source.destroy();
    unpacked.destroy();
  }
  const { version, arch, commit } = found ?? {};
  if (typeof version !== "string" || typeof arch !== "string")
    throw usage(
      `${file} is not an agent tarball: it contains no valid ${DESCRIPTION}`,
      "`npm run package` creates agent tarballs: dist/packages/roamfleet-agent_….tar.gz.",
    );
  return { version, arch, ...(typeof commit === "string" ? { commit } : {}) };
}

const isDescription = (name: string): boolean => path.posix.normalize(name) === DESCRIPTION;

/** Returns the text of `agent.json` in a tar archive; undefined if the archive has none, or if it is longer than DESCRIPTION_BYTES_MAX. */
async function readMember(stream: AsyncIterable<Buffer>): Promise<string | undefined> {
  const wants = ({ name, length }: { name: string; length: number }): boolean => isDescription(name) && length <= DESCRIPTION_BYTES_MAX;
  for await (const { name, content } of tarEntries(stream, { wants }))
    if (isDescription(name)) return content && new TextDecoder().decode(content).replace(/\0+$/, "");
  return undefined;
}

/** An agent tarball that the server hosts. */
export interface HostedTarball extends AgentDescription {
  name: string;
  sha256: string;
  size: number;
}

/** Lists the agent tarballs that the server hosts; [] if it hosts none. */
export async function listHostedTarballs(client: Client): Promise<HostedTarball[]> {
  const response = await client.request("GET", "/packages/manifest.json");
  const text = await response.text();
  if (response.status !== 200) return [];
  const { version, commit, files } = JSON.parse(text) as { version: string; commit?: string | null; files: Record<string, unknown>[] };
  return files.flatMap(({ name, kind, package: of, arch, sha256, size }) =>
    kind === "tarball" && of === "roamfleet-agent" && typeof arch === "string"
      ? [
          {
            version,
            arch,
            name: String(name),
            sha256: String(sha256),
            size: Number(size),
            ...(typeof commit === "string" ? { commit } : {}),
          },
        ]
      : [],
  );
}

/** A downloaded file, in a temporary directory that disposal deletes. */
export interface Downloaded extends AsyncDisposable {
  file: string;
}

/** A download fails if no bytes arrive for this long. */
const STALLED_MS = 60_000;

export interface DownloadOptions {
  clock: Clock;
  /** Aborts the download. */
  signal: AbortSignal;
  on_progress: (done: number, total: number) => void;
}

/**
 * Downloads a hosted tarball. Throws a Failure if its checksum or size differs from the server's manifest, or if no bytes arrive for
 * STALLED_MS.
 */
export async function downloadTarball(
  client: Client,
  { name, sha256, size }: HostedTarball,
  { clock, signal, on_progress }: DownloadOptions,
): Promise<Downloaded> {
  const directory = await mkdtemp(path.join(tmpdir(), "rf-agent-"));
  const downloaded = {
    file: path.join(directory, "agent.tar.gz"),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
  const broken = (why: string): Failure => new Failure(EXIT.error, `${name} could not be downloaded from the server: ${why}`);
  const stalled = new AbortController();
  const watch = (): Timer => clock.setTimer(STALLED_MS, () => stalled.abort());
  let timer = watch();
  try {
    const response = await client.request("GET", `/packages/${encodeURIComponent(name)}`);
    if (response.status !== 200 || response.body === null) throw broken(`status ${response.status}`);
    const hash = createHash("sha256");
    let done = 0;
    await pipeline(
      Readable.fromWeb(response.body),
      async function* (chunks: AsyncIterable<Uint8Array>) {
        for await (const chunk of chunks) {
          timer.cancel();
          timer = watch();
          done += chunk.length;
          if (done > size) throw broken(`more than ${size} bytes arrived`);
          hash.update(chunk);
          on_progress(done, size);
          yield chunk;
        }
      },
      createWriteStream(downloaded.file),
      { signal: AbortSignal.any([signal, stalled.signal]) },
    );
    if (hash.digest("hex") !== sha256) throw broken("its checksum differs from the package manifest");
    return downloaded;
  } catch (error) {
    await downloaded[Symbol.asyncDispose]();
    if (signal.aborted) throw new Failure(EXIT.interrupted, `interrupted during the download of ${name}`, { bare: true });
    throw stalled.signal.aborted ? broken(`no bytes arrived for ${STALLED_MS / 1_000} s`) : error;
  } finally {
    timer.cancel();
  }
}
