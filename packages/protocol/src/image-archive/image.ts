/** A part of an image, and where in its archive it lies: its bytes are never stored a second time. */
export interface ImagePart {
  sha256: string;
  /** bytes */
  size: number;
  /** Of its first byte in the archive. */
  start: number;
}

export interface ImageLayer extends ImagePart {
  /** SHA-256 of the layer's plain tar, lower-case hex. */
  diff_id: string;
}

/** An image as its archive describes it, every digest checked against the bytes. */
export interface Image {
  /** `os/architecture` or `os/architecture/variant`; "" when nothing tells. */
  platform: string;
  config: ImagePart;
  /** From the lowest to the topmost. */
  layers: ImageLayer[];
}
