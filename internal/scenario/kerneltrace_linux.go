package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/sockets"
)

// trace follows a question as `podway trace` does on a live cluster: what is declared, compared with what the nodes have
// programmed and with what the Pods listen on.
func (w *kernelWorld) trace(ctx context.Context, q trace.Question) trace.Path {
	p := w.index.Walk(ctx, q, w.decl)
	if p.Err == nil {
		w.index.Compare(ctx, &p, trace.Layers{Programmed: programmed{w}, Sockets: w.sockets})
	}
	return p
}

// agree says where the nodes would do something else than what is declared, for a question whose packets did as expected.
func (w *kernelWorld) agree(ctx context.Context, q trace.Question) error {
	p := w.trace(ctx, q)
	if p.Err != nil {
		return nil // the question cannot be walked, only sent
	}
	for _, st := range p.Steps {
		if st.Programmed != nil && st.Err == nil && !st.Verdict.Same(*st.Programmed) {
			return fmt.Errorf("the packets did as expected, but trace is told otherwise: hop %s on node %s: %s: declared %s, programmed %s (%s)",
				st.Hop, st.Node, st.Flow, st.Verdict, st.Programmed, st.Programmed.Why)
		}
	}
	return nil
}

// sockets is what the Pod's server listens on.
func (w *kernelWorld) sockets(_ context.Context, p *model.Pod) (sockets.Report, error) {
	kp := w.pods[p.Name]
	if kp == nil {
		return sockets.Report{}, fmt.Errorf("pod %s: %w", p.Name, sockets.ErrNoProcess)
	}
	if kp.ingress != nil {
		return sockets.Report{Processes: 1, Listeners: []sockets.Listener{
			listener("tcp", netip.IPv4Unspecified(), IngressHTTP), listener("tcp", netip.IPv4Unspecified(), IngressHTTPS),
		}}, nil
	}
	if p.Labels[labelName] == nodeAgent {
		return sockets.Report{}, errors.New("podway itself listens in this Pod")
	}
	r := sockets.Report{Processes: 1}
	for port := range kp.ports {
		at := netip.IPv6Unspecified()
		if port.Loopback {
			at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		r.Listeners = append(r.Listeners, listener(port.Proto, at, port.Number))
	}
	return r, nil
}

func listener(proto string, at netip.Addr, port uint16) sockets.Listener {
	return sockets.Listener{Proto: proto, Addr: netip.AddrPortFrom(at, port), PID: 1, Command: "server"}
}
