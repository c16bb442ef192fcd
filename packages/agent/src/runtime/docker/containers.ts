import type { ContainerCreateOptions, ContainerInspectInfo } from "dockerode";
import { StepFailure } from "../failure.ts";
import { type CallOptions, type Engine, engineFailure, statusOf } from "./engine.ts";
import { ENGINE_CALL_MS, STOP_TIMEOUT_SECONDS_MAX } from "../limits.ts";

/** Returns whether a path is the directory itself or below it. Both must be absolute and contain no symlinks. */
export const isWithin = (place: string, directory: string): boolean =>
  place === directory || place.startsWith(directory === "/" ? directory : `${directory}/`);

export interface Bind {
  app: string;
  source: string;
  writable: boolean;
}

/**
 * Refuses two mounts of nested directories if a container may write the outer one. Then that container could replace the inner directory
 * by a symlink to any path on the robot, since the engine resolves symlinks at each start of a container. Throws StepFailure
 * `rejected_by_robot`.
 */
export function refuseSwappable(wanted: readonly Bind[], others: readonly Bind[]): void {
  for (const bind of wanted)
    for (const other of [...wanted, ...others]) {
      if (bind.source === other.source) continue;
      const below = other.writable && isWithin(bind.source, other.source);
      const above = bind.writable && isWithin(other.source, bind.source);
      if (!below && !above) continue;
      const [inner, outer] = below ? [bind, other] : [other, bind];
      throw new StepFailure(
        "rejected_by_robot",
        `manifest: mount ${inner.source} of app ${inner.app} lies below ${outer.source}, which app ${outer.app} may write and could therefore replace by a symlink: mount one of them read_only, or the same directory in both`,
      );
    }
}

/** Labels by which the agent finds its containers, even without its own records. Container names are only for people. */
export const LABELS = {
  /** The agent's state directory, which distinguishes two agents that share one engine. */
  robot: "roamfleet.state",
  app: "roamfleet.app",
  release_id: "roamfleet.release_id",
  release: "roamfleet.release",
} as const;

export interface Found {
  id: string;
  release_id: string;
  /** State of the container: `created`, `running`, `restarting`, `exited`, … */
  state: string;
  /** Host ports that the container uses while it runs. */
  ports: HostPort[];
}

export interface HostPort {
  port: number;
  protocol: string;
}

/** Returns whether a container could not be created because the engine no longer has its image. */
export const lacksImage = (error: unknown): boolean => error instanceof StepFailure && statusOf(error.cause) === 404;

/** The containers of one robot's apps, identified by id. All methods are idempotent. */
export class Containers {
  readonly #engine: Engine;
  readonly #robot: string;

  constructor(engine: Engine, state_directory: string) {
    this.#engine = engine;
    this.#robot = state_directory;
  }

