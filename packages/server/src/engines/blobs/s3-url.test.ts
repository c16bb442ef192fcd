import assert from "node:assert/strict";
import { test } from "node:test";
import { readS3Url } from "./s3-url.ts";

test("parses the bucket, prefix and options of an S3 URL", () => {
  assert.deepEqual(readS3Url("s3://robots/fleet/prod/?endpoint=http://10.0.0.1:9000&region=eu-central-1&path_style=1"), {
    bucket: "robots",
    prefix: "fleet/prod",
    endpoint: "http://10.0.0.1:9000",
    region: "eu-central-1",
    path_style: true,
  });
  assert.deepEqual(readS3Url("s3://my.robots"), {
    bucket: "my.robots",
    prefix: "",
    endpoint: undefined,
    region: undefined,
    path_style: false,
  });
});

test("refuses an invalid S3 URL with a one-line error that does not repeat it", () => {
  for (const [text, why] of [
    ["/var/secret-word", /^expected s3:\/\/bucket/],
    ["https://bucket/secret-word", /^expected s3:\/\/bucket/],
    ["s3://", /^the bucket/],
    ["s3://A_B/secret-word", /^the bucket/],
    ["s3://bucket:9000/secret-word", /^the bucket/],
    ["s3://key:secret-word@bucket", /AWS_SECRET_ACCESS_KEY/],
    ["s3://bucket/.hidden/secret-word", /^the prefix/],
    ["s3://bucket/a//secret-word", /^the prefix/],
    ["s3://bucket/secret%20word", /^the prefix/],
    ["s3://bucket#secret-word", /without a fragment/],
    ["s3://bucket?secret-word=1", /has an unknown parameter/],
    ["s3://bucket?region=a&region=secret-word", /parameter region twice/],
    ["s3://bucket?endpoint=secret-word", /^endpoint: expected/],
    ["s3://bucket?endpoint=https://key:secret-word@host", /^endpoint: expected/],
    ["s3://bucket?endpoint=ftp://secret-word", /^endpoint: expected/],
    ["s3://bucket?region=secret-word%20", /^region: expected/],
    ["s3://bucket?path_style=secret-word", /^path_style: expected/],
  ] as const) {
    assert.throws(
      () => readS3Url(text),
      (error) =>
        error instanceof Error && why.test(error.message) && !error.message.includes("secret-word") && !error.message.includes("\n"),
      text,
    );
  }
});
