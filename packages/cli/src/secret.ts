import process from "node:process";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

const SECRET_BYTES_MAX = 65_536;

/** Asks for a secret without showing it; without a terminal it is what stdin holds. */
export async function askSecret(name: string): Promise<string> {
  if (!process.stdin.isTTY) return (await readStdin(SECRET_BYTES_MAX)).toString();
  const { isCancel, password } = await import("@clack/prompts");
  // stdout is for results, so the question goes to stderr.
  const answer = await password({ message: name, output: process.stderr });
  if (isCancel(answer)) throw new Failure(EXIT.interrupted, "interrupted", { bare: true });
  return answer ?? "";
}

/** All of stdin. Throws when it is longer than `bytes_max`. */
export async function readStdin(bytes_max: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > bytes_max) throw new Failure(EXIT.usage, `stdin holds more than ${bytes_max} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
