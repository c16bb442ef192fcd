export {
  BlobError,
  type BlobErrorCode,
  type BlobRange,
  type Blobs,
  type BlobStat,
  type Completed,
  type ReceiveOptions,
  type Staged,
} from "./blobs.ts";
export { directoryBlobs } from "./directory-blobs.ts";
export { probeS3, type S3Seen, type S3Step } from "./probe-s3.ts";
export { s3Blobs } from "./s3-blobs.ts";
export { S3Error } from "./s3-error.ts";
