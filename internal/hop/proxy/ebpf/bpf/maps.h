/* What the programs and podway share: the maps and the layout of what is in them. Addresses are 16 bytes in network
 * order, IPv4 as ::ffff:a.b.c.d, so that one layout holds both families and sockets that use either; ports are in
 * network order. The Go side is layout.go. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct addr {
	__u32 w[4];
};

/* A frontend: where a Service answers. list is 0 in keys of services; elsewhere it says which list of endpoints of the
 * port is meant. */
struct front {
	struct addr addr;
	__u16 port;
	__u8 proto;
	__u8 list;
};

enum { CLUSTER = 0, LOCAL = 1, SERVING = 2 };

struct endpoint {
	struct addr addr;
	__u16 port;
	__u16 zero;
};

enum { NODE_ONLY = 1 }; /* for sockets of the node's own network namespace alone */

struct service {
	struct front list; /* the list to choose from, named by the ClusterIP */
	__u32 count;
	__u32 affinity; /* seconds; 0 = none */
	__u32 flags;
};

struct slot {
	struct front list;
	__u32 number;
};

/* port 0 in to asks for the endpoint of the list that has the address. */
struct member {
	struct front list;
	struct endpoint to;
};

/* What a client keeps to. port and proto are 0 in the record that all ports of a Service share. */
struct client {
	__u64 netns;
	struct front service;
	__u32 zero;
};

struct stay {
	struct endpoint to;
	__u32 zero;
	__u64 seen; /* ns */
};

struct peer {
	struct endpoint to;
	struct front at;
};

/* A UDP socket that is connected to an endpoint. */
struct connection {
	__u64 netns;
	struct peer peer;
	struct front list;
	__u32 zero;
};

/* UDP without connection: what a socket sends to, and what it hears from. */
struct flow {
	__u64 socket;
	struct front at;
	__u32 zero;
};

struct answer {
	__u64 socket;
	struct endpoint from;
	__u32 zero;
};

struct node {
	__u64 netns; /* cookie of the node's own network namespace */
};

#define MAP(name_, type_, key_, value_, size_, flags_) \
	struct { \
		__uint(type, type_); \
		__type(key, key_); \
		__type(value, value_); \
		__uint(max_entries, size_); \
		__uint(map_flags, flags_); \
	} name_ SEC(".maps")

MAP(node, BPF_MAP_TYPE_ARRAY, __u32, struct node, 1, 0);
/* The sizes of these three are set when they are made. */
MAP(services, BPF_MAP_TYPE_HASH, struct front, struct service, 1, BPF_F_NO_PREALLOC);
MAP(slots, BPF_MAP_TYPE_HASH, struct slot, struct endpoint, 1, BPF_F_NO_PREALLOC);
MAP(members, BPF_MAP_TYPE_HASH, struct member, struct endpoint, 1, BPF_F_NO_PREALLOC);
/* These are filled by the programs. */
MAP(stays, BPF_MAP_TYPE_LRU_HASH, struct client, struct stay, 1 << 15, 0);
MAP(flows, BPF_MAP_TYPE_LRU_HASH, struct flow, struct stay, 1 << 15, 0);
MAP(answers, BPF_MAP_TYPE_LRU_HASH, struct answer, struct front, 1 << 15, 0);
MAP(connections, BPF_MAP_TYPE_LRU_HASH, __u64, struct connection, 1 << 15, 0);
MAP(peers, BPF_MAP_TYPE_SK_STORAGE, int, struct peer, 0, BPF_F_NO_PREALLOC);
