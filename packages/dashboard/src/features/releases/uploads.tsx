import type { Release } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk/browser";
import { Pause, Play, X } from "lucide-react";
import { useEffect, useState } from "react";
import { api } from "../../api/client.ts";
import { mayPass, refetchQueries } from "../../api/query-client.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Bytes,
  byteText,
  Card,
  Command,
  durationText,
  IconButton,
  LinkButton,
  NameLink,
  notifyDone,
  Progress,
  Section,
  shellLine,
} from "../../ui/index.ts";
import { createStore } from "../../ui/store.ts";
import { FileChooser, PageDrop, useDigest } from "./file-input.tsx";
import { addSample, rateOf, type Samples, secondsLeft } from "./rate.ts";

/** Time without progress after which the upload is shown as stalled. */
const QUIET_MS = 3_000;

/** The uploads of this browser tab, or of one release. Renders nothing without uploads. */
export function PushPanel({ release_id }: { release_id?: string }) {
  const pushes = usePushes().filter((push) => release_id === undefined || push.release_id === release_id);
  if (pushes.length === 0) return null;
  return (
    <section aria-label="Uploads" className="mb-4 space-y-2">
      {pushes.map((push) => (
        <PushCard key={push.release_id} push={push} />
      ))}
    </section>
  );
}

function PushCard({ push }: { push: Push }) {
  const { release_id, tag, stage, done_bytes, size } = push;
  return (
    <Card className="!py-3">
      <div className="mb-2 flex min-h-8 items-center justify-between gap-3">
        <NameLink to="/releases/$id" params={{ id: release_id }} name={tag} className="font-medium" />
        <div className="flex shrink-0 items-center gap-1">
          {stage === "done" && (
            <LinkButton to="/deployments/new" search={{ release: release_id }}>
              Deploy
            </LinkButton>
          )}
          {stage === "uploading" && (
            <Button icon={Pause} onClick={() => pausePush(release_id)}>
              Pause
            </Button>
          )}
          {(stage === "paused" || (stage === "failed" && mayPass(push.error))) && (
            <Button icon={Play} onClick={() => resumePush(release_id)}>
              Resume{" "}
            </Button>
          )}
          {stage !== "uploading" && <IconButton label={`Dismiss ${tag.slice(0, 40)}`} icon={X} onClick={() => dismissPush(release_id)} />}
        </div>
      </div>
      <Progress
        label={`Upload of ${tag.slice(0, 80)}`}
        total={size}
        parts={[{ value: done_bytes, tone: stage === "failed" ? "bad" : stage === "done" ? "ok" : "info", label: `of ${size} bytes` }]}
      />
      <p className="mt-1.5 flex flex-wrap gap-x-3 text-xs text-muted tabular-nums">
        <span>
          {byteText(done_bytes)} of {byteText(size)}
        </span>
        <Standing push={push} />
      </p>
      {stage === "failed" && <Failure error={push.error} />}
    </Card>
  );
}

function Standing({ push }: { push: Push }) {
  const { stage, samples, size, began_at_bytes = 0, done_bytes } = push;
  const now = useSeconds(stage === "uploading");
  if (stage === "done") return <span>verified</span>;
  if (stage === "paused") return <span>paused; uploaded data is kept for ten minutes</span>;
  if (stage === "failed") return null;
  const went_on = began_at_bytes > 0 && <span>resumed at {byteText(began_at_bytes)}</span>;
  const last = samples.at(-1);
  if (done_bytes === size && size > 0) return <span>verifying</span>;
  if (last === undefined || now - last.at_ms > QUIET_MS)
    return (
      <>
        {went_on}
        <span className="text-warn">server not responding; retrying automatically</span>
      </>
    );
  const rate = rateOf(samples);
  const left = secondsLeft(samples, size);
  return (
    <>
      {went_on}
      {rate !== undefined && <span>{byteText(rate)}/s</span>}
      {left !== undefined && <span>{durationText(Math.ceil(left))} left</span>}
    </>
  );
}

/** The current time by performance.now(), updated every second while `is_wanted`. */
function useSeconds(is_wanted: boolean): number {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    if (!is_wanted) return undefined;
    setNow(performance.now());
    const timer = setInterval(() => setNow(performance.now()), 1_000);
    return () => clearInterval(timer);
  }, [is_wanted]);
  return now;
}

function Failure({ error }: { error: unknown }) {
  const is_room = error instanceof ApiError && error.status === 413;
  return (
    <div role="alert" className="mt-2 space-y-1 text-bad [overflow-wrap:anywhere]">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {mayPass(error) && <p className="text-muted">Uploaded data is kept for ten minutes. You can resume the upload.</p>}
      {is_room && (
        <p className="text-muted">
          Delete unused releases; their storage is freed one day later. The server's administrator can raise the limit:{" "}
          <code className="font-mono text-xs">roamfleet serve --limit artifact_bytes_max=BYTES</code>
        </p>
      )}
    </div>
  );
}

/** An upload. It continues on other pages of the dashboard. Closing the dashboard stops it, and the server keeps the uploaded data. */
interface Push {
  release_id: string;
  tag: string;
  size: number;
  stage: "uploading" | "paused" | "done" | "failed";
  done_bytes: number;
  /** The offset at which this attempt started: earlier attempts uploaded the bytes before it. */
  began_at_bytes: number | undefined;
  samples: Samples;
  error?: unknown;
}

