import { shellLine } from "../../ui/shell-text.ts";

/** What the pages of enrolment do, as lines for the terminal. */
export const keyLines = {
  list: "rf keys list",
  revoke: (id: string) => shellLine("rf", "keys", "revoke", id),
  /** `trusted`: as the server decides when undefined. */
  create: (key: {
    site_id: string;
    fleet_id: string;
    label: string;
    max_uses: number;
    expires_in_hours: number;
    trusted: boolean | undefined;
  }) =>
    shellLine(
      "rf",
      "keys",
      "new",
      "--site",
      key.site_id || "SITE_ID",
      "--fleet",
      key.fleet_id || "FLEET_ID",
      ...(key.label === "" ? [] : ["--label", key.label]),
      "--max-uses",
      String(key.max_uses),
      "--expires-in-hours",
      String(key.expires_in_hours),
      ...(key.trusted === undefined ? [] : [key.trusted ? "--trusted" : "--no-trusted"]),
    ),
};
