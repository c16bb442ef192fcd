import { readFile } from "node:fs/promises";
import { InvalidArgumentError } from "commander";
import type { Client } from "@roamfleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { usage } from "../../failure.ts";
import { readList } from "../../lists.ts";
import { readStdin } from "../../secret.ts";
import { line } from "../../text.ts";

const SCHEMA_BYTES_MAX = 1_048_576;
const ACTIONS = ["list", "show", "set", "remove"] as const;
type Action = (typeof ACTIONS)[number];

function readAction(text: string): Action {
  const action = ACTIONS.find((one) => one === text);
  if (action === undefined) throw new InvalidArgumentError(`Expected one of ${ACTIONS.join(", ")}.`);
  return action;
}

export const define: Define = (command, act) => {
  command
    .description(
      "List, show, set or remove the JSON Schema (draft 2020-12) of a namespace. A value that violates it is refused when it is set, and " +
        "robots never get a combination of values that violates it.",
    )
    .argument("<action>", ACTIONS.join(", "), readAction)
    .argument("[namespace]", "The namespace")
    .argument("[file]", "For set: file with the schema; - is stdin")
    .action(act<[Action, string | undefined, string | undefined]>(run));
  addExamples(command, ["rf configs schema set nav nav.schema.json", "rf configs schema show nav", "rf configs schema remove nav"]);
};

async function run(context: Context, action: Action, namespace: string | undefined, file: string | undefined): Promise<void> {
  if (action === "list") return list(context, await context.client());
  if (namespace === undefined) throw usage(`a namespace is required: rf configs schema ${action} <namespace>`);
  if (action === "set") return set(context, namespace, file);
  const client = await context.client();
  if (action === "remove") {
    const removed = await client.deleteConfigSchema({ params: { namespace } });
    return context.out.result(removed, () => context.out.line(line`Namespace ${namespace} no longer has a schema.`));
  }
  const answer = await client.getConfigSchema({ params: { namespace } });
  await context.out.result(answer, () => context.out.line(JSON.stringify(answer.data.schema, null, 2)));
}

async function list({ out, now }: Context, client: Client): Promise<void> {
  const answer = await readList(client, "listConfigSchemas", undefined, {});
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No namespace has a schema. Set one: rf configs schema set <namespace> <file>");
    return out.table(answer.items, [
      { title: "NAMESPACE", value: ({ namespace }) => namespace },
      { title: "VERSION", value: ({ version }) => version },
      { title: "SET", value: ({ updated_at }) => relative(updated_at, now()) },
      { title: "BY", value: ({ updated_by }) => updated_by.name ?? updated_by.id ?? updated_by.type },
    ]);
  });
}

async function set(context: Context, namespace: string, file: string | undefined): Promise<void> {
  if (file === undefined) throw usage("a schema file is required: rf configs schema set <namespace> <file>");
  const text = (file === "-" ? await readStdin(SCHEMA_BYTES_MAX) : await readFile(file)).toString();
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw usage(`${file} is not valid JSON: ${error instanceof Error ? error.message : ""}`);
  }
  const answer = await (await context.client()).setConfigSchema({ params: { namespace }, body: { schema } });
  await context.out.result(answer, () =>
    context.out.line(line`Schema of namespace ${namespace} is at version ${answer.data.version}: values that violate it are now refused.`),
  );
}
