import type { DeploymentsOptions } from "../contract.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { ArtifactStore } from "../runtime/artifact-store.ts";
import { BundleExecutor, type RuntimeOptions } from "../runtime/bundle.ts";
import { ContainerExecutor } from "../runtime/docker/container-executor.ts";
import { Engine } from "../runtime/docker/engine.ts";
import { LayerStore } from "../runtime/docker/layer-store.ts";
import type { RegistryLogins } from "../runtime/docker/registry-logins.ts";
import type { Executor } from "../runtime/executor.ts";
import { FileExecutor } from "../runtime/file.ts";
import type { Timing } from "../runtime/limits.ts";
import type { StatePaths } from "../runtime/paths.ts";

export interface RuntimeParts {
  artifacts: ArtifactStore;
  bundles: BundleExecutor;
  containers: ContainerExecutor;
  engine: Engine;
  executors: Executor[];
}

export interface RuntimeSeams {
  paths: StatePaths;
  timing: Timing;
  on_step: (name: string) => void;
  logins: RegistryLogins;
  /** An app's workload has disappeared; without a name: something that any app may need has become available. */
  on_lost: (app?: string) => void;
}

/** Creates the executors of all kinds, and the parts that they share. */
export function openRuntime(
  { clock, log, logs, config, fetcher, guard }: DeploymentsOptions,
  { paths, timing, on_step, logins, on_lost }: RuntimeSeams,
): RuntimeParts {
  for (const directory of [paths.downloads, paths.files, paths.configs, paths.apps]) makeDirectory(directory);
  const artifacts = new ArtifactStore({ directory: paths.downloads, fetcher, clock, timing });
  const requires_signature = (): boolean => guard?.requires_signature === true;
  const runtime: RuntimeOptions = { paths, artifacts, config, clock, timing, log, logs, on_step, on_lost, requires_signature };
  const bundles = new BundleExecutor(runtime);
  const engine = new Engine({ sockets: config.container_sockets, clock, timing, log, on_answer: () => on_lost() });
  const layers = new LayerStore({ directory: paths.layers, fetcher, clock, timing });
  const containers = new ContainerExecutor({ ...runtime, engine, layers, login: (release_id) => logins.of(release_id) });
  const files = new FileExecutor({
    ...runtime,
    signal_app: (app, signal) => bundles.signal(app, signal) || containers.signal(app, signal),
  });
  // Bundles come last: when an app is removed, the other executors find their own data only while its directory exists.
  return { artifacts, bundles, containers, engine, executors: [containers, files, bundles] };
}
