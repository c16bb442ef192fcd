/** The largest message that is read, an uncompressed 4K image with room to spare; of a larger one only its size is told. */
export const ROS1_MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
