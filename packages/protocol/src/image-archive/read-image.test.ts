import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import type { Image } from "./image-files.ts";
import { ImageRefused, readImages } from "./read-image.ts";
import { configOf, descriptor, dockerArchive, dockerEntries, json, ociEntries, pax, type TarEntry, tarOf } from "./testing/archives.ts";

const LIMIT = { timeout: 120_000 };
const digest = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** Reads the archive in chunks of this size. */
const read = (archive: Buffer, chunk = 1_000): Promise<Image[] | undefined> =>
  readImages(
    async (range) => Readable.from(pieces(range === undefined ? archive : archive.subarray(range.start, range.end + 1), chunk)),
    archive.length,
  );

function* pieces(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Asserts that the bytes of each part in the archive have the stated digest. */
function holds(archive: Buffer, images: readonly Image[] | undefined): void {
  for (const { config, layers } of images ?? []) {
    for (const { start, size, sha256 } of [config, ...layers]) assert.equal(digest(archive.subarray(start, start + size)), sha256);
  }
}

const LAYERS = [Buffer.from("base layer"), Buffer.alloc(70_000, "middle"), Buffer.from("top")];

test("locates the config and layers of a docker archive", LIMIT, async () => {
  const archive = dockerArchive(LAYERS);
  const images = await read(archive);
  holds(archive, images);
  assert.deepEqual(
    images?.map(({ platform, config, layers }) => [
      platform,
      config.size,
      layers.map(({ sha256, size, diff_id }) => [sha256, size, diff_id]),
    ]),
    [["linux/amd64", configOf(LAYERS).length, LAYERS.map((layer) => [digest(layer), layer.length, digest(layer)])]],
  );
});

test("accepts an image without layers and an image with a repeated layer", LIMIT, async () => {
  assert.deepEqual((await read(dockerArchive([])))?.[0]?.layers, []);
  const twice = await read(dockerArchive([LAYERS[0]!, LAYERS[0]!]));
  assert.deepEqual(
    twice?.[0]?.layers.map(({ sha256 }) => sha256),
    [digest(LAYERS[0]!), digest(LAYERS[0]!)],
  );
});

test("resolves a layer that is a link to another layer", LIMIT, async () => {
  const layer = LAYERS[0]!;
  const config = configOf([layer, layer]);
  const manifest = json([{ Config: "c.json", Layers: ["a/layer.tar", "b/layer.tar"] }]);
  for (const [type, link] of [
    ["2", "../a/layer.tar"],
    ["1", "a/layer.tar"],
  ] as const) {
    const archive = tarOf([
      { name: "a/layer.tar", content: layer },
      { name: "b/layer.tar", type, link },
      { name: "c.json", content: config },
      { name: "manifest.json", content: manifest },
    ]);
    assert.equal((await read(archive))?.[0]?.layers[1]?.sha256, digest(layer));
  }
});

test("reads the compressed layers of an OCI archive with the digests of their unpacked content", LIMIT, async () => {
  for (const nested of [false, true]) {
    const archive = tarOf(ociEntries([{ layers: LAYERS, platform: { os: "linux", architecture: "arm64" } }], nested));
    const images = await read(archive);
    holds(archive, images);
    assert.deepEqual(
      images?.map(({ platform, layers }) => [platform, layers.map(({ sha256, diff_id }) => [sha256, diff_id])]),
      [["linux/arm64", LAYERS.map((layer) => [digest(gzipSync(layer)), digest(layer)])]],
    );
  }
});

test("returns two images for an OCI archive with two platforms", LIMIT, async () => {
  const archive = tarOf(
    ociEntries([
      { layers: LAYERS, platform: { os: "linux", architecture: "amd64" } },
      { layers: LAYERS.slice(0, 2), platform: { os: "linux", architecture: "arm64" } },
    ]),
  );
  const images = await read(archive);
  holds(archive, images);
  assert.deepEqual(
    images?.map(({ platform, layers }) => [platform, layers.length]),
    [
      ["linux/amd64", 3],
      ["linux/arm64", 2],
    ],
  );
});

test("reads the name and size of a tar entry from an extended header", LIMIT, async () => {
  const [layer, ...rest] = dockerEntries([LAYERS[1]!]).filter(({ type }) => type === undefined);
  const long: TarEntry[] = [
    { name: "././@LongLink", type: "L", content: "manifest.json\0" },
    { ...rest.at(-1)!, name: "cut" },
  ];
  const archive = tarOf([
    layer!,
    pax({ path: rest[0]!.name, mtime: "1.5", size: String(rest[0]!.content!.length) }),
    { ...rest[0]!, name: "x" },
    ...rest.slice(1, -1),
    ...long,
  ]);
  assert.equal((await read(archive))?.[0]?.layers.length, 1);
});

const config = configOf(LAYERS);
const docker = dockerEntries(LAYERS);
const oci = ociEntries([{ layers: LAYERS }], false);
const without = (entries: readonly TarEntry[], name: RegExp): TarEntry[] => entries.filter((entry) => !name.test(entry.name));
const manifestOf = (value: unknown): TarEntry[] => [...without(docker, /^manifest/), { name: "manifest.json", content: json(value) }];
const indexOf = (...manifests: unknown[]): TarEntry[] => [...without(oci, /^index/), { name: "index.json", content: json({ manifests }) }];
const blobOf = (content: Buffer): TarEntry => ({ name: `blobs/sha256/${digest(content)}`, content });
/** Builds an index of nested levels, each of which lists the next level `times` times. */
function deep(levels: number, times: number): TarEntry[] {
  let inner = json({ manifests: [], level: 0 });
  const blobs = [blobOf(inner)];
  for (let level = 1; level < levels; level += 1) {
    inner = json({ manifests: Array.from({ length: times }, () => descriptor(inner)), level });
    blobs.push(blobOf(inner));
  }
  return [...blobs, ...indexOf(...Array.from({ length: times }, () => descriptor(inner)))];
}

const hostile: readonly [string, Buffer, RegExp][] = [
  ["neither a manifest nor an index", tarOf([{ name: "roamfleet.json", content: "{}" }]), /neither a manifest\.json .* nor an index\.json/],
  ["a name that leads outside the archive", tarOf([{ name: "../manifest.json", content: "[]" }]), /leads outside/],
  ["an absolute name", tarOf([{ name: "/etc/passwd", content: "x" }]), /leads outside/],
  ["a name that leads outside the archive, in an extended header", tarOf([pax({ path: "a/../../x" }), { name: "a" }]), /leads outside/],
  ["a link that leads outside the archive", tarOf([...docker, { name: "a/b", type: "2", link: "../../x" }]), /leads outside/],
  ["a link with an absolute target", tarOf([...docker, { name: "a", type: "2", link: "/etc/shadow" }]), /leads outside/],
  [
    "circular links",
    tarOf([
      { name: "manifest.json", type: "2", link: "b" },
      { name: "b", type: "2", link: "manifest.json" },
    ]),
    /has no file "manifest\.json"/,
  ],
  ["a device", tarOf([...docker, { name: "dev", type: "3" }]), /neither a file nor a directory/],
  ["a file with holes", tarOf([pax({ "GNU.sparse.major": "1" }), { name: "a" }]), /holes/],
  ["an entry that is larger than the archive", tarOf([...docker, { name: "big", content: "x", size: 8 ** 10 }]), /larger than the archive/],
  [
    "an extended header as large as a layer",
    tarOf([{ name: "x", type: "x", content: Buffer.alloc(70_000) }]),
    /extended header has 70000 bytes/,
  ],
  ["a truncated end", tarOf(docker).subarray(0, 5_000), /truncated|larger than the archive/],
  ["too many entries", tarOf(Array.from({ length: 10_001 }, (_, index) => ({ name: `f${index}` }))), /more than 10000 entries/],
  ["a name with two contents", tarOf([...docker, { name: "manifest.json", content: "[]" }]), /occurs twice/],
  ["a blob with a wrong digest", tarOf([...oci, { name: `blobs/sha256/${"a".repeat(64)}`, content: "x" }]), /digest of .* does not match/],
  ["a config with a wrong digest", tarOf([...docker, { name: `${"a".repeat(64)}.json`, content: "{}" }]), /digest of .* does not match/],
  [
    "a layer with a wrong digest",
    tarOf(docker.map((entry) => (entry.content === LAYERS[2] ? { ...entry, content: "changed" } : entry))),
    /digest of layer 3 does not match/,
  ],
  ["several images", tarOf(manifestOf([{}, {}])), /contains 2 images/],
  ["a manifest that is not JSON", tarOf([{ name: "manifest.json", content: "{" }]), /is not valid JSON/],
  ["a manifest that is an object", tarOf(manifestOf({})), /manifest\.json is not a list/],
  ["a missing config", tarOf(manifestOf([{ Config: "nowhere.json", Layers: [] }])), /has no file "nowhere\.json"/],
  ["a config without a name", tarOf(manifestOf([{ Config: 1, Layers: [] }])), /Config is not a file name/],
  [
    "fewer layers than the config lists",
    tarOf(manifestOf([{ Config: `${digest(config)}.json`, Layers: [] }])),
    /0 layers but its config lists 3/,
  ],
  [
    "a config without digests",
    tarOf([{ name: "c", content: "{}" }, ...manifestOf([{ Config: "c", Layers: [] }])]),
    /rootfs of the image's config is not an object/,
  ],
  ["an index without images", tarOf(indexOf()), /lists no image/],
  ["an index with a missing manifest", tarOf(indexOf({ digest: `sha256:${"b".repeat(64)}`, size: 1 })), /has no file/],
  ["a digest that is a path", tarOf(indexOf({ digest: "sha256:../../../etc/passwd", size: 1 })), /no sha256 digest/],
  [
    "a descriptor with a wrong size",
    tarOf(
      oci.map((entry) =>
        entry.name === "index.json" ? { ...entry, content: Buffer.from(String(entry.content).replace(/"size":\d+/, '"size":1')) } : entry,
      ),
    ),
    /bytes, not 1$/,
  ],
  ["an index that is nested too deeply", tarOf(deep(6, 1)), /nested too deeply/],
  ["an index with too many documents", tarOf(deep(3, 200)), /more than 400 documents/],
  [
    "an unsupported OCI version",
    tarOf([...without(oci, /oci-layout/), { name: "oci-layout", content: '{"imageLayoutVersion":"9"}' }]),
    /version 1\.0\.0/,
  ],
];

for (const [what, archive, message] of hostile) {
  test(`rejects an image archive with ${what}`, LIMIT, async () => {
    await assert.rejects(read(archive), (error: unknown) => {
      assert.ok(error instanceof ImageRefused, String(error));
      assert.match(error.message, message);
      return true;
    });
  });
}

test("returns undefined for text, zeros, gzip data and empty input", LIMIT, async () => {
  for (const bytes of [
    Buffer.from("a text"),
    Buffer.alloc(5_000),
    gzipSync(dockerArchive(LAYERS)),
    Buffer.alloc(0),
    Buffer.alloc(600, "x"),
  ])
    assert.equal(await read(bytes), undefined);
});

test("reads any image archive in chunks of any size", LIMIT, async () => {
  const layers = fc.array(
    fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from([0x61, ...bytes])),
    { maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(layers, fc.boolean(), fc.integer({ min: 1, max: 3_000 }), async (own, is_oci, chunk) => {
      const archive = is_oci ? tarOf(ociEntries([{ layers: own }], false)) : dockerArchive(own);
      const images = await read(archive, chunk);
      holds(archive, images);
      assert.deepEqual(
        images?.map((image) => image.layers.map(({ diff_id }) => diff_id)),
        [own.map(digest)],
      );
    }),
    { numRuns: 150 },
  );
});

test("rejects a corrupted image archive or returns only parts with correct digests", LIMIT, async () => {
  const archives = [dockerArchive(LAYERS.slice(0, 2)), tarOf(oci)];
  const change = fc.record({ at: fc.nat(), to: fc.integer({ min: 0, max: 255 }) });
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(fc.nat(1), fc.array(change, { maxLength: 4 }), fc.option(fc.nat()), async (which, changes, cut) => {
      const whole = Buffer.from(archives[which]!);
      for (const { at, to } of changes) whole[at % whole.length] = to;
      const archive = cut === null ? whole : whole.subarray(0, cut % whole.length);
      try {
        holds(archive, await read(archive));
      } catch (error) {
        assert.ok(error instanceof ImageRefused, String(error));
        refused += 1;
      }
    }),
    { numRuns: 800 },
  );
  assert.ok(refused > 50, `only ${refused} were refused`);
});
