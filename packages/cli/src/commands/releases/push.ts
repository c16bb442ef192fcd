import path from "node:path";
import { defaultTag } from "@roamfleet/protocol/release-file";
import type { Body, Client } from "@roamfleet/sdk";
import { ApiError } from "@roamfleet/sdk";
import { type Artifact, digestFile, readManifest } from "../../artifact.ts";
import { type ArtifactContent, lookInside } from "../../artifact-content.ts";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { bytes } from "../../duration.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure, usage } from "../../failure.ts";
import { startProgress } from "../../progress.ts";
import { showRelease } from "../../show-release.ts";
import { signatureOf, type SignOptions, signOptions } from "../../sign-release.ts";
import { line } from "../../text.ts";

interface Options extends SignOptions {
  tag?: string;
  notes?: string;
  kind?: string;
  app?: string;
  manifest?: string;
  image?: string;
}

export const define: Define = (command, act) => {
  command
    .description("Create a release from a file and upload the file. Pushing the same file again is safe: stored data is not sent again.")
    .argument("[path]", "File to release; not needed with --image")
    .option("--tag <tag>", "Tag of the release (default: the file name without its extension)")
    .option("--notes <text>", "Release notes")
    .option(
      "--kind <kind>",
      "container_image, app_bundle, file, or a kind that your agents support (default: detected from the file, otherwise container_image)",
    )
    .option("--app <name>", "App of the release (default: main)")
    .option("--manifest <file>", "JSON or YAML file that defines how the app runs")
    .option("--image <ref>", "registry/name@sha256:… to run, instead of a file");
  signOptions(command).action(act<[string | undefined, Options]>(run));
  addExamples(command, [
    "rf releases push build/navigation-1.4.0.tar.gz --kind app_bundle",
    "docker save acme/nav:1.4.0 -o nav-1.4.0.tar && rf releases push nav-1.4.0.tar --manifest nav.yaml",
    "rf releases push --image ghcr.io/acme/nav@sha256:… --tag 1.4.0",
    "rf releases push navigation-1.5.0.tar.gz --kind app_bundle --sign release-key.pem",
  ]);
};

async function run(context: Context, file: string | undefined, options: Options): Promise<void> {
  const client = await context.client();
  const manifest = options.manifest === undefined ? undefined : await readManifest(options.manifest);
  const { artifact, tag } = await describe(context, file, options);
  const { notes, app, image } = options;
  const { kind, images } = await kindOf(context, file, artifact, options.kind);
  const described = { tag, notes, kind, app, image, manifest, artifact_sha256: artifact.sha256, artifact_size: artifact.size };
  const signature = await signatureOf(client, context.now(), { ...described, images }, options);
  const created = await create(context, client, { ...described, signature });
  const uploads = file !== undefined && created.data.artifact_state === "awaiting_upload";
  const release = uploads ? await upload(context, client, file, artifact, created.data.id) : created;
  await context.out.result(release, () => {
    if (!uploads && file !== undefined) context.out.note("The artifact is already stored: nothing was uploaded.");
    showRelease(context, release.data);
    context.out.line(line`\nDeploy it: rf deploy ${release.data.tag} --fleet <id>`);
  });
}

async function describe(context: Context, file: string | undefined, options: Options): Promise<{ artifact: Artifact; tag: string }> {
  if ((file === undefined) === (options.image === undefined)) {
    throw usage(file === undefined ? "nothing to push: pass the path of a file, or --image" : "a path and --image cannot be used together");
  }
  if (file !== undefined) {
    const progress = await startProgress(context.out, context.clock, "Reading", bytes);
    try {
      return {
        artifact: await digestFile(file, (done, total) => progress.update(done, total)),
        tag: options.tag ?? defaultTag(path.basename(file)),
      };
    } finally {
      progress.stop();
    }
  }
  const sha256 = /@sha256:([0-9a-f]{64})$/.exec(options.image ?? "")?.[1];
  if (sha256 === undefined) throw usage("--image takes registry/name@sha256:<64 hex digits>: a tag alone can point to another image later");
  if (options.tag === undefined) throw usage("--image needs --tag, because there is no file name to derive it from");
  return { artifact: { sha256, size: 0 }, tag: options.tag };
}

