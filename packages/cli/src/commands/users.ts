import { ROLES, type Role } from "@roamfleet/protocol";
import type { Body } from "@roamfleet/sdk";
import { Option } from "commander";
import { defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { type RoleOptions, roleOptions, scopesOf, scopesText } from "../scopes.ts";
import { line } from "../text.ts";

export const list = defineCommand<[LimitOption & { role?: Role }]>(
  undefined,
  (command) => limitOption(command).addOption(new Option("--role <role>", "Only users with this role").choices(ROLES)),
  (context, { limit, role }) =>
    printList(context, "listUsers", {
      limit,
      query: { role },
      no_match: "No matching users.",
      empty: "No users yet. Add one: rf users create <email> --name <name> --role <role>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "EMAIL", value: ({ email }) => email },
        { title: "NAME", value: ({ name }) => name },
        { title: "ROLE", value: (user) => user.role },
        { title: "LAST SEEN", value: ({ last_seen_at }) => relative(last_seen_at, context.now()) },
        {
          title: "ROLES",
          value: ({ grants }) => grants.map((grant) => `${grant.role}: ${scopesText(grant.scopes)}`).join("; "),
          wide: true,
        },
        { title: "ADDED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
      ],
    }),
);

export const create = requestCommand(
  "Add a user to the org, or add a role to an existing user. Create a token for the user separately.",
  (command) =>
    roleOptions(command.argument("<email>", "E-mail address").requiredOption("--name <name>", "Name of the person"), "the person", {
      mandatory: true,
    }),
  (client, context, email: string, options: RoleOptions & { name: string }) => {
    const body = { email, name: options.name, role: options.role!, scopes: scopesOf(options) };
    return client.createUser({ body, idempotency_key: context.idempotencyKey() });
  },
  ({ data }) => [
    line`User ${data.name} (${data.email}) is ${data.role}: ${data.id}`,
    line`Next: rf tokens create <label> --user ${data.id} --role ${data.role}`,
  ],
  ["rf users create ada@example.org --name 'Ada Lovelace' --role operator --site site_…"],
);

export const show = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the user"),
  (client, _, id: string) => client.getUser({ params: { id } }),
  ({ data }, context) => showUser(context, data),
);

export const update = defineCommand<[string, RoleOptions & { name?: string; wholeOrg?: boolean }]>(
  undefined,
  (command) =>
    roleOptions(command.argument("<id>", "ID of the user").option("--name <name>", "New name"), "the user", { mandatory: false }).option(
      "--whole-org",
      "Remove the limits to sites and fleets",
    ),
  async (context, id, options) => {
    const { name, role, wholeOrg } = options;
    const given = scopesOf(options);
    if (wholeOrg && given !== undefined) throw usage("--whole-org cannot be used with --site or --fleet");
    const scopes = wholeOrg ? [] : given;
    if (name === undefined && role === undefined && scopes === undefined)
      throw usage("nothing to change: use --name, --role, --site, --fleet or --whole-org");
    const answer = await (await context.client()).updateUser({ params: { id }, body: { name, role, scopes } });
    await context.out.result(answer, () => showUser(context, answer.data));
  },
  ["rf users update usr_… --role operator --fleet fleet_…", "rf users update usr_… --role admin --whole-org"],
);

export const remove = requestCommand(
  "Remove a user from the org. The user's roles, tokens and enrollment keys are revoked, and pending deployments are cancelled. Prints each affected object and its new status.",
  (command) => command.argument("<id>", "ID of the user"),
  (client, _, id: string) => client.deleteUser({ params: { id } }),
  async ({ data }, { out }) => {
    // A server of an earlier version removes the user but returns no list of affected objects.
    const holdings = (data as Partial<typeof data>).holdings ?? [];
    out.line(line`${data.name} (${data.email}) is no longer in the org.`);
    if (holdings.length === 0) return;
    out.line();
    await out.table(holdings, [
      { title: "OBJECT", value: ({ kind }) => kind.replaceAll("_", " ") },
      { title: "ID", value: ({ id }) => id },
      { title: "LABEL", value: ({ label }) => label ?? "" },
      { title: "STATUS", value: ({ status }) => status },
      { title: "NEW STATUS", value: ({ outcome }) => outcome },
    ]);
  },
);

function showUser({ out, now }: Context, user: Body<"getUser">["data"]): void {
  out.details([
    ["ID", user.id],
    ["Name", user.name],
    ["E-mail", user.email],
    ...user.grants.map(({ role, scopes }) => ["Role", `${role} of ${scopesText(scopes)}`] as const),
    ["Last seen", relative(user.last_seen_at, now())],
    ["Added", relative(user.created_at, now())],
  ]);
}
