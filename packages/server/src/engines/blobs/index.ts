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
