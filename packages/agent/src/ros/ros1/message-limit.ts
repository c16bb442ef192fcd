/** The largest message that is read, with room for an uncompressed 4K image. Of a larger one only the size is reported. */
export const ROS1_MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
