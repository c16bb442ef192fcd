/** What was uploaded says that it is an image, and is none that could be given to a robot. The message completes "its archive is refused:". */
export class ImageRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ImageRefused";
  }
}