const pushes = createStore<readonly Push[]>([]);
const files = new Map<string, File>();
const running = new Map<string, AbortController>();

function put(release_id: string, change: Partial<Push>): void {
  pushes.set(pushes.get().map((push) => (push.release_id === release_id ? { ...push, ...change } : push)));
}

/** The uploads of this browser tab, newest first. */
const usePushes = pushes.use;

/** Uploads a file as the artifact of a release. Resumes an earlier upload. */
export function startPush({ id, tag, artifact_size }: Release, file: File): void {
  const begun: Push = {
    release_id: id,
    tag,
    size: artifact_size,
    stage: "uploading",
    done_bytes: 0,
    began_at_bytes: undefined,
    samples: [],
  };
  running.get(id)?.abort();
  files.set(id, file);
  pushes.set([begun, ...pushes.get().filter(({ release_id }) => release_id !== id)]);
  void run(id);
}

const resumePush = (release_id: string): void => void run(release_id);

/** Pauses an upload. The server keeps the uploaded data. */
function pausePush(release_id: string): void {
  running.get(release_id)?.abort();
  put(release_id, { stage: "paused" });
}

/** Removes an upload from the page; stops it if it is running. */
export function dismissPush(release_id: string): void {
  running.get(release_id)?.abort();
  files.delete(release_id);
  pushes.set(pushes.get().filter((push) => push.release_id !== release_id));
}

async function run(release_id: string): Promise<void> {
  const file = files.get(release_id);
  if (file === undefined) return;
  const controller = new AbortController();
  running.set(release_id, controller);
  put(release_id, { stage: "uploading", samples: [], began_at_bytes: undefined, error: undefined });
  warnBeforeLeaving();
  try {
    const { data } = await api.upload({
      release_id,
      file,
      signal: controller.signal,
      on_progress: (done) => note(release_id, done),
    });
    files.delete(release_id);
    put(release_id, { stage: "done", done_bytes: data.artifact_size });
    notifyDone(`${data.tag.slice(0, 80)} uploaded`);
  } catch (error) {
    if (!controller.signal.aborted) put(release_id, { stage: "failed", error });
  } finally {
    if (running.get(release_id) === controller) running.delete(release_id);
    warnBeforeLeaving();
    for (const name of ["listReleases", "getRelease"]) refetchQueries([name]);
  }
}

function note(release_id: string, done_bytes: number): void {
  const push = pushes.get().find((one) => one.release_id === release_id);
  if (push === undefined) return;
  put(release_id, {
    done_bytes,
    began_at_bytes: push.began_at_bytes ?? done_bytes,
    samples: addSample(push.samples, performance.now(), done_bytes),
  });
}

const ask = (event: BeforeUnloadEvent): void => event.preventDefault();

function warnBeforeLeaving(): void {
  if (running.size > 0) window.addEventListener("beforeunload", ask);
  else window.removeEventListener("beforeunload", ask);
}

/** Resumes the upload of a release whose artifact is missing. */
export function ContinueUpload({ release }: { release: Release }) {
  const may_push = useMay("operator");
  const is_under_way = usePushes().some(({ release_id }) => release_id === release.id);
  if (release.artifact_state !== "awaiting_upload" || is_under_way) return null;
  return (
    <Section title="Awaiting upload">
      <Card>
        <p className="mb-3">
          Deployments of this release wait for the upload. Data of an interrupted upload is kept for ten minutes: choose the same file to
          resume.
        </p>
        {may_push && <Chosen release={release} />}
        <Command>{shellLine("rf", "releases", "push", "FILE", "--tag", release.tag, "--kind", release.kind, "--app", release.app)}</Command>
      </Card>
    </Section>
  );
}

function Chosen({ release }: { release: Release }) {
  const { artifact_size, artifact_sha256 } = release;
  const [file, setFile] = useState<File>();
  // Compute the digest only of a file with the right size.
  const digest = useDigest(file?.size === artifact_size ? file : undefined);
  useEffect(() => {
    if (file !== undefined && digest.sha256 === artifact_sha256) startPush(release, file);
  }, [digest.sha256, file, artifact_sha256, release]);
  const problem =
    file === undefined
      ? undefined
      : file.size !== artifact_size
        ? `Wrong file: it has ${file.size} bytes, but the release has ${artifact_size} bytes.`
        : digest.error !== undefined
          ? `The file cannot be read: ${digest.error}`
          : digest.sha256 !== undefined && digest.sha256 !== artifact_sha256
            ? "Wrong file: it has the size of the release, but different content."
            : undefined;
  return (
    <div className="mb-3">
      <PageDrop onFile={setFile}>Drop the file to resume the upload</PageDrop>
      <FileChooser
        label="Choose file"
        hint={
          <>
            or drop it anywhere on this page. Size: <Bytes count={artifact_size} />
          </>
        }
        onFile={setFile}
      />
      {problem !== undefined && (
        <p role="alert" className="mt-2 text-bad">
          {problem}
        </p>
      )}
      {file !== undefined && problem === undefined && digest.sha256 === undefined && (
        <div className="mt-3">
          <Progress label="Reading file" total={file.size} parts={[{ value: digest.done_bytes, tone: "info", label: "read" }]} />
          <p className="mt-1 text-xs text-muted tabular-nums">
            Reading: {byteText(digest.done_bytes)} of {byteText(file.size)}
          </p>
        </div>
      )}
    </div>
  );
}
