/** Parses a text frame of a viewer, a JSON object with one of the types. Throws Error otherwise. */
export function readControl(data: Buffer, types: ReadonlySet<string>): Record<string, unknown> & { type: string } {
  const value: unknown = JSON.parse(data.toString("utf8"));
  if (typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && types.has(value.type))
    return value as Record<string, unknown> & { type: string };
  throw new Error("not a control message of this stream");
}
