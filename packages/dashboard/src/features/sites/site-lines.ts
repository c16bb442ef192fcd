import { shellLine } from "../../ui/shell-text.ts";

/** The `rf` commands equivalent to the actions on sites. */
export const siteLines = {
  list: "rf sites list",
  show: (id: string) => shellLine("rf", "api", "GET", `/api/sites/${id}`),
  create: (name: string) => shellLine("rf", "sites", "create", name || "NAME"),
  rename: (id: string, name: string) => shellLine("rf", "api", "PATCH", `/api/sites/${id}`, "-f", `name=${name || "NAME"}`),
  delete: (id: string) => shellLine("rf", "api", "DELETE", `/api/sites/${id}`),
};
