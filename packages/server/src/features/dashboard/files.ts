import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";

export const ENCODINGS = ["br", "gzip"] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** One file of the built dashboard, with what was compressed of it when it was built. */
export interface BuiltFile {
  content_type: string;
  /** A quoted entity tag without its quotes; each encoding adds its name. */
  tag: string;
  /** Its name changes with its content. */
  is_hashed: boolean;
  identity: Buffer;
  encoded: Partial<Record<Encoding, Buffer>>;
}

export interface BuiltSite {
  /** The text of the page, cut where the nonce goes. */
  page: readonly string[];
  /** By the path of a URL, `/assets/index-Bx3f.js`. */
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

/** Reads a built dashboard whole: 4 MB. What is not in this map is not served, whatever the path of a URL says. */
export async function readSite(directory: string): Promise<BuiltSite> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
  const shown = names.filter((name) => !name.split("/").some((part) => part.startsWith(".")));
  const bytes = new Map(await Promise.all(shown.map(async (name) => [name, await readFile(path.join(directory, name))] as const)));
  const page = bytes.get(PAGE);
  if (page === undefined) throw new Error(`${directory} holds no ${PAGE}`);
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
