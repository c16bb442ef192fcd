import { type Define, wholeNumber } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { showKeyUse } from "../../show-key.ts";

interface Options {
  site: string;
  fleet: string;
  label?: string;
  maxUses?: number;
  expiresInHours?: number;
  trusted?: boolean;
}

export const define: Define = (command, act) => {
  command
    .description("Create an enrollment key, with which robots join a fleet. The key is shown only once.")
    .requiredOption("--site <id>", "Site of the robots")
    .requiredOption("--fleet <id>", "Fleet of the robots, at that site")
    .option("--label <text>", "What the key is for")
    .option("--max-uses <n>", "Number of robots that may enroll with it; 0 means unlimited", wholeNumber(0))
    .option("--expires-in-hours <n>", "Lifetime in hours; 0 means no expiry", wholeNumber(0))
    .option("--trusted", "Robots that enroll with it get secrets immediately; admins only, and their default")
    .option("--no-trusted", "Robots that enroll with it get secrets only after an admin approves them")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const client = await context.client();
  // No idempotency key: the response to a repeat would not contain the secret.
  const answer = await client.createEnrollmentKey({
    body: {
      site_id: options.site,
      fleet_id: options.fleet,
      label: options.label,
      max_uses: options.maxUses,
      expires_in_hours: options.expiresInHours,
      trusted: options.trusted,
    },
  });
  const { out } = context;
  await out.result(answer, () => {
    const { id, key, trusted, max_uses, expires_at } = answer.data;
    out.details([
      ["Id", id],
      ["Key", out.paint("strong", key)],
      ["Uses", max_uses === 0 ? "unlimited" : max_uses],
      ["Secrets", trusted ? "robots get them immediately" : "after an admin approves the robot"],
      ["Expires", relative(expires_at, context.now())],
    ]);
    showKeyUse(context, client, key);
  });
}
