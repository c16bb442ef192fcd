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
    .description("Create an enrolment key, with which robots join a fleet. The key itself is shown this once.")
    .requiredOption("--site <id>", "Site of the robots")
    .requiredOption("--fleet <id>", "Fleet of the robots, at that site")
    .option("--label <text>", "What the key is for")
    .option("--max-uses <n>", "How many robots may enrol with it; 0 is any number", wholeNumber(0))
    .option("--expires-in-hours <n>", "How long it works; 0 is for ever", wholeNumber(0))
    .option("--trusted", "Robots that enroll with it get secrets at once; the default of admins, and only for them")
    .option("--no-trusted", "Robots that enroll with it get no secrets until an admin approves them")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const client = await context.client();
  // Without an idempotency key: the answer to a repeat would not hold the secret any more.
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
      ["Uses", max_uses === 0 ? "any number" : max_uses],
      ["Secrets", trusted ? "robots get them at once" : "after an admin approves the robot"],
      ["Expires", relative(expires_at, context.now())],
    ]);
    showKeyUse(context, client, key);
  });
}
