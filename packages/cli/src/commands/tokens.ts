import { TOKEN_STATUSES } from "@roamfleet/protocol/states";
import type { Body } from "@roamfleet/sdk";
import { Option } from "commander";
import { defineCommand, requestCommand, wholeNumber } from "../command.ts";
import type { Context } from "../context.ts";
import { duration, relative } from "../duration.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { type RoleOptions, roleOptions, scopesOf, scopesText } from "../scopes.ts";
import { line } from "../text.ts";

export const list = defineCommand<[LimitOption & { status?: (typeof TOKEN_STATUSES)[number]; user?: string }]>(
  undefined,
  (command) =>
    limitOption(command)
      .addOption(new Option("--status <status>", "Only tokens in this status").choices(TOKEN_STATUSES))
      .option("--user <id>", "Only tokens of this user"),
  (context, { limit, status, user }) =>
    printList(context, "listTokens", {
      limit,
      query: { status, user_id: user },
      empty: "No matching tokens. Create one: rf tokens create <label> --role <role>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "LABEL", value: ({ label }) => label ?? "" },
        { title: "TOKEN", value: ({ prefix }) => `${prefix}…` },
        { title: "ROLE", value: ({ role }) => role },
        { title: "STATUS", value: (token) => context.out.status(token.status) },
        { title: "EXPIRES", value: ({ expires_at }) => relative(expires_at, context.now()) },
        { title: "LAST USED", value: ({ last_used_at }) => relative(last_used_at, context.now()) },
        { title: "SCOPES", value: ({ scopes }) => scopesText(scopes), wide: true },
        { title: "USER", value: ({ user_id }) => user_id ?? "–", wide: true },
        { title: "BY", value: ({ created_by }) => created_by?.name ?? created_by?.type ?? "–", wide: true },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
      ],
    }),
);

export const create = requestCommand(
  "Create a token of the org, or of one of its users. The token is shown only once.",
  (command) =>
    roleOptions(command.argument("<label>", "What the token is for"), "the token", { mandatory: true })
      .option("--user <id>", "Create a token of this user (default: of the org)")
      .option("--expires-in-hours <n>", "Lifetime in hours; 0 means no expiry (default: 0)", wholeNumber(0)),
  (client, _, label: string, options: RoleOptions & { user?: string; expiresInHours?: number }) => {
    const { user, expiresInHours } = options;
    const body = { label, role: options.role!, scopes: scopesOf(options), user_id: user, expires_in_hours: expiresInHours };
    // Sends no idempotency key: the response to a retry would not contain the secret.
    return client.createToken({ body });
  },
  ({ data }, context) => {
    showToken(context, data, data.token);
    return "\nThe token is not shown again. On the machine that uses the token, save it: rf login";
  },
  ["rf tokens create ci --role operator --expires-in-hours 720", "rf tokens create laptop --role viewer --user usr_… --fleet fleet_…"],
);

export const show = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the token"),
  (client, _, id: string) => client.getToken({ params: { id } }),
  ({ data }, context) => showToken(context, data),
);

export const revoke = requestCommand(
  "Revoke a token. Its sessions end within two seconds, including open streams.",
  (command) => command.argument("<id>", "ID of the token"),
  (client, context, id: string) => client.revokeToken({ params: { id }, idempotency_key: context.idempotencyKey() }),
  ({ data }) => line`Token ${data.id} (${data.prefix}…) is revoked.`,
);

export const rotate = requestCommand(
  "Replace a token's secret. The new secret is shown only once. Role, scopes and label are kept.",
  (command) =>
    command
      .argument("<id>", "ID of the token")
      .option("--overlap-seconds <n>", "How long the old secret stays valid (default: 0)", wholeNumber(0)),
  // Sends no idempotency key: the response to a retry would not contain the secret.
  (client, _, id: string, { overlapSeconds = 0 }: { overlapSeconds?: number }) =>
    client.rotateToken({ params: { id }, body: { overlap_seconds: overlapSeconds } }),
  ({ data }, context, _, { overlapSeconds = 0 }) => {
    showToken(context, data, data.token);
    const old = overlapSeconds === 0 ? "is now invalid" : `stays valid for ${duration(overlapSeconds)}`;
    return `\nThe new token is not shown again. The old token ${old}.`;
  },
);

function showToken({ out, now }: Context, token: Body<"getToken">["data"], secret?: string | null): void {
  const { created_by } = token;
  out.details([
    ["ID", token.id],
    ["Label", token.label ?? undefined],
    ["Token", secret == null ? `${token.prefix}…` : out.paint("strong", secret)],
    ["Status", out.status(token.status)],
    ["Role", `${token.role} of ${scopesText(token.scopes)}`],
    ["User", token.user_id ?? undefined],
    ["Expires", relative(token.expires_at, now())],
    ["Last used", relative(token.last_used_at, now())],
    ["Revoked", token.revoked_at === null ? undefined : relative(token.revoked_at, now())],
    ["Created", `${relative(token.created_at, now())}${created_by === null ? "" : ` by ${created_by.name ?? created_by.type}`}`],
  ]);
}
