"""Operations of the `lib` backend: calls of libcrypto in this process."""
