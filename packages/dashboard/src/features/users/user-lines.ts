import { shellLine } from "../../ui/shell-text.ts";
import type { Grant, Scopes } from "./grants.ts";

const places = (scopes: Scopes): string[] =>
  scopes.flatMap(({ site_id, fleet_id }) =>
    fleet_id !== undefined ? ["--fleet", fleet_id] : site_id === undefined ? [] : ["--site", site_id],
  );

/** The `rf` commands equivalent to the actions on users and tokens. */
export const userLines = {
  list: "rf users list",
  show: (id: string) => shellLine("rf", "users", "show", id),
  create: (email: string, name: string, { role, scopes }: Grant) =>
    shellLine("rf", "users", "create", email || "EMAIL", "--name", name || "NAME", "--role", role, ...places(scopes)),
  /** Users with several roles are changed with `rf api`, which sends all roles. */
  change: (id: string, name: string | undefined, grants: readonly Grant[]) => {
    const [only, ...more] = grants;
    const named = name === undefined ? [] : ["--name", name];
    if (only === undefined || more.length > 0)
      return shellLine(
        "rf",
        "api",
        "PATCH",
        `/api/users/${id}`,
        ...(name === undefined ? [] : ["-f", `name=${name}`]),
        "-F",
        `grants=${JSON.stringify(grants)}`,
      );
    return shellLine(
      "rf",
      "users",
      "update",
      id,
      ...named,
      "--role",
      only.role,
      ...(only.scopes.length === 0 ? ["--whole-org"] : places(only.scopes)),
    );
  },
  remove: (id: string) => shellLine("rf", "users", "remove", id),
};

export const tokenLines = {
  list: "rf tokens list",
  show: (id: string) => shellLine("rf", "tokens", "show", id),
  create: (token: { label: string; role: string; scopes: Scopes; user_id: string | undefined; expires_in_hours: number }) =>
    shellLine(
      "rf",
      "tokens",
      "create",
      token.label || "LABEL",
      "--role",
      token.role,
      ...places(token.scopes),
      ...(token.user_id === undefined ? [] : ["--user", token.user_id]),
      ...(token.expires_in_hours === 0 ? [] : ["--expires-in-hours", String(token.expires_in_hours)]),
    ),
  rotate: (id: string, overlap_seconds: number) =>
    shellLine("rf", "tokens", "rotate", id, ...(overlap_seconds === 0 ? [] : ["--overlap-seconds", String(overlap_seconds)])),
  revoke: (id: string) => shellLine("rf", "tokens", "revoke", id),
};
