import { access } from "node:fs/promises";
import path from "node:path";
import { chooseRunAs, findBinaries, Refusal } from "../../engines/db/embedded/index.ts";
import type { Check } from "../context.ts";
import { ok, problem, skipped } from "../finding.ts";

export const embeddedCheck: Check = {
  name: "PostgreSQL here",
  async check({ settings, wrong_parts }) {
    if (wrong_parts.has("database")) return [skipped("see settings")];
    if (settings.database_url !== undefined) return [skipped("not needed with DATABASE_URL")];
    const directory = path.join(path.resolve(settings.data_directory), "postgres");
    try {
      const { major, bin } = await findBinaries(directory);
      const parent_is_there = await access(path.dirname(directory)).then(
        () => true,
        () => false,
      );
      const run_as = parent_is_there ? await chooseRunAs(directory, bin, true) : undefined;
      const account = run_as?.account === undefined ? "" : `, as user ${run_as.account.uid}`;
      return [ok(`PostgreSQL ${major} in ${bin}${account}`)];
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      // Messages of a Refusal end with what to do.
      const [seen = "", hint = "see the documentation"] = error.message.split(/: (?=[^:]*$)/);
      return [problem(seen, hint)];
    }
  },
};
