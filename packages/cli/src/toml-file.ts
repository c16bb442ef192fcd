import { mkdir, open, readFile, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

export type TomlContent = Record<string, unknown>;

export const isTable = (value: unknown): value is TomlContent => typeof value === "object" && value !== null && !Array.isArray(value);

/** A value that is text and not empty. */
export const textOf = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/** What a TOML file holds; a file that is not there holds nothing. */
export async function readToml(file: string): Promise<TomlContent> {
  return parseToml(file, (await readText(file)) ?? "");
}

async function parseToml(file: string, content: string): Promise<TomlContent> {
  if (content === "") return {};
  const { parse, TomlError } = await import("smol-toml");
  try {
    return parse(content);
  } catch (error) {
    // The message of a TOML error quotes the line, and the line may hold the token.
    const place = error instanceof TomlError ? ` (line ${error.line})` : "";
    throw new Failure(EXIT.error, `${file} is no valid TOML${place}`, { hints: ["Mend it by hand, or remove it and run `rf login`."] });
  }
}

/** Changes a file by `edit`, all or nothing, readable by this user only. Text that no line-wise edit can change stays. */
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
  // A file that is a link, as dotfile collections make them, stays one.
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

/** Deletes a file; that there is none is fine. Answers whether there was one. */
export async function deleteFile(file: string): Promise<boolean> {
  try {
    await rm(file);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return false;
    throw error;
  }
}
