import { shellLine } from "../../ui/shell-text.ts";

/** The `rf` commands equivalent to the actions on fleets. */
export const fleetLines = {
  list: "rf fleets list",
  show: (id: string) => shellLine("rf", "fleets", "show", id),
  create: (name: string, site_id: string) => shellLine("rf", "fleets", "create", name || "NAME", "--site", site_id || "SITE_ID"),
  rename: (id: string, name: string) => shellLine("rf", "fleets", "update", id, "--name", name || "NAME"),
  follow: (id: string, follow: boolean) => shellLine("rf", "fleets", "update", id, "--follow", follow ? "on" : "off"),
  delete: (id: string) => shellLine("rf", "api", "DELETE", `/api/fleets/${id}`),
};