const KIND_DEFAULT = "container_image";

/** Determines the kind of a file and the images in it: --kind if given, otherwise the detected kind, otherwise the default. */
async function kindOf(
  context: Context,
  file: string | undefined,
  { size }: Artifact,
  said: string | undefined,
): Promise<{ kind: string; images: ArtifactContent["images"] }> {
  if (file === undefined || (said !== undefined && said !== KIND_DEFAULT)) return { kind: said ?? KIND_DEFAULT, images: [] };
  const content = await lookInside(file, size);
  const kind = said ?? content.kind ?? KIND_DEFAULT;
  const note = context.structured ? undefined : noteOf(file, said, content);
  if (note !== undefined) context.out.note(note);
  return { kind, images: kind === KIND_DEFAULT ? content.images : [] };
}

function noteOf(file: string, said: string | undefined, { kind, is_gzip }: ArtifactContent): string | undefined {
  if (said === undefined && kind === "app_bundle") return `${file} has a roamfleet.json: it is released as an app_bundle.`;
  if (kind === KIND_DEFAULT) return undefined;
  if (said !== undefined && kind === "app_bundle") return `${file} looks like an app bundle: did you mean --kind app_bundle?`;
  return is_gzip
    ? `${file} is compressed: if it is an image, robots download all of it each time. Uncompressed (\`gunzip\`), they download only missing layers.`
    : `${file} is not an image archive (docker save): robots will refuse it as ${KIND_DEFAULT}. Pass --kind for other content.`;
}

async function create(
  context: Context,
  client: Client,
  body: Parameters<Client["createRelease"]>[0]["body"],
): Promise<Body<"createRelease">> {
  try {
    return await client.createRelease({ body, idempotency_key: context.idempotencyKey() });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    const hints = [
      "A tag always refers to the same content: push with another --tag <tag>.",
      "If no robot has the release yet, `rf releases remove <tag>` frees the tag.",
    ];
    throw new Failure(EXIT.conflict, error.message, { hints, document: error.body, cause: error });
  }
}

async function upload(
  context: Context,
  client: Client,
  file: string,
  artifact: Artifact,
  release_id: string,
): Promise<Body<"createRelease">> {
  const signal = context.interruptible();
  const progress = await startProgress(context.out, context.clock, "Uploading", bytes);
  let done_bytes: number | undefined;
  const on_progress = (done: number): void => {
    if (done_bytes === undefined && done > 0 && !context.structured)
      context.out.note(`Resuming at ${bytes(done)} of ${bytes(artifact.size)}.`);
    done_bytes = done;
    progress.update(done, artifact.size);
  };
  try {
    return await client.upload({ release_id, file, size: artifact.size, on_progress, signal });
  } catch (error) {
    throw signal.aborted ? interrupted(done_bytes ?? 0, artifact.size) : brokenOff(context.failure(error), error);
  } finally {
    progress.stop();
  }
}

const KEPT = "Uploaded data is kept for ten minutes: run the same command to resume.";

const interrupted = (done: number, total: number): Failure =>
  new Failure(EXIT.interrupted, `interrupted at ${bytes(done)} of ${bytes(total)}`, { hints: [KEPT], bare: true });

function brokenOff({ exit_code, message, hints, document }: Failure, cause: unknown): Failure {
  if (!(cause instanceof ApiError) || cause.status >= 500)
    return new Failure(exit_code, message, { hints: [...hints, KEPT], document, cause });
  // The server discards the data of refused uploads.
  return new Failure(exit_code, message, { hints: cause.status === 413 ? [...hints, ...ROOM] : [...hints], document, cause });
}

const ROOM = [
  "Remove unused releases: rf releases remove <tag>. The space of their artifacts is freed a day later.",
  "The server's operator can raise the limit: roamfleet serve --limit artifact_bytes_max=<bytes>",
];
