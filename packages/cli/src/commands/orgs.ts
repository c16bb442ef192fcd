import { ApiError, type Body, type Client } from "@roamfleet/sdk";
import type { Command } from "commander";
import { type CommandDefinition, defineCommand, printAnswer, requestCommand, wholeNumber } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { askSecret } from "../secret.ts";
import { line } from "../text.ts";

export interface AdminOption {
  adminToken?: string;
}

export const adminOption = (command: Command): Command =>
  command.option(
    "--admin-token <token>",
    "The service's SERVICE_ADMIN_TOKEN; - prompts for the token or reads it from stdin (default: ROAMFLEET_ADMIN_TOKEN)",
  );

/** Runs `work` as the service's administrator. A service in open mode needs no token. */
export async function asAdmin<T>(context: Context, options: AdminOption, work: (client: Client) => Promise<T>): Promise<T> {
  const given = options.adminToken === "-" ? (await askSecret("Admin token")).trim() : options.adminToken;
  const admin_token = given ?? context.environment.admin_token;
  const { base_url } = await context.access();
  try {
    return await work(await context.connect({ base_url, admin_token }));
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 401 && error.status !== 403)) throw error;
    const hint =
      admin_token === undefined
        ? "Set ROAMFLEET_ADMIN_TOKEN to the server's SERVICE_ADMIN_TOKEN."
        : "The admin token must be the server's SERVICE_ADMIN_TOKEN.";
    throw new Failure(EXIT.auth, error.message, { hints: [hint], document: error.body, cause: error });
  }
}

/** Defines an administrator's command that takes one argument, sends one request and prints the response. */
const adminCommand = <T>(
  description: string | undefined,
  define: (command: Command) => Command,
  request: (client: Client, word: string, context: Context) => Promise<T>,
  show: (answer: T, context: Context) => string | readonly string[] | void,
): CommandDefinition =>
  defineCommand<[string, AdminOption]>(
    description,
    (command) => adminOption(define(command)),
    async (context, word, options) => {
      const answer = await asAdmin(context, options, (client) => request(client, word, context));
      await printAnswer(context, answer, () => show(answer, context));
    },
  );

export const request = defineCommand<[string, { email: string }]>(
  "Request an organization. The request needs no token. After approval, the service's administrator sends you a token.",
  (command) => command.argument("<name>", "Name of the org").requiredOption("--email <address>", "Your e-mail address"),
  async (context, name, { email }) => {
    const { out } = context;
    const { base_url } = await context.access();
    const client = await context.connect({ base_url });
    const answer = await client.requestOrg({ body: { name, email }, idempotency_key: context.idempotencyKey() });
    await out.result(answer, () => {
      out.line(line`Org ${answer.data.name} requested: ${answer.data.id}, ${out.status(answer.data.status)}`);
      out.line("After approval you receive a token: save it with rf login.");
    });
  },
  ["rf orgs request Acme --email ada@acme.example --base-url https://fleet.example.org"],
);

export const list = defineCommand<[LimitOption & AdminOption]>(
  undefined,
  (command) => adminOption(limitOption(command)),
  (context, options) =>
    asAdmin(context, options, (client) =>
      printList(context, "listOrgs", {
        client,
        limit: options.limit,
        empty: "No orgs yet. Create one: rf orgs create <name>",
        columns: [
          { title: "ID", value: ({ id }) => id },
          { title: "NAME", value: ({ name }) => name },
          { title: "STATUS", value: ({ status }) => context.out.status(status) },
          { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
          { title: "EMAIL", value: ({ email }) => email ?? "–", wide: true },
        ],
      }),
    ),
);

export const show = adminCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the org"),
  (client, id) => client.getAnyOrg({ params: { id } }),
  ({ data }, { out, now }) =>
    out.details([
      ["ID", data.id],
      ["Name", data.name],
      ["E-mail", data.email ?? undefined],
      ["Status", out.status(data.status)],
      ["Created", relative(data.created_at, now())],
      ["Changed", relative(data.updated_at, now())],
    ]),
);

export const create = adminCommand(
  "Create an org, which is pending until it is approved.",
  (command) => command.argument("<name>", "Name of the org"),
  (client, name, context) => client.createOrg({ body: { name }, idempotency_key: context.idempotencyKey() }),
  ({ data }, { out }) => [line`Created org ${data.name}: ${data.id}, ${out.status(data.status)}`, line`Next: rf orgs approve ${data.id}`],
);

export const approve = adminCommand(
  "Approve an org. Its bootstrap token, which has all permissions in the org, is shown only once.",
  (command) => command.argument("<id>", "ID of the org"),
  // Sends no idempotency key: the response to a retry would not contain the token.
  (client, id) => client.approveOrg({ params: { id } }),
  ({ data }, { out }) => {
    out.details([
      ["Org", `${data.name} (${data.id})`],
      ["Status", out.status(data.status)],
      ["Token", out.paint("strong", data.token)],
    ]);
    return line`\nThe token is not shown again. To save it on this machine, run: rf login --token ${data.token}`;
  },
);

export const reject = adminCommand(
  "Reject and delete a pending org; its name becomes available.",
  (command) => command.argument("<id>", "ID of the org"),
  (client, id) => client.rejectOrg({ params: { id } }),
  ({ data }) => line`Org ${data.name} is rejected and deleted.`,
);

export const suspend = adminCommand(
  "Suspend an org: its tokens are refused, its robots disconnected and its deployments paused until it is resumed.",
  (command) => command.argument("<id>", "ID of the org"),
  (client, id) => client.suspendOrg({ params: { id } }),
  ({ data }, { out }) => [line`Org ${data.name} is ${out.status(data.status)}.`, line`Resume it: rf orgs resume ${data.id}`],
);

export const resume = adminCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the org"),
  (client, id) => client.resumeOrg({ params: { id } }),
  ({ data }, { out }) => line`Org ${data.name} is ${out.status(data.status)}.`,
);

/** `rf org show`: the user's own org. */
export const showOwn = requestCommand(
  undefined,
  () => {},
  (client) => client.getOrg(),
  showOwnOrg,
);

/** `rf org set` */
export const setOwn = defineCommand<[{ name?: string; deploymentExpiresDays?: number }]>(
  undefined,
  (command) =>
    command
      .option("--name <name>", "New name")
      .option(
        "--deployment-expires-days <n>",
        "Cancel deployments for robots that have not begun to install them after this many days; 0 means the server's default",
        wholeNumber(0),
      ),
  async (context, { name, deploymentExpiresDays: deployment_expires_days }) => {
    if (name === undefined && deployment_expires_days === undefined)
      throw usage("nothing to change: use --name or --deployment-expires-days");
    const settings = deployment_expires_days === undefined ? undefined : { deployment_expires_days };
    const answer = await (await context.client()).updateOrg({ body: { name, settings } });
    await context.out.result(answer, () => showOwnOrg(answer, context));
  },
  ["rf org set --deployment-expires-days 14"],
);

function showOwnOrg({ data: org }: Body<"getOrg">, { out, now }: Context): void {
  const days = org.settings.deployment_expires_days;
  out.details([
    ["ID", org.id],
    ["Name", org.name],
    ["Status", out.status(org.status)],
    ["Deployments expire after", days === null ? "server default" : `${days} d`],
    ["Created", relative(org.created_at, now())],
  ]);
}
