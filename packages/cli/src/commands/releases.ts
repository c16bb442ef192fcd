import path from "node:path";
import { isId } from "@roamfleet/protocol";
import { defaultTag } from "@roamfleet/protocol/release-file";
import { RELEASE_KINDS } from "@roamfleet/protocol/states";
import { parseReleaseStatement, parseSignedText } from "@roamfleet/protocol/signatures";
import { ApiError, type Body, type Client } from "@roamfleet/sdk";
import { type Artifact, type ArtifactContent, digestFile, detectContent, readManifest } from "../artifact.ts";
import { defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes, relative } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { startProgress } from "../progress.ts";
import { signatureOf, signOptions, type SignOptions } from "../signing-key.ts";
import { labelsText, line } from "../text.ts";

export const list = defineCommand<[LimitOption & { app?: string; kind?: string; search?: string }]>(
  undefined,
  (command) =>
    limitOption(command)
      .option("--app <name>", "Only releases of this app")
      .option("--kind <kind>", "Only releases of this kind")
      .option("--search <text>", "Only releases whose tag contains this text, ignoring case"),
  (context, { limit, app, kind, search }) =>
    printList(context, "listReleases", {
      limit,
      query: { app, kind, q: search },
      no_match: "No matching releases.",
      empty: "No releases yet. Push one: rf releases push <path>",
      columns: [
        { title: "TAG", value: ({ tag }) => tag },
        { title: "APP", value: (release) => release.app },
        { title: "KIND", value: (release) => release.kind },
        { title: "SIZE", value: ({ artifact_size }) => bytes(artifact_size) },
        { title: "ARTIFACT", value: ({ artifact_state }) => context.out.status(artifact_state) },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
        { title: "ID", value: ({ id }) => id },
        { title: "SHA-256", value: ({ artifact_sha256 }) => artifact_sha256, wide: true },
        { title: "BY", value: ({ created_by }) => created_by ?? "–", wide: true },
        { title: "NOTES", value: ({ notes }) => notes ?? "–", wide: true },
      ],
    }),
);

export const show = requestCommand(
  undefined,
  (command) => command.argument("<release>", "Tag or id of the release"),
  (client, _, release: string) => findRelease(client, release),
  ({ data }, context) => showRelease(context, data),
);

export const remove = requestCommand(
  "Delete a release that is not in use: no robot runs it, will run it or keeps it for a rollback, and it is not a fleet's current release. Its tag can be reused immediately; the space of its artifact is freed a day later.",
  (command) => command.argument("<release>", "Tag or id of the release"),
  async (client, _, release: string) => client.deleteRelease({ params: { id: (await findRelease(client, release)).data.id } }),
  ({ data }) => line`Removed release ${data.tag}: ${data.id}`,
  ["rf releases remove 1.4.0-rc1"],
);

/** Returns the release with a tag or id. Throws a Failure if there is none. */
async function findRelease(client: Client, release: string): Promise<Body<"getRelease">> {
  if (isId("release", release)) return client.getRelease({ params: { id: release } });
  const { items } = await client.listReleases({ query: { tag: release, limit: 1 } });
  // The list has fewer fields than the release route, so the release is read again by its id.
  if (items[0] !== undefined) return client.getRelease({ params: { id: items[0].id } });
  throw new Failure(EXIT.not_found, `release ${release} does not exist`, { hints: ["To see the releases, run `rf releases list`."] });
}

/** Formats the signature: key, version, expiry; undefined if the release is unsigned. */
function signatureText(context: Context, signature: unknown): string | undefined {
  const signed = parseSignedText(signature);
  const statement = signed && parseReleaseStatement(signed.text);
  if (signed === undefined || statement === undefined) return undefined;
  const { version, minimum_version, expires_at, robots, labels } = statement;
  const parts = [`by key ${signed.key_id}`, `version ${version}`, `expires ${relative(expires_at, context.now())}`];
  if (minimum_version > 0) parts.push(`withdraws versions below ${minimum_version}`);
  if (robots !== null) parts.push(`for robots ${robots.join(", ")}`);
  if (labels !== null) parts.push(`for robots with ${labelsText(labels)}`);
  return parts.join(", ");
}

/** Formats the number and the total size of each image's layers. A robot that has none of the layers downloads this size. */
const layersText = (images: NonNullable<Body<"getRelease">["data"]["images"]>): string =>
  images
    .map(({ platform, layers }) => {
      const whole = layers.reduce((sum, { size }) => sum + size, 0);
      return `${layers.length}, ${bytes(whole)} in total${platform === "" ? "" : ` for ${platform}`}`;
    })
    .join("; ");

export function showRelease(context: Context, release: Body<"getRelease">["data"]): void {
  const { out } = context;
  out.details([
    ["ID", release.id],
    ["Tag", release.tag],
    ["App", release.app],
    ["Kind", release.kind],
    ["Notes", release.notes ?? undefined],
    ["Artifact", out.status(release.artifact_state)],
    ["Image", release.image ?? undefined],
    [
      "Size",
      release.artifact_size < 1_000 ? bytes(release.artifact_size) : `${bytes(release.artifact_size)} (${release.artifact_size} bytes)`,
    ],
    ["SHA-256", release.artifact_sha256],
    ["Layers", release.images === undefined ? undefined : layersText(release.images)],
    ["Manifest", release.manifest == null ? undefined : JSON.stringify(release.manifest)],
    ["Signed", signatureText(context, release.signature)],
    [
      "Created",
      `${relative(release.created_at, context.now())}${release.created_by === null ? "" : ` by ${release.created_by.name ?? release.created_by.type}`}`,
    ],
  ]);
}

