import { fillPath, paths, shellEndText } from "@roamfleet/protocol/paths";
import type { ShellSession } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk/browser";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { api } from "../../api/client.ts";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  AnchorButton,
  Bytes,
  Card,
  Command,
  CopyText,
  Duration,
  EmptyState,
  KeyValue,
  LoadedPage,
  PageHeader,
  QueryState,
  Section,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import { parseCast } from "./asciicast.ts";
import { RecordingPlayer } from "./recording-player.tsx";

/** Maximum characters of a recording to play. Longer ones can be downloaded completely. */
const PLAYED_CHARACTERS_MAX = 32 * 1024 * 1024;

/** A shell session: its user and result, and for admins its recording. */
export function ShellSessionPage() {
  const { id } = useParams({ from: "/app/shells/$id" });
  const session = useQuery(query("getShellSession", { params: { id } }));
  return (
    <LoadedPage title="Shell session" query={session}>
      {(data) => <Session session={data} />}
    </LoadedPage>
  );
}

function Session({ session }: { session: ShellSession }) {
  // Name of the robot; undefined while loading, and if the robot no longer exists.
  const name = useQuery(query("getRobot", { params: { id: session.robot_id } })).data?.data.name;
  return (
    <>
      <PageHeader
        title={
          name === undefined ? (
            "Shell session"
          ) : (
            <>
              Shell on <Text>{name}</Text>
            </>
          )
        }
        label={name === undefined ? "Shell session" : `Shell on ${name}`}
        meta={<StatusBadge status={session.status} />}
      />
      <Recording session={session} />
      <div className="max-w-3xl">
        <Section title="Session">
          <Facts session={session} robot_name={name} />
        </Section>
        <Command>{`rf robots sessions play ${session.id} --speed 2 --max-idle 1`}</Command>
      </div>
    </>
  );
}

function Facts({ session, robot_name }: { session: ShellSession; robot_name: string | undefined }) {
  const { actor, ip, app, program, terminal, exit_code, reason, started_at, ended_at, output_bytes, recording } = session;
  return (
    <Card>
      <KeyValue
        items={{
          Robot: (
            <Link to="/robots/$id" params={{ id: session.robot_id }} className="text-accent underline">
              <Text>{robot_name ?? session.robot_id}</Text>
            </Link>
          ),
          User: <Text>{actor.name ?? actor.id ?? actor.type}</Text>,
          "IP address": <Text>{ip}</Text>,
          Started: <Time at={started_at} exact />,
          Ended: ended_at === null ? session.status === "open" ? "still open" : "unknown" : <Time at={ended_at} exact />,
          Duration: ended_at !== null && <Duration seconds={(Date.parse(ended_at) - Date.parse(started_at)) / 1_000} />,
          Command: app === null ? (program ?? "login shell") : `${program ?? "shell"} in ${app}`,
          Terminal: terminal ? "yes" : "no (raw bytes)",
          Result: exit_code === null ? (reason === null ? "—" : shellEndText(reason)) : `exit code ${exit_code}`,
          Output: <Bytes count={output_bytes} />,
          Recording: recording.status === "kept" ? <Bytes count={recording.bytes} /> : "deleted",
          ID: <CopyText label="ID" text={session.id} />,
        }}
      />
    </Card>
  );
}

/** Loads the recording up to the maximum. Each read is in the audit log, so it is loaded once and never refetched automatically. */
const recordingQuery = (id: string, key: string) =>
  queryOptions({
    queryKey: ["shellRecording", id, key],
    queryFn: async ({ signal }) => {
      const response = await api.request("GET", fillPath(paths.getShellRecording[1], { id }), { signal });
      if (!response.ok)
        throw new ApiError({ status: response.status, headers: response.headers, body: await response.json().catch(() => undefined) });
      const { text, is_whole } = await readText(response, PLAYED_CHARACTERS_MAX);
      return { cast: await parseCast(text), is_whole };
    },
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });

async function readText(response: Response, most: number): Promise<{ text: string; is_whole: boolean }> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const pieces: string[] = [];
  let length = 0;
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done || value === undefined) return { text: pieces.join(""), is_whole: true };
    pieces.push(value);
    length += value.length;
    if (length > most) {
      await reader?.cancel();
      return { text: pieces.join(""), is_whole: false };
    }
  }
}

function Recording({ session }: { session: ShellSession }) {
  const is_admin = useMay("admin");
  const { id, status, recording } = session;
  const read = useQuery({ ...recordingQuery(id, status), enabled: is_admin && recording.status === "kept" });
  if (!is_admin)
    return (
      <EmptyState title="Recordings are for admins">
        Shell output can contain secrets. Admins of the organization can play the recording here; each playback is in the audit log.
      </EmptyState>
    );
  if (recording.status !== "kept")
    return (
      <EmptyState title="Recording deleted">
        The server deletes recordings that are older than the age limit, and the oldest recordings when all recordings of the organization
        exceed the size limit. The session itself stays listed.
      </EmptyState>
    );
  return (
    <Section
      title="Recording"
      actions={
        <AnchorButton href={fillPath(paths.getShellRecording[1], { id })} download={`${id}.cast`} icon={Download}>
          Download recording
        </AnchorButton>
      }
    >
      <QueryState query={read} rows={10}>
        {({ cast, is_whole }) =>
          cast.events.length === 0 ? (
            <EmptyState title="No output">
              {status === "open" ? "The shell is still open. Reload the page to see new output." : "The shell ended without output."}
            </EmptyState>
          ) : (
            <>
              <RecordingPlayer cast={cast} />
              {!is_whole && (
                <p className="mt-2 text-warn">
                  The recording is too long for this page: only the beginning is shown. Download the recording to see all of it.
                </p>
              )}
            </>
          )
        }
      </QueryState>
    </Section>
  );
}
