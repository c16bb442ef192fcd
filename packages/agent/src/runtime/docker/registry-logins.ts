import type { Desired } from "@roamfleet/protocol/link";
import type { RegistryLogin } from "./images.ts";

/** Logins for registries: sent with each desired state, kept in memory only. */
export class RegistryLogins {
  #of_release = new Map<string, RegistryLogin>();

  /** Replaces the logins by those of the newer desired state. */
  learn({ apps }: Desired): void {
    const releases = Object.values(apps).flatMap(({ release }) =>
      release?.registry_auth ? [[release.id, release.registry_auth] as const] : [],
    );
    this.#of_release = new Map(releases);
  }

  of(release_id: string): RegistryLogin | undefined {
    return this.#of_release.get(release_id);
  }
}
