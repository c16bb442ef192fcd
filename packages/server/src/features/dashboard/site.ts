import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { IS_BUNDLE, PACKAGE_DIRECTORY } from "../../kernel/package-directory.ts";
import { CLONE, ensureBuilt, hasSources, NotBuilt } from "./build.ts";

export const ENCODINGS = ["br", "gzip"] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** One file of the built dashboard, with the compressed versions that the build made. */
export interface BuiltFile {
  content_type: string;
  /** The ETag without quotes. The ETag of a compressed version has the name of its encoding appended. */
  tag: string;
  /** Whether the file's name contains a hash of its content. */
  is_hashed: boolean;
  identity: Buffer;
  encoded: Partial<Record<Encoding, Buffer>>;
}

export interface BuiltSite {
  /** The HTML of the page, split where the nonce is inserted. */
  page: readonly string[];
  /** The files by URL path, for example `/assets/index-Bx3f.js`. */
  files: ReadonlyMap<string, BuiltFile>;
}

const PAGE = "index.html";
const NONCE_PLACEHOLDER = "__CSP_NONCE__";
const ENDINGS: Record<Encoding, string> = { br: ".br", gzip: ".gz" };
const CONTENT_TYPES: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".woff2": "font/woff2",
};

/**
 * Reads all files of a built dashboard into memory (4 MB). Only the returned files are served, so no URL can reach other files on the disk.
 */
export async function readSite(directory: string): Promise<BuiltSite> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
  const shown = names.filter((name) => !name.split("/").some((part) => part.startsWith(".")));
  const bytes = new Map(await Promise.all(shown.map(async (name) => [name, await readFile(path.join(directory, name))] as const)));
  const page = bytes.get(PAGE);
  if (page === undefined) throw new Error(`${directory} contains no ${PAGE}`);
  const files = new Map<string, BuiltFile>();
  for (const [name, identity] of bytes) {
    if (name === PAGE || Object.values(ENDINGS).some((ending) => name.endsWith(ending))) continue;
    const encoded: BuiltFile["encoded"] = {};
    for (const encoding of ENCODINGS) {
      const found = bytes.get(name + ENDINGS[encoding]);
      if (found !== undefined) encoded[encoding] = found;
    }
    files.set(`/${name}`, {
      content_type: CONTENT_TYPES[path.extname(name)] ?? "application/octet-stream",
      tag: createHash("sha256").update(identity).digest("base64url").slice(0, 22),
      is_hashed: name.startsWith("assets/"),
      identity,
      encoded,
    });
  }
  return { page: page.toString("utf8").split(NONCE_PLACEHOLDER), files };
}

/** The dashboard in memory, or a sentence that states why it is not available. */
export type Dashboard = { site: BuiltSite } | { problem: string };

/**
 * Reads the built dashboard. Builds it first if it is missing or its sources changed. Never rejects, because the server must
 * start without the dashboard.
 */
export async function openDashboard({ clock, log }: { clock: Clock; log: Logger }, clone = CLONE): Promise<Dashboard> {
  try {
    if (IS_BUNDLE) return { site: await readSite(path.join(PACKAGE_DIRECTORY, "dashboard")) };
    if (!hasSources(clone)) throw new NotBuilt("This installation does not contain the dashboard's sources.");
    return { site: await readSite(await ensureBuilt({ clone, clock, log })) };
  } catch (error) {
    log.warn({ err: error }, "the dashboard is not available; the API works without it");
    return {
      problem: error instanceof NotBuilt ? error.message : "The dashboard could not be built or read. See the server's log for the reason.",
    };
  }
}
