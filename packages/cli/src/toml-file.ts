import { mkdir, open, readFile, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

export type TomlContent = Record<string, unknown>;

export const isTable = (value: unknown): value is TomlContent => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the value if it is a string that is not empty, otherwise undefined. */
export const textOf = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/** Parses a TOML file; a missing file is empty. */
export async function readToml(file: string): Promise<TomlContent> {
  return parseToml(file, (await readText(file)) ?? "");
}

async function parseToml(file: string, content: string): Promise<TomlContent> {
  if (content === "") return {};
  const { parse, TomlError } = await import("smol-toml");
  try {
    return parse(content);
  } catch (error) {
    // Report only the line number: the parser's error message quotes the line, which may contain the token.
    const place = error instanceof TomlError ? ` (line ${error.line})` : "";
    throw new Failure(EXIT.error, `${file} is not valid TOML${place}`, { hints: ["Fix it by hand, or remove it and run `rf login`."] });
  }
}

/** Applies `edit` to a file atomically and makes it readable by this user only. Throws if the text cannot be edited line by line. */
export async function changeToml(file: string, edit: (text: string) => string): Promise<void> {
  const old = (await readText(file)) ?? "";
  await parseToml(file, old);
  let edited: string;
  try {
    edited = edit(old);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Failure(EXIT.error, `${file} was not changed: ${reason}`, { hints: ["Edit it by hand."], cause: error });
  }
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  // Replaces the target of a symbolic link instead of the link, because dotfile managers create such links.
  const target = await realpath(file).catch(() => file);
  await replaceFile(target, edited);
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function replaceFile(file: string, content: string): Promise<void> {
  const draft = `${file}.${process.pid}.tmp`;
  await rm(draft, { force: true });
  try {
    const handle = await open(draft, "wx", 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Deletes a file if it exists. Returns whether it existed. */
export async function deleteFile(file: string): Promise<boolean> {
  try {
    await rm(file);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return false;
    throw error;
  }
}
