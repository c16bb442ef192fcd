import { usage } from "./failure.ts";

/** Parses `zone=a` of an option --label. */
function labelPair(text: string): [key: string, value: string] {
  const at = text.indexOf("=");
  if (at < 1) throw usage(`--label ${text} is not a label`, "Use --label zone=a.");
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Parses `key=value` texts. Throws a usage Failure if one is not a label. */
export const readLabels = (labels: readonly string[]): Record<string, string> => Object.fromEntries(labels.map(labelPair));

/** Returns `zone=a` as the filter `zone:a` of the API. */
export const labelQuery = (text: string): string => labelPair(text).join(":");
