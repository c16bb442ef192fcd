import { shellLine } from "../../ui/shell-text.ts";
import type { Scope } from "./configs-search.ts";

interface Place {
  namespace: string;
  key: string;
  scope: Scope;
  scope_id: string | null | undefined;
}

const at = ({ namespace, scope, scope_id }: Omit<Place, "key">): string[] => [
  ...(namespace === "default" ? [] : ["--namespace", namespace]),
  ...(scope === "org" ? [] : [`--${scope}`, scope_id ?? "ID"]),
];

/** The command reads a longer value from a file. */
const VALUE_CHARACTERS_MAX = 200;

/** Returns the command that sets a value without deploying it, as the page does. */
export function setLine(place: Place, value: string | undefined, secret: boolean): string {
  const deploys = place.scope === "fleet" || place.scope === "robot";
  const is_short = value !== undefined && value.length <= VALUE_CHARACTERS_MAX;
  const given = secret ? ["--secret"] : is_short ? (value.startsWith("-") ? [] : [value]) : ["--from-file", "value.json"];
  const last = !secret && is_short && value.startsWith("-") ? ["--", value] : [];
  return shellLine("rf", "configs", "set", place.key, ...given, ...at(place), deploys && "--no-deploy", ...last);
}

export const unsetLine = (place: Place): string => shellLine("rf", "configs", "unset", place.key, ...at(place));
export const historyLine = (place: Place): string => shellLine("rf", "configs", "history", place.key, ...at(place));
export const rollbackLine = (place: Place, version: number): string =>
  shellLine("rf", "configs", "rollback", place.key, "--to", String(version), ...at(place));

/** Returns the command that deploys to a robot or fleet. Organizations and sites have no config deployments. */
export const deployLine = (target: { scope: Scope; scope_id: string | undefined }, namespace?: string): string =>
  shellLine(
    "rf",
    "configs",
    "deploy",
    target.scope === "robot" ? "--robot" : "--fleet",
    target.scope_id ?? "FLEET_ID",
    ...(namespace === undefined ? [] : ["--namespace", namespace]),
    "--watch",
  );

/** Returns the command that lists the values of a scope. */
export const viewLine = ({ scope, scope_id }: { scope: Scope; scope_id: string | undefined }): string =>
  scope === "robot" && scope_id !== undefined ? shellLine("rf", "configs", "effective", "--robot", scope_id) : "rf configs list";
