import { run } from "./run.ts";

/** Makes a newly written tree of files durable with one call for the file system instead of a thousand fsyncs. */
export async function syncTree(directory: string): Promise<void> {
  const { code, output } = await run("sync", ["--file-system", directory]);
  if (code !== 0) throw new Error(`sync failed on ${directory}: ${output}`);
}
