/**
 * An error that the person who starts the server must fix. The message states what is wrong and what to do, and is printed without a stack.
 */
export class Refusal extends Error {
  override name = "Refusal";
}

/** Returns the `code` of a Node error such as ENOENT; undefined for other values. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
