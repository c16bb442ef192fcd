import type { ConfigEntry } from "@roamfleet/protocol/routes";

export type Scope = ConfigEntry["scope"];
export const SCOPES: readonly Scope[] = ["org", "site", "fleet", "robot"];

/** The URL parameters. Without a scope: the organization. */
export interface ConfigsSearch {
  scope?: "site" | "fleet" | "robot";
  scope_id?: string;
  namespace?: string;
  q?: string;
}

const textOf = (value: unknown): string | undefined =>
  (typeof value === "string" || typeof value === "number") && value !== "" ? String(value) : undefined;

/** Parses the URL parameters and ignores invalid ones. A scope without an ID is valid, because the user may still select the object. */
export function readConfigsSearch({ scope, scope_id, namespace, q }: Record<string, unknown>): ConfigsSearch {
  const found: ConfigsSearch = {};
  if (scope === "site" || scope === "fleet" || scope === "robot") {
    found.scope = scope;
    const id = textOf(scope_id);
    if (id !== undefined) found.scope_id = id;
  }
  const [in_namespace, text] = [textOf(namespace), textOf(q)];
  if (in_namespace !== undefined) found.namespace = in_namespace;
  if (text !== undefined) found.q = text;
  return found;
}

export interface DriftSearch {
  state: "drifted" | "pending";
}

export const readDriftSearch = ({ state }: Record<string, unknown>): DriftSearch => ({
  state: state === "pending" ? "pending" : "drifted",
});
