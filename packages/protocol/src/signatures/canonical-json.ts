/**
 * The one text of a JSON value (RFC 8785): keys sorted by their UTF-16 units, no white space, numbers and strings as
 * ECMAScript writes them. Two programs that hold the same value write the same bytes, so digests of it can be compared.
 * Throws for what JSON cannot say exactly: numbers that are not finite, strings with half a character.
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
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError("a number that is not finite has no JSON text");
  if (typeof value === "string" && !value.isWellFormed()) throw new TypeError("a string with half a character has no JSON text");
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON text`);
  return text;
}
