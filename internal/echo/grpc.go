package echo

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The methods: each answers a google.protobuf.StringValue with one that says who answers, and the text.
const (
	sayMethod  = "/podway.echo.Echo/Say"
	chatMethod = "/podway.echo.Echo/Chat"
)

// newGRPC serves podway.echo.Echo (Say, and Chat as a stream both ways) and grpc.health.v1.Health.
func (s *Server) newGRPC() *grpc.Server {
	g := grpc.NewServer()
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "podway.echo.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Say", Handler: s.sayHandler}},
		Streams:     []grpc.StreamDesc{{StreamName: "Chat", Handler: s.chat, ServerStreams: true, ClientStreams: true}},
	}, s)
	healthpb.RegisterHealthServer(g, health{s: s})
	return g
}

func (s *Server) sayHandler(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := &wrapperspb.StringValue{}
	if err := decode(in); err != nil {
		return nil, err
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(PodHeader, s.c.Who.Pod))
	return wrapperspb.String(s.say(ctx, in.GetValue())), nil
}

func (s *Server) say(ctx context.Context, text string) string {
	client := "-"
	if p, ok := peer.FromContext(ctx); ok {
		client = p.Addr.String()
	}
	return s.c.Who.Line(client) + "\n" + text
}

func (s *Server) chat(_ any, stream grpc.ServerStream) error {
	for {
		in := &wrapperspb.StringValue{}
		if err := stream.RecvMsg(in); err != nil {
			if errors.Is(err, io.EOF) { // the client has said all
				return nil
			}
			return err
		}
		if err := stream.SendMsg(wrapperspb.String(s.say(stream.Context(), in.GetValue()))); err != nil {
			return err
		}
	}
}

// health is serving while the server is ready.
type health struct {
	healthpb.UnimplementedHealthServer
	s *Server
}

// Check implements grpc.health.v1.Health.
func (h health) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	st := healthpb.HealthCheckResponse_NOT_SERVING
	if h.s.ready.Load() {
		st = healthpb.HealthCheckResponse_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: st}, nil
}
