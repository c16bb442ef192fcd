import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options {
  email: string;
}

export const define: Define = (command, act) => {
  command
    .description("Request an organization. No token is needed; the service's administrator approves the request and sends you one.")
    .argument("<name>", "Name of the org")
    .requiredOption("--email <address>", "Your e-mail address")
    .action(act<[string, Options]>(run));
  addExamples(command, ["rf orgs request Acme --email ada@acme.example --base-url https://fleet.example.org"]);
};

async function run(context: Context, name: string, { email }: Options): Promise<void> {
  const { base_url } = await context.access();
  const client = await context.connect({ base_url });
  const answer = await client.requestOrg({ body: { name, email }, idempotency_key: context.idempotencyKey() });
  const { out } = context;
  await out.result(answer, () => {
    out.line(line`Org ${answer.data.name} requested: ${answer.data.id}, ${out.status(answer.data.status)}`);
    out.line("After approval you receive a token: save it with rf login.");
  });
}
