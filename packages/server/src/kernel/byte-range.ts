/** A range of bytes. `end` is included. */
export interface ByteRange {
  start: number;
  end: number;
}

const NUMBERS = /^(\d{1,15})?-(\d{1,15})?$/;

/**
 * Parses a `Range` header for content of `size` bytes (RFC 9110, 14.2). Returns `unsatisfiable` if the range is outside the content.
 * Returns `whole` if the header is absent, is invalid, has several ranges, or has a unit other than bytes; a server may ignore such
 * headers.
 */
export function readRange(header: string | undefined, size: number): ByteRange | "whole" | "unsatisfiable" {
  const [unit, set = ""] = (header ?? "").split("=", 2);
  const match = unit?.trim().toLowerCase() === "bytes" ? NUMBERS.exec(set.trim()) : null;
  if (match === null) return "whole";
  const [first, last] = [match[1], match[2]].map((digits) => (digits === undefined ? undefined : Number(digits)));
  if (first === undefined && last === undefined) return "whole";
  if (first === undefined) return last === 0 || size === 0 ? "unsatisfiable" : { start: Math.max(0, size - (last ?? 0)), end: size - 1 };
  if (last !== undefined && last < first) return "whole";
  return first >= size ? "unsatisfiable" : { start: first, end: Math.min(last ?? size - 1, size - 1) };
}
