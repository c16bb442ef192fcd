import type { Client } from "@roamfleet/sdk";
import type { Context } from "../context.ts";
import { plain } from "../text.ts";

/** Offline robots listed by name; the others are only counted. */
const NAMED_MAX = 20;

interface Member {
  name: string;
  online: boolean;
}

/** The robots of a fleet by name, and which of them are online. */
export class FleetNames {
  readonly #context: Context;
  readonly #client: Client;
  readonly #members: Map<string, Member>;

  private constructor(context: Context, client: Client, members: Map<string, Member>) {
    this.#context = context;
    this.#client = client;
    this.#members = members;
  }

  static async read(context: Context, client: Client, fleet_id: string): Promise<FleetNames> {
    const { items } = await client.listRobots({ query: { fleet_id } });
    const members = new Map(items.map(({ id, name, status }) => [id, { name, online: status === "online" }]));
    return new FleetNames(context, client, members);
  }

  /** Prints the offline robots once. */
  noteOffline(): void {
    const offline = Array.from(this.#members.values()).filter(({ online }) => !online);
    if (offline.length === 0) return;
    const names = offline.slice(0, NAMED_MAX).map(({ name }) => plain(name));
    const more = offline.length > names.length ? ` and ${offline.length - names.length} more` : "";
    this.#context.out.note(`offline: ${names.join(", ")}${more}; they join when they come online`);
  }

  /** Returns a robot's name, also if it joined later or left the fleet; the id of a deleted robot. */
  async nameOf(robot_id: string): Promise<string> {
    return (await this.#member(robot_id)).name;
  }

  /** Returns the name as above, and prints a note if the robot was offline or unknown before. */
  async heard(robot_id: string, at_ms: number, since_ms: number): Promise<string> {
    const member = await this.#member(robot_id);
    // A stored record may belong to a robot that has been deleted since.
    if (!member.online && at_ms >= since_ms) {
      member.online = true;
      this.#context.out.note(`${plain(member.name)} is online`);
    }
    return member.name;
  }

  async #member(robot_id: string): Promise<Member> {
    const known = this.#members.get(robot_id);
    if (known !== undefined) return known;
    const member = { name: await this.#ask(robot_id), online: false };
    this.#members.set(robot_id, member);
    return member;
  }

  async #ask(robot_id: string): Promise<string> {
    try {
      return (await this.#client.getRobot({ params: { id: robot_id } })).data.name;
    } catch {
      return robot_id;
    }
  }
}
