import { shellLine } from "../../ui/shell-text.ts";

/** Returns the `rf` command that sets the organization's settings. */
export const orgLine = (name: string, deployment_expires_days: number): string =>
  shellLine("rf", "org", "set", "--name", name || "NAME", "--deployment-expires-days", String(deployment_expires_days));

/** `rf` commands that require a private signing key, which the page does not have. */
export const signingLines = {
  begin: "rf signing-keys new release-key.pem\nrf signing-keys add release-key.pem.pub --sign release-key.pem",
  list: "rf signing-keys list",
  add: "rf signing-keys new new-key.pem\nrf signing-keys add new-key.pem.pub --sign release-key.pem",
  require: (on: boolean) => shellLine("rf", "signing-keys", "require", on ? "on" : "off", "--sign", "release-key.pem"),
  revoke: (id: string) => shellLine("rf", "signing-keys", "revoke", id, "--sign", "release-key.pem"),
};
