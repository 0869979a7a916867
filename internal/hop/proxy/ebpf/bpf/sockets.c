/* Connects sockets that ask for a Service's address to one of its endpoints, and tells them afterwards that they talk to
 * the Service. What is not in the maps goes on as it is, for the packets' rules to decide. */
#include <linux/in.h>
#include <bpf/bpf_endian.h>

#include "maps.h"

#define SECOND 1000000000ULL
#define IDLE (120 * SECOND) /* after which connection tracking, too, would forget a UDP flow */

static __always_inline int same_addr(const struct addr *a, const struct addr *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3];
}

static __always_inline int same(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && same_addr(&a->addr, &b->addr);
}

/* read4 and read6 take the address that the caller gave or is to be told. */
static __always_inline void read4(const struct bpf_sock_addr *ctx, struct addr *a, __u16 *port)
{
	a->w[0] = a->w[1] = 0;
	a->w[2] = bpf_htonl(0xffff);
	a->w[3] = ctx->user_ip4;
	*port = ctx->user_port;
}

static __always_inline void read6(const struct bpf_sock_addr *ctx, struct addr *a, __u16 *port)
{
	a->w[0] = ctx->user_ip6[0];
	a->w[1] = ctx->user_ip6[1];
	a->w[2] = ctx->user_ip6[2];
	a->w[3] = ctx->user_ip6[3];
	*port = ctx->user_port;
}

static __always_inline void write4(struct bpf_sock_addr *ctx, const struct addr *a, __u16 port)
{
	ctx->user_ip4 = a->w[3];
	ctx->user_port = port;
}

static __always_inline void write6(struct bpf_sock_addr *ctx, const struct addr *a, __u16 port)
{
	ctx->user_ip6[0] = a->w[0];
	ctx->user_ip6[1] = a->w[1];
	ctx->user_ip6[2] = a->w[2];
	ctx->user_ip6[3] = a->w[3];
	ctx->user_port = port;
}

/* A socket bound to a loopback address can reach nothing else: its packets need another source on the way. */
static __always_inline int loopback4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return sk && (bpf_ntohl(sk->src_ip4) >> 24) == 127;
}

static __always_inline int loopback6(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (!sk)
		return 0;
	return !sk->src_ip6[0] && !sk->src_ip6[1] &&
	       ((!sk->src_ip6[2] && sk->src_ip6[3] == bpf_htonl(1)) ||
		(sk->src_ip6[2] == bpf_htonl(0xffff) && (bpf_ntohl(sk->src_ip6[3]) >> 24) == 127));
}

static __always_inline struct service *find(struct bpf_sock_addr *ctx, const struct front *at)
{
	struct service *s = bpf_map_lookup_elem(&services, at);
	struct node *n;
	__u32 zero = 0;

	if (!s || !(s->flags & NODE_ONLY))
		return s;
	n = bpf_map_lookup_elem(&node, &zero);
	return n && n->netns == bpf_get_netns_cookie(ctx) ? s : 0;
}

static __always_inline struct endpoint *member_of(const struct front *list, const struct endpoint *to)
{
	struct member k = { .list = *list, .to = *to };

	return bpf_map_lookup_elem(&members, &k);
}

/* remembered finds the endpoint that the client had last at this port (1) or, when the list has its address, at another
 * port of the Service (2). */
static __always_inline int remembered(__u64 client, const struct service *s, struct endpoint *to)
{
	struct client k = { .netns = client, .service = s->list };
	struct stay *own, *shared;
	struct endpoint *e, ask = {};
	__u64 now = bpf_ktime_get_ns(), keep = s->affinity * SECOND;

	k.service.list = 0;
	own = bpf_map_lookup_elem(&stays, &k);
	k.service.port = 0;
	k.service.proto = 0;
	shared = bpf_map_lookup_elem(&stays, &k);
	if (own && now - own->seen < keep) {
		*to = own->to;
		e = member_of(&s->list, to);
		if (e) {
			own->seen = now;
			if (shared && same_addr(&shared->to.addr, &to->addr))
				shared->seen = now;
			return 1;
		}
	}
	if (!shared || now - shared->seen >= keep)
		return 0;
	ask.addr = shared->to.addr;
	e = member_of(&s->list, &ask);
	if (!e)
		return 0;
	*to = *e;
	return 2;
}

static __always_inline void remember(__u64 client, const struct service *s, const struct endpoint *to)
{
	struct client k = { .netns = client, .service = s->list };
	struct stay v = { .to = *to, .seen = bpf_ktime_get_ns() };

	k.service.list = 0;
	bpf_map_update_elem(&stays, &k, &v, BPF_ANY);
	k.service.port = 0;
	k.service.proto = 0;
	bpf_map_update_elem(&stays, &k, &v, BPF_ANY);
}

/* choose picks an endpoint. It fails for a moment in which the list changes; the packets' rules take over then. */
static __always_inline int choose(struct bpf_sock_addr *ctx, const struct service *s, struct endpoint *to)
{
	struct slot k = { .list = s->list, .number = bpf_get_prandom_u32() % s->count };
	struct endpoint *e;
	__u64 client = 0;

	if (s->affinity) {
		client = bpf_get_netns_cookie(ctx);
		switch (remembered(client, s, to)) {
		case 2:
			remember(client, s, to);
			return 1;
		case 1:
			return 1;
		}
	}
	e = bpf_map_lookup_elem(&slots, &k);
	if (!e)
		return 0;
	*to = *e;
	if (s->affinity)
		remember(client, s, to);
	return 1;
}

