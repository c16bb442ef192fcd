import type { BlobRange } from "../../engines/blobs/index.ts";

const NUMBERS = /^(\d{1,15})?-(\d{1,15})?$/;

/**
 * Parses a `Range` header for content of `size` bytes (RFC 9110, 14.2). `whole`: the header is absent or one that a server may ignore, which
 * we do for units other than bytes, several ranges, and invalid values. `unsatisfiable`: the range is outside the content.
 */
export function readRange(header: string | undefined, size: number): BlobRange | "whole" | "unsatisfiable" {
  const [unit, set = ""] = (header ?? "").split("=", 2);
  const match = unit?.trim().toLowerCase() === "bytes" ? NUMBERS.exec(set.trim()) : null;
  if (match === null) return "whole";
  const [first, last] = [match[1], match[2]].map((digits) => (digits === undefined ? undefined : Number(digits)));
  if (first === undefined && last === undefined) return "whole";
  if (first === undefined) return last === 0 || size === 0 ? "unsatisfiable" : { start: Math.max(0, size - (last ?? 0)), end: size - 1 };
  if (last !== undefined && last < first) return "whole";
  return first >= size ? "unsatisfiable" : { start: first, end: Math.min(last ?? size - 1, size - 1) };
}
