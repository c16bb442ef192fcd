import { shellLine } from "../../ui/shell-text.ts";

/** The `rf` commands equivalent to the actions on enrollment keys. */
export const keyLines = {
  list: "rf keys list",
  revoke: (id: string) => shellLine("rf", "keys", "revoke", id),
  /** `trusted` undefined: the server's default. */
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