/* connected remembers what a socket asked for and what it got. */
static __always_inline int connected(struct bpf_sock_addr *ctx, const struct front *at, const struct service *s,
				     const struct endpoint *to)
{
	struct peer p = { .to = *to, .at = *at }, *have;
	struct connection c = { .peer = p, .list = s->list };
	__u64 socket;

	have = bpf_sk_storage_get(&peers, ctx->sk, &p, BPF_SK_STORAGE_GET_F_CREATE);
	if (!have)
		return 0;
	*have = p;
	if (at->proto == IPPROTO_UDP) {
		c.netns = bpf_get_netns_cookie(ctx);
		socket = bpf_get_socket_cookie(ctx);
		bpf_map_update_elem(&connections, &socket, &c, BPF_ANY);
	}
	return 1;
}

static __always_inline int connect_to(struct bpf_sock_addr *ctx, struct front *at, struct endpoint *to)
{
	struct service *s = find(ctx, at);
	__u64 socket;

	if (s && choose(ctx, s, to))
		return connected(ctx, at, s, to);
	if (!bpf_sk_storage_delete(&peers, ctx->sk) && at->proto == IPPROTO_UDP) {
		socket = bpf_get_socket_cookie(ctx);
		bpf_map_delete_elem(&connections, &socket);
	}
	return 0;
}

/* send_to keeps a socket's datagrams to one Service with one endpoint as long as that serves, as connection tracking
 * does: protocols over UDP have conversations too. */
static __always_inline int send_to(struct bpf_sock_addr *ctx, struct front *at, struct endpoint *to)
{
	struct service *s = find(ctx, at);
	struct answer a = { .socket = bpf_get_socket_cookie(ctx) };
	struct flow f = { .socket = a.socket, .at = *at };
	struct stay *have, now = { .seen = bpf_ktime_get_ns() };
	struct front serving;

	if (!s) {
		a.from.addr = at->addr;
		a.from.port = at->port;
		if (bpf_map_lookup_elem(&answers, &a))
			bpf_map_delete_elem(&answers, &a);
		return 0;
	}
	serving = s->list;
	serving.list = SERVING;
	have = bpf_map_lookup_elem(&flows, &f);
	if (have && now.seen - have->seen < IDLE && member_of(&serving, &have->to)) {
		have->seen = now.seen;
		*to = have->to;
	} else {
		if (!choose(ctx, s, to))
			return 0;
		now.to = *to;
		bpf_map_update_elem(&flows, &f, &now, BPF_ANY);
	}
	a.from = *to;
	if (!bpf_map_lookup_elem(&answers, &a))
		bpf_map_update_elem(&answers, &a, at, BPF_ANY);
	return 1;
}

static __always_inline struct front *asked(struct bpf_sock_addr *ctx, const struct endpoint *from)
{
	struct peer *p = bpf_sk_storage_get(&peers, ctx->sk, 0, 0);

	return p && same(&p->to, from) ? &p->at : 0;
}

static __always_inline struct front *heard(struct bpf_sock_addr *ctx, const struct endpoint *from)
{
	struct front *at = asked(ctx, from);
	struct answer a = { .from = *from };

	if (at)
		return at;
	a.socket = bpf_get_socket_cookie(ctx);
	return bpf_map_lookup_elem(&answers, &a);
}

#define FORWARD(family, section, go, protocols) \
	SEC("cgroup/" #section) int section(struct bpf_sock_addr *ctx) \
	{ \
		struct front at = { .proto = ctx->protocol }; \
		struct endpoint to = {}; \
\
		if (!(protocols) || loopback##family(ctx)) \
			return 1; \
		read##family(ctx, &at.addr, &at.port); \
		if (go(ctx, &at, &to)) \
			write##family(ctx, &to.addr, to.port); \
		return 1; \
	}

#define BACK(family, section, find_out) \
	SEC("cgroup/" #section) int section(struct bpf_sock_addr *ctx) \
	{ \
		struct endpoint from = {}; \
		struct front *at; \
\
		read##family(ctx, &from.addr, &from.port); \
		at = find_out(ctx, &from); \
		if (at) \
			write##family(ctx, &at->addr, at->port); \
		return 1; \
	}

#define TCP_OR_UDP (at.proto == IPPROTO_TCP || at.proto == IPPROTO_UDP)
#define UDP (at.proto == IPPROTO_UDP)

FORWARD(4, connect4, connect_to, TCP_OR_UDP)
FORWARD(6, connect6, connect_to, TCP_OR_UDP)
FORWARD(4, sendmsg4, send_to, UDP)
FORWARD(6, sendmsg6, send_to, UDP)
BACK(4, recvmsg4, heard)
BACK(6, recvmsg6, heard)
BACK(4, getpeername4, asked)
BACK(6, getpeername6, asked)

SEC("cgroup/sock_release") int sock_release(struct bpf_sock *sk)
{
	__u64 socket;

	if (sk->protocol == IPPROTO_UDP) {
		socket = bpf_get_socket_cookie(sk);
		bpf_map_delete_elem(&connections, &socket);
	}
	return 1;
}
