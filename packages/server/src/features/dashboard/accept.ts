import { type Encoding, ENCODINGS } from "./files.ts";

/** Whether `Accept` names exactly this type with a weight above 0. Without the header, only any type counts as accepted. */
export function accepts(accept: string | undefined, type: string): boolean {
  if (accept === undefined) return type === "*/*";
  return weighed(accept).some(([name, weight]) => name === type && weight > 0);
}

/** Returns the best available encoding that `Accept-Encoding` allows; undefined for no encoding. */
export function chooseEncoding(accept_encoding: string | undefined, there: Partial<Record<Encoding, unknown>>): Encoding | undefined {
  const weights = new Map(weighed(accept_encoding ?? ""));
  const weightOf = (encoding: Encoding): number => weights.get(encoding) ?? weights.get("*") ?? 0;
  return ENCODINGS.filter((encoding) => there[encoding] !== undefined && weightOf(encoding) > 0).toSorted(
    (a, b) => weightOf(b) - weightOf(a),
  )[0];
}

function weighed(header: string): [name: string, weight: number][] {
  return header.split(",").map((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
    return [name, weight === undefined ? 1 : Number(weight) || 0];
  });
}
