/**
 * Returns the canonical text of a JSON value (RFC 8785): keys sorted by UTF-16 code units, no white space, numbers and strings as
 * ECMAScript writes them. Equal values produce equal bytes, so their digests can be compared. Throws for values that JSON cannot represent
 * exactly: non-finite numbers and strings with lone surrogates.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => `${canonicalJson(key)}:${canonicalJson(member)}`);
    return `{${members.join(",")}}`;
  }
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError("a non-finite number has no JSON text");
  if (typeof value === "string" && !value.isWellFormed()) throw new TypeError("a string with a lone surrogate has no JSON text");
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON text`);
  return text;
}
