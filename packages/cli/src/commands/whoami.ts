import type { Define } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { line } from "../text.ts";

export const define: Define = (command, act) => {
  command.action(act(run));
};

async function run(context: Context): Promise<void> {
  const client = await context.client();
  const answer = await client.getMe();
  const { actor, token, org, orgs } = answer.data;
  await context.out.result(answer, () => {
    const { out } = context;
    out.details([
      ["Who", actor.name === null ? actor.id : line`${actor.name} (${actor.id})`],
      ["Token", `${token.prefix}…${token.label === null ? "" : ` ${token.label}`}`],
      ["Expires", relative(token.expires_at, context.now())],
      ["Org", `${org.name} (${org.id})`],
      ["Role", org.role],
      ["Service", client.base_url],
    ]);
    for (const other of orgs) if (other.id !== org.id) out.line(line`Also ${other.role} of ${other.name}: --org ${other.id}`);
  });
}
