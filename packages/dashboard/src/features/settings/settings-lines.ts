import { shellLine } from "../../ui/shell-text.ts";

/** The org's settings, as a line for the terminal. */
export const orgLine = (name: string, deployment_expires_days: number): string =>
  shellLine("rf", "org", "set", "--name", name || "NAME", "--deployment-expires-days", String(deployment_expires_days));

/** What only whoever has a private key can do: this page cannot sign. */
export const signingLines = {
  begin: "rf signing-keys new release-key.pem\nrf signing-keys add release-key.pem.pub --sign release-key.pem",
  list: "rf signing-keys list",
  add: "rf signing-keys new new-key.pem\nrf signing-keys add new-key.pem.pub --sign release-key.pem",
  require: (on: boolean) => shellLine("rf", "signing-keys", "require", on ? "on" : "off", "--sign", "release-key.pem"),
  revoke: (id: string) => shellLine("rf", "signing-keys", "revoke", id, "--sign", "release-key.pem"),
};
