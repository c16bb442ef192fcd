import { shellLine } from "../../ui/shell-text.ts";

/** The `rf` commands equivalent to the admin actions. `rf` reads the token from ROAMFLEET_ADMIN_TOKEN. */
export const adminLines = {
  list: "rf orgs list",
  create: (name: string) => shellLine("rf", "orgs", "create", name || "NAME"),
  approve: (id: string) => shellLine("rf", "orgs", "approve", id),
  reject: (id: string) => shellLine("rf", "orgs", "reject", id),
  suspend: (id: string) => shellLine("rf", "orgs", "suspend", id),
  resume: (id: string) => shellLine("rf", "orgs", "resume", id),
  audit: "rf audit --service",
};
