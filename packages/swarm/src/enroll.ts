import type { Identity } from "./identity.ts";
import type { Swarm } from "./swarm.ts";

export interface EnrollOptions {
  /** The raw enrollment key. */
  key: string;
  name?: string | undefined;
  labels?: Record<string, string> | undefined;
}

export interface Enrolled {
  robot_id: string;
  org_id: string;
  name: string;
}

/** The server refused to enroll the robot. */
export class EnrolmentFailed extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** POST /agent/enroll. Throws EnrolmentFailed with the server's message. */
export async function enroll(swarm: Swarm, identity: Identity, { key, name, labels }: EnrollOptions): Promise<Enrolled> {
  const platform = { os: "Simulated", arch: "x64", hostname: name ?? "simulated", kernel: "0" };
  const end = swarm.activity.begin();
  try {
    const response = await swarm.fetch(`${swarm.url}/agent/enroll`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ key, public_key: identity.public_key, name, labels, platform }),
    });
    const body = (await response.json()) as { data?: Enrolled; error?: { message: string } };
    if (body.data === undefined) throw new EnrolmentFailed(response.status, body.error?.message ?? `HTTP status ${response.status}`);
    return body.data;
  } finally {
    end();
  }
}