  #labels(app: string): string[] {
    return [`${LABELS.robot}=${this.#robot}`, `${LABELS.app}=${app}`];
  }

  /** Lists the app's containers, newest first. */
  async list(app: string, options: Omit<CallOptions, "what">): Promise<Found[]> {
    const label = this.#labels(app);
    const found = await this.#engine.use({ ...options, what: "list its containers" }, (docker, abortSignal) =>
      docker.listContainers({ all: true, filters: { label }, abortSignal }),
    );
    return found
      .toSorted((a, b) => b.Created - a.Created)
      .map(({ Id, Labels, State, Ports }) => ({
        id: Id,
        release_id: Labels[LABELS.release_id] ?? "",
        state: State,
        ports: (Ports ?? []).flatMap(({ PublicPort, Type }) => (PublicPort ? [{ port: PublicPort, protocol: Type }] : [])),
      }));
  }

  /** Returns the host directories mounted by containers of the robot's other apps, except directories in the agent's state. */
  async binds(app: string, signal: AbortSignal): Promise<Bind[]> {
    const label = [`${LABELS.robot}=${this.#robot}`];
    const found = await this.#engine.use({ what: "list its containers", signal }, (docker, abortSignal) =>
      docker.listContainers({ all: true, filters: { label }, abortSignal }),
    );
    return found.flatMap(({ Labels, Mounts }) => {
      const of = Labels[LABELS.app] ?? "";
      const binds = of === app ? [] : (Mounts ?? []).filter(({ Type, Source }) => Type === "bind" && !isWithin(Source, this.#robot));
      return binds.map(({ Source, RW }) => ({ app: of, source: Source, writable: RW }));
    });
  }

  /** Creates a container. Throws StepFailure with the engine's message if the engine refuses. */
  async create(options: ContainerCreateOptions, signal: AbortSignal): Promise<string> {
    try {
      return await this.#engine.use({ what: "create a container", signal }, async (docker, abortSignal) => {
        try {
          const { id } = await docker.createContainer({ ...options, abortSignal });
          return id;
        } catch (error) {
          if (statusOf(error) !== 409 || options.name === undefined) throw error;
          // The name is unique for each container. So if it is taken, an earlier call has succeeded and its response was lost.
          const { Id, Config, State } = await docker.getContainer(options.name).inspect({ abortSignal });
          const ours = Object.entries(options.Labels ?? {}).every(([label, value]) => Config.Labels[label] === value);
          if (!ours || State.Status !== "created") throw error;
          return Id;
        }
      });
    } catch (error) {
      throw engineFailure(error, "rejected_by_robot");
    }
  }

  /** Starts a container; does nothing if it runs already. */
  async start(id: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#engine.use({ what: "start a container", signal }, (docker, abortSignal) =>
        docker.getContainer(id).start({ abortSignal }),
      );
    } catch (error) {
      if (statusOf(error) !== 304) throw engineFailure(error, "rejected_by_robot");
    }
  }

  /** Stops a container with SIGTERM, and with SIGKILL after its stop timeout. Does nothing if it is stopped or gone. */
  async stop(id: string, options: Omit<CallOptions, "what" | "limit_ms">): Promise<void> {
    const limit_ms = ENGINE_CALL_MS + STOP_TIMEOUT_SECONDS_MAX * 1_000;
    await this.#engine.useUnless([304, 404], { ...options, what: "stop a container", limit_ms }, (docker, abortSignal) =>
      docker.getContainer(id).stop({ abortSignal }),
    );
  }

  /** Removes a container and its unnamed volumes, even if it is running. Does nothing if it is gone. */
  async remove(id: string, signal: AbortSignal): Promise<void> {
    // Status 409 means that the engine is already removing the container.
    await this.#engine.useUnless([404, 409], { what: "remove a container", signal }, (docker, abortSignal) =>
      docker.getContainer(id).remove({ force: true, v: true, abortSignal }),
    );
  }

  /** Returns the engine's data about a container; undefined if the container is gone. */
  inspect(id: string, options: Omit<CallOptions, "what">): Promise<ContainerInspectInfo | undefined> {
    return this.#engine.useUnless([404], { ...options, what: "describe a container" }, (docker, abortSignal) =>
      docker.getContainer(id).inspect({ abortSignal }),
    );
  }

  async kill(id: string, name: NodeJS.Signals, signal: AbortSignal): Promise<void> {
    await this.#engine.use({ what: "signal a container", signal }, (docker, abortSignal) =>
      docker.getContainer(id).kill({ signal: name, abortSignal }),
    );
  }

  async removeVolumes(app: string, signal: AbortSignal): Promise<void> {
    const filters = JSON.stringify({ label: this.#labels(app) });
    const { Volumes } = await this.#engine.use({ what: "list its volumes", signal }, (docker) => docker.listVolumes({ filters }));
    for (const { Name } of Volumes ?? [])
      await this.#engine.useUnless([404, 409], { what: "remove a volume", signal }, (docker, abortSignal) =>
        docker.getVolume(Name).remove({ abortSignal }),
      );
  }
}
