import type { ContainerCreateOptions, ContainerInspectInfo } from "dockerode";
import { type Bind, isWithin } from "./swappable-mounts.ts";
import { engineFailure, type CallOptions, type Engine, statusOf } from "./engine.ts";
import { StepFailure } from "../failure.ts";
import { ENGINE_CALL_MS, STOP_TIMEOUT_SECONDS_MAX } from "../limits.ts";

/** How containers are found again, whatever happened to our own notes: names are for people. */
export const LABELS = {
  /** The agent's state directory: two agents may share one engine. */
  robot: "roamfleet.state",
  app: "roamfleet.app",
  release_id: "roamfleet.release_id",
  release: "roamfleet.release",
} as const;

export interface Found {
  id: string;
  release_id: string;
  /** `created`, `running`, `restarting`, `exited`, … */
  state: string;
  /** Of the robot, while it runs. */
  ports: HostPort[];
}

export interface HostPort {
  port: number;
  protocol: string;
}

/** Whether a container could not be made because the engine has not got its image any more. */
export const lacksImage = (error: unknown): boolean => error instanceof StepFailure && statusOf(error.cause) === 404;

/** The containers of one robot's apps, each known by its id. Every method bears a second call. */
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

  /** The newest first. */
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

  /** Directories of the robot that containers of its other apps have; not those of the agent itself. */
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

  /** Throws StepFailure with the engine's own words when it will not have it. */
  async create(options: ContainerCreateOptions, signal: AbortSignal): Promise<string> {
    try {
      return await this.#engine.use({ what: "create a container", signal }, async (docker, abortSignal) => {
        try {
          const { id } = await docker.createContainer({ ...options, abortSignal });
          return id;
        } catch (error) {
          if (statusOf(error) !== 409 || options.name === undefined) throw error;
          // The name is new for each container: an earlier call was heard, and its answer was not.
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

  /** Also of one that runs already. */
  async start(id: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#engine.use({ what: "start a container", signal }, (docker, abortSignal) =>
        docker.getContainer(id).start({ abortSignal }),
      );
    } catch (error) {
      if (statusOf(error) !== 304) throw engineFailure(error, "rejected_by_robot");
    }
  }

  /** SIGTERM, and SIGKILL after the time that the container was made with; also of one that is stopped or gone. */
  async stop(id: string, options: Omit<CallOptions, "what" | "limit_ms">): Promise<void> {
    const limit_ms = ENGINE_CALL_MS + STOP_TIMEOUT_SECONDS_MAX * 1_000;
    await this.#quietly(304, () =>
      this.#engine.use({ ...options, what: "stop a container", limit_ms }, (docker, abortSignal) =>
        docker.getContainer(id).stop({ abortSignal }),
      ),
    );
  }

  /** With its unnamed volumes; also of one that runs or is gone. */
  async remove(id: string, signal: AbortSignal): Promise<void> {
    // 409: the engine removes it already.
    await this.#quietly(409, () =>
      this.#engine.use({ what: "remove a container", signal }, (docker, abortSignal) =>
        docker.getContainer(id).remove({ force: true, v: true, abortSignal }),
      ),
    );
  }

  async #quietly(status: number, call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (statusOf(error) !== status && statusOf(error) !== 404) throw error;
    }
  }

  /** Undefined for one that is gone. */
  async inspect(id: string, options: Omit<CallOptions, "what">): Promise<ContainerInspectInfo | undefined> {
    try {
      return await this.#engine.use({ ...options, what: "describe a container" }, (docker, abortSignal) =>
        docker.getContainer(id).inspect({ abortSignal }),
      );
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  async kill(id: string, name: NodeJS.Signals, signal: AbortSignal): Promise<void> {
    await this.#engine.use({ what: "signal a container", signal }, (docker, abortSignal) =>
      docker.getContainer(id).kill({ signal: name, abortSignal }),
    );
  }

  /** Volumes that were made for the app. */
  async removeVolumes(app: string, signal: AbortSignal): Promise<void> {
    const filters = JSON.stringify({ label: this.#labels(app) });
    const { Volumes } = await this.#engine.use({ what: "list its volumes", signal }, (docker) => docker.listVolumes({ filters }));
    for (const { Name } of Volumes ?? [])
      await this.#quietly(409, () =>
        this.#engine.use({ what: "remove a volume", signal }, (docker, abortSignal) => docker.getVolume(Name).remove({ abortSignal })),
      );
  }
}