interface Options extends SignOptions {
  tag?: string;
  notes?: string;
  kind?: string;
  app?: string;
  manifest?: string;
  image?: string;
}

export const push = defineCommand<[string | undefined, Options]>(
  "Create a release from a file and upload the file. Pushing the same file again is safe: stored data is not sent again.",
  (command) => {
    command
      .argument("[path]", "File to release; not needed with --image")
      .option("--tag <tag>", "Tag of the release (default: the file name without its extension)")
      .option("--notes <text>", "Release notes")
      .option(
        "--kind <kind>",
        `${RELEASE_KINDS.join(", ")}, or a kind that your agents support (default: detected from the file, otherwise container_image)`,
      )
      .option("--app <name>", "App of the release (default: main)")
      .option("--manifest <file>", "JSON or YAML file that defines how the app runs")
      .option("--image <ref>", "Image that robots pull from a registry, instead of a file, as registry/name@sha256:…");
    signOptions(command);
  },
  async (context, file, options) => {
    const client = await context.client();
    const manifest = options.manifest === undefined ? undefined : await readManifest(options.manifest);
    const { artifact, tag } = await describe(context, file, options);
    const { notes, app, image } = options;
    const { kind, images } = await kindOf(context, file, artifact, options.kind);
    const described = { tag, notes, kind, app, image, manifest, artifact_sha256: artifact.sha256, artifact_size: artifact.size };
    const signature = await signatureOf(client, context.now(), { ...described, images }, options);
    const created = await createRelease(context, client, { ...described, signature }, TAG_IS_USED);
    const uploads = file !== undefined && created.data.artifact_state === "awaiting_upload";
    const release = uploads ? await upload(context, client, file, artifact, created.data.id) : created;
    await context.out.result(release, () => {
      if (!uploads && file !== undefined) context.out.note("The artifact is already stored: nothing was uploaded.");
      showRelease(context, release.data);
      context.out.line(line`\nDeploy it: rf deploy ${release.data.tag} --fleet <id>`);
    });
  },
  [
    "rf releases push build/navigation-1.4.0.tar.gz --kind app_bundle",
    "docker save acme/nav:1.4.0 -o nav-1.4.0.tar && rf releases push nav-1.4.0.tar --manifest nav.yaml",
    "rf releases push --image ghcr.io/acme/nav@sha256:… --tag 1.4.0",
    "rf releases push robot-os-2026.11.raucb --kind os_image --app os",
    "rf releases push navigation-1.5.0.tar.gz --kind app_bundle --sign release-key.pem",
  ],
);

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

/** Returns the kind of a file and the images in it. The kind is --kind if given, otherwise the detected kind, otherwise the default. */
async function kindOf(
  context: Context,
  file: string | undefined,
  { size }: Artifact,
  said: string | undefined,
): Promise<{ kind: string; images: ArtifactContent["images"] }> {
  if (file === undefined || (said !== undefined && said !== KIND_DEFAULT)) return { kind: said ?? KIND_DEFAULT, images: [] };
  const content = await detectContent(file, size);
  const kind = said ?? content.kind ?? KIND_DEFAULT;
  const note = context.structured ? undefined : noteOf(file, said, content);
  if (note !== undefined) context.out.note(note);
  return { kind, images: kind === KIND_DEFAULT ? content.images : [] };
}

function noteOf(file: string, said: string | undefined, { kind, is_gzip }: ArtifactContent): string | undefined {
  if (said === undefined && kind === "app_bundle") return `${file} contains a roamfleet.json, so it is released as an app_bundle.`;
  if (said === undefined && kind === "os_image") return `${file} is a squashfs image, like RAUC bundles, so it is released as an os_image.`;
  if (kind === KIND_DEFAULT) return undefined;
  if (said !== undefined && kind === "os_image") return `${file} looks like a RAUC bundle: did you mean --kind os_image?`;
  if (said !== undefined && kind === "app_bundle") return `${file} looks like an app bundle: did you mean --kind app_bundle?`;
  return is_gzip
    ? `${file} is compressed. If it is an image, robots download the whole file each time. Decompress the file with \`gunzip\` to let robots download only missing layers.`
    : `${file} is not an image archive (docker save), so robots will refuse it as a ${KIND_DEFAULT}. Pass --kind for other content.`;
}

const TAG_IS_USED = [
  "A tag always refers to the same content: push with another --tag <tag>.",
  "If the existing release is not in use, `rf releases remove <tag>` frees the tag.",
];

/** Creates a release. Throws a Failure with these hints if its tag is used for other content. */
export async function createRelease(
  context: Context,
  client: Client,
  body: Parameters<Client["createRelease"]>[0]["body"],
  hints: string[],
): Promise<Body<"createRelease">> {
  try {
    return await client.createRelease({ body, idempotency_key: context.idempotencyKey() });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    throw new Failure(EXIT.conflict, error.message, { hints, document: error.body, cause: error });
  }
}

/** Uploads the artifact of a release, or resumes its upload. */
export async function upload(
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
  // The server discards the data of an upload that it refuses, so there is nothing to resume.
  return new Failure(exit_code, message, { hints: cause.status === 413 ? [...hints, ...ROOM] : [...hints], document, cause });
}

const ROOM = [
  "Remove unused releases: rf releases remove <tag>. Their storage is freed one day later.",
  "The server's operator can raise the limit: roamfleet serve --limit artifact_bytes_max=<bytes>",
];
