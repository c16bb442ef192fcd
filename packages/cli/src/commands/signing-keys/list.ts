import type { Body } from "@roamfleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";

export const define: Define = (command, act) => {
  command.action(act(run));
};

async function run(context: Context): Promise<void> {
  const answer = await (await context.client()).getSigningKeys();
  await context.out.result(answer, () => showSigningKeys(context, answer.data));
}

export async function showSigningKeys({ out, now }: Context, { require_signature, keys }: Body<"getSigningKeys">["data"]): Promise<void> {
  if (keys.length === 0) return out.note("No signing keys yet. Create one: rf signing-keys new <file>");
  await out.table(keys, [
    { title: "ID", value: ({ id }) => id },
    { title: "NAME", value: ({ name }) => name },
    { title: "STATUS", value: ({ revoked_at }) => out.status(revoked_at === null ? "active" : "revoked") },
    { title: "ADDED", value: ({ added_at }) => relative(added_at, now()) },
    { title: "REVOKED", value: ({ revoked_at }) => (revoked_at === null ? "–" : relative(revoked_at, now())) },
    { title: "PUBLIC KEY", value: ({ public_key }) => public_key, wide: true },
  ]);
  out.note(
    require_signature ? "Signatures are required." : "Signatures are optional. Require them: rf signing-keys require on --sign <key>",
  );
}
