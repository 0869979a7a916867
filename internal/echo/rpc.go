package echo

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rpc calls Say.
func rpc(ctx context.Context, c *call) error {
	secure := c.flags.Bool("tls", false, "use TLS")
	skip := c.flags.Bool("k", false, "do not check the server's certificate")
	authority := c.flags.String("authority", "", "host name to ask for (:authority and SNI)")
	timeout := c.flags.Duration("timeout", 5*time.Second, "for the call")
	args, err := c.parse(1, 2)
	if err != nil {
		return err
	}
	creds := insecure.NewCredentials()
	if *secure {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: *skip, ServerName: *authority})
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	if *authority != "" {
		options = append(options, grpc.WithAuthority(*authority))
	}
	conn, err := grpc.NewClient("passthrough:///"+args[0], options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	out := &wrapperspb.StringValue{}
	if err := conn.Invoke(ctx, sayMethod, wrapperspb.String(strings.Join(args[1:], "")), out); err != nil {
		return err
	}
	fmt.Fprintln(c.out, out.GetValue())
	return nil
}

// ws sends one message over WebSocket.
func ws(ctx context.Context, c *call) error {
	skip := c.flags.Bool("k", false, "do not check the server's certificate")
	timeout := c.flags.Duration("timeout", 5*time.Second, "for all of it")
	var resolve list
	c.flags.Var(&resolve, "resolve", "`HOST=ADDRESS` to use in place of DNS; may be repeated")
	args, err := c.parse(1, 2)
	if err != nil {
		return err
	}
	at, err := resolving(resolve)
	if err != nil {
		return err
	}
	target := strings.Replace(args[0], "http", "ws", 1)
	conf, err := websocket.NewConfig(target, strings.Replace(target, "ws", "http", 1))
	if err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	raw, err := dialURL(ctx, conf.Location, at, *skip)
	if err != nil {
		return err
	}
	_ = raw.SetDeadline(time.Now().Add(*timeout))
	conn, err := websocket.NewClient(conf, raw)
	if err != nil {
		_ = raw.Close()
		return err
	}
	return talk(conn, strings.Join(args[1:], ""), c.out)
}

// dialURL connects to the host of a ws or wss URL.
func dialURL(ctx context.Context, u *url.URL, at func(string) string, skipVerify bool) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	addr := at(net.JoinHostPort(u.Hostname(), port))
	if u.Scheme != "wss" {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: skipVerify, ServerName: u.Hostname()}}
	return d.DialContext(ctx, "tcp", addr)
}
