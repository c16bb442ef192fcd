import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import type { Context } from "./context.ts";
import { bytes, duration } from "./duration.ts";
import { labelsText } from "./labels.ts";

/** Robots listed individually; --json lists all. */
const ROBOTS_SHOWN_MAX = 20;

type Wave = NonNullable<DeploymentPlan["rollout"]["waves"]>[number];

/** Formats a wave's policy: `5%`, `20 robots`, `zone=a`, with what follows it. */
function asked(wave: Wave | undefined): string {
  if (wave === undefined) return "remaining robots";
  const { percent, count, labels, soak_seconds, gate } = wave;
  const who = percent !== undefined ? `up to ${percent}%` : count !== undefined ? `up to ${count} robots` : labelsText(labels ?? {});
  return [
    who,
    ...(soak_seconds > 0 ? [`soaks ${duration(soak_seconds)}`] : []),
    ...(gate === "manual" ? ["then manual promotion"] : []),
  ].join(", ");
}

/** Prints the rollout plan of a deployment. */
export async function showPlan({ out }: Context, answer: { data: DeploymentPlan }): Promise<void> {
  const { data } = answer;
  await out.result(answer, async () => {
    out.details([
      ["Release", `${data.release.tag} (${data.release.id})${data.artifact_stored ? "" : ", whose artifact is not uploaded yet"}`],
      ["Target", `${data.target_kind} ${data.robot_id ?? data.fleet_id}`],
      ["Robots", `${data.total}: ${data.offline} offline, ${data.incompatible} incompatible, ${data.already_installed} already installed`],
      ["To send", bytes(data.bytes_to_send)],
      ["Window", data.window === null ? undefined : `${data.window.opens_at} to ${data.window.closes_at}`],
      ["Expires", data.expires_at],
    ]);
    if (data.rollout.waves !== null) {
      out.line();
      await out.table(data.waves, [
        { title: "WAVE", value: ({ wave }) => wave + 1 },
        { title: "SELECTION", value: ({ wave }) => asked(data.rollout.waves?.[wave]) },
        { title: "ROBOTS", value: ({ total }) => total },
        { title: "OFFLINE", value: ({ offline }) => offline },
        { title: "INCOMPATIBLE", value: ({ incompatible }) => incompatible },
        { title: "INSTALLED", value: ({ already_installed }) => already_installed },
        { title: "TO SEND", value: ({ bytes_to_send }) => bytes(bytes_to_send) },
      ]);
    }
    if (data.robots.length > 0) {
      out.line();
      await out.table(data.robots.slice(0, ROBOTS_SHOWN_MAX), [
        { title: "ROBOT", value: ({ name }) => name },
        { title: "WAVE", value: ({ wave }) => wave + 1 },
        { title: "STATE", value: (robot) => stateOf(robot) },
        { title: "TO SEND", value: ({ bytes_to_send }) => bytes(bytes_to_send) },
        { title: "ID", value: ({ robot_id }) => robot_id },
      ]);
    }
    if (data.total > ROBOTS_SHOWN_MAX) out.line(`and ${data.total - ROBOTS_SHOWN_MAX} more: --json lists all`);
    out.note("Dry run: nothing was deployed.");
  });
}

function stateOf({ online, incompatible, already_installed }: DeploymentPlan["robots"][number]): string {
  if (incompatible) return "incompatible";
  if (already_installed) return "installed";
  return online ? "ready" : "offline";
}
