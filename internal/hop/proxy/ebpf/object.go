package ebpf

import _ "embed"

// object is bpf/sockets.c, compiled by `make bpf`.
//
//go:embed zz_sockets.o
var object []byte
