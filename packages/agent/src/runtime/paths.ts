import path from "node:path";
import { encodeFileName } from "@roamfleet/protocol";

export interface StatePaths {
  readonly root: string;
  readonly downloads: string;
  /** Directory of the cached image parts, named by digest. Images share them. */
  readonly layers: string;
  readonly files: string;
  readonly configs: string;
  readonly apps: string;
  readonly journal: string;
  readonly config_journal: string;
  app(app: string): string;
  versions(app: string): string;
  version(app: string, release_id: string): string;
  current(app: string): string;
  /**
   * Returns the path of the record of an app's process. The record is written after each start and
   * read when the next agent starts.
   */
  process(app: string): string;
  /** Returns the directory of an app's output that is not in the log yet. */
  output(app: string): string;
  config(namespace: string): string;
}

export function statePaths(state_directory: string): StatePaths {
  const root = path.resolve(state_directory);
  const apps = path.join(root, "apps");
  const app = (name: string): string => path.join(apps, encodeFileName(name));
  return {
    root,
    downloads: path.join(root, "downloads"),
    layers: path.join(root, "layers"),
    files: path.join(root, "files"),
    configs: path.join(root, "configs"),
    apps,
    journal: path.join(root, "deployments.journal"),
    config_journal: path.join(root, "configs.journal"),
    app,
    versions: (name) => path.join(app(name), "versions"),
    version: (name, release_id) => path.join(app(name), "versions", encodeFileName(release_id)),
    current: (name) => path.join(app(name), "current"),
    output: (name) => path.join(app(name), "output"),
    process: (name) => path.join(app(name), "process.json"),
    config: (namespace) => path.join(root, "configs", `${encodeFileName(namespace)}.json`),
  };
}
