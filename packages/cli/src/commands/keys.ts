import { installCommand } from "@roamfleet/protocol/install-command";
import { ENROLLMENT_KEY_STATUSES } from "@roamfleet/protocol/states";
import type { Client } from "@roamfleet/sdk";
import { Option } from "commander";
import { defineCommand, requestCommand, wholeNumber } from "../command.ts";
import type { Context } from "../context.ts";
import { isLoopback } from "../credentials.ts";
import { relative } from "../duration.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { line } from "../text.ts";

export const list = defineCommand<[LimitOption & { status?: (typeof ENROLLMENT_KEY_STATUSES)[number]; fleet?: string; site?: string }]>(
  undefined,
  (command) =>
    limitOption(command)
      .addOption(new Option("--status <status>", "Only keys in this status").choices(ENROLLMENT_KEY_STATUSES))
      .option("--fleet <id>", "Only keys for this fleet")
      .option("--site <id>", "Only keys for this site"),
  (context, { limit, status, fleet, site }) =>
    printList(context, "listEnrollmentKeys", {
      limit,
      query: { status, fleet_id: fleet, site_id: site },
      no_match: "No matching enrollment keys.",
      empty: "No enrollment keys yet. Create one: rf keys new --site <id> --fleet <id>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "LABEL", value: ({ label }) => label ?? "" },
        { title: "STATUS", value: (key) => context.out.status(key.status) },
        { title: "USES", value: ({ uses, max_uses }) => `${uses}/${max_uses === 0 ? "∞" : max_uses}` },
        { title: "EXPIRES", value: ({ expires_at }) => relative(expires_at, context.now()) },
        { title: "FLEET", value: ({ fleet_id }) => fleet_id },
        { title: "SITE", value: ({ site_id }) => site_id, wide: true },
        { title: "BY", value: ({ created_by }) => created_by ?? "–", wide: true },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
      ],
    }),
);

interface NewKeyOptions {
  site: string;
  fleet: string;
  label?: string;
  maxUses?: number;
  expiresInHours?: number;
  trusted?: boolean;
}

const create = defineCommand<[NewKeyOptions]>(
  "Create an enrollment key, with which robots join a fleet. The key is shown only once.",
  (command) =>
    command
      .requiredOption("--site <id>", "Site of the fleet")
      .requiredOption("--fleet <id>", "Fleet that enrolled robots join (must belong to the site)")
      .option("--label <text>", "What the key is for")
      .option("--max-uses <n>", "Maximum number of robots that may enroll with the key; 0 means unlimited", wholeNumber(0))
      .option("--expires-in-hours <n>", "Lifetime in hours; 0 means no expiry", wholeNumber(0))
      .option("--trusted", "Robots that enroll with the key get secrets immediately (only admins can set this; it is their default)")
      .option(
        "--no-trusted",
        "Robots that enroll with the key get secrets only after an admin approves each robot (the default for other roles)",
      ),
  async (context, { site, fleet, label, maxUses, expiresInHours, trusted }) => {
    const { out } = context;
    const client = await context.client();
    // Sends no idempotency key: the response to a retry would not contain the secret.
    const answer = await client.createEnrollmentKey({
      body: { site_id: site, fleet_id: fleet, label, max_uses: maxUses, expires_in_hours: expiresInHours, trusted },
    });
    const install = await installLine(context, client, answer.data.key);
    await out.result(withInstallLine(answer, install), () => {
      const { data } = answer;
      out.details([
        ["ID", data.id],
        ["Key", out.paint("strong", data.key)],
        ["Uses", data.max_uses === 0 ? "unlimited" : `at most ${data.max_uses}`],
        ["Secrets", data.trusted ? "sent to robots immediately" : "sent after an admin approves the robot"],
        ["Expires", relative(data.expires_at, context.now())],
      ]);
      showKeyUse(context, client, data.key, install);
    });
  },
);
export { create as new };

export const revoke = requestCommand(
  "Revoke an enrollment key. Robots that enrolled with the key stay enrolled.",
  (command) => command.argument("<id>", "ID of the key"),
  (client, context, id: string) => client.revokeEnrollmentKey({ params: { id }, idempotency_key: context.idempotencyKey() }),
  ({ data }) => line`Key ${data.id} is revoked. Robots that enrolled with the key (${data.uses}) stay enrolled.`,
);

/**
 * Returns the command that installs and enrolls the agent from the server's packages. Undefined if the server hosts no packages, is too old
 * to report them, or refuses the request.
 */
export async function installLine(context: Context, client: Client, key: string | null): Promise<string | undefined> {
  if (key === null) return undefined;
  const hosted = await client.getHostedPackages().catch(() => undefined);
  const parts = hosted?.data.install;
  if (parts == null) return undefined;
  const ca_fingerprint = parts.ca_fingerprint === null ? null : (context.pinned ?? parts.ca_fingerprint);
  return installCommand({ ...parts, ca_fingerprint }, client.base_url, key);
}

/** Adds the command to the printed JSON. */
export const withInstallLine = <D extends object>(answer: { data: D }, install: string | undefined): { data: D } =>
  install === undefined ? answer : { ...answer, data: { ...answer.data, install_command: install } };

/**
 * Prints the command with which a robot uses a key. A loopback address works on this machine only, so the text also explains what to
 * replace on another machine.
 */
export function showKeyUse(context: Context, client: Client, key: string | null, install: string | undefined): void {
  const { out } = context;
  const is_local = isLoopback(new URL(client.base_url));
  const place = is_local ? "this machine" : "the robot";
  if (install !== undefined) {
    out.line(`\nThe key is not shown again. To install and enroll the agent on ${place}, run:`);
    out.line(line`  ${install}`);
  } else {
    out.line(`\nThe key is not shown again. On ${place}, run:`);
    const words = ["--server", client.base_url, "--enroll-key", key ?? "", "--state", "./state"];
    // The robot's machine does not trust the pinned certificate authority yet, so the command passes its fingerprint.
    if (context.pinned !== undefined) words.push("--ca-fingerprint", context.pinned);
    out.line(line`  rf-agent run ${words.join(" ")}`);
  }
  if (!is_local) return;
  out.line("\nOn another machine, replace the loopback address with the server's address. The server must then listen on the network, for");
  out.line("example `roamfleet serve --listen 0.0.0.0:7600 --tls auto`.");
}
