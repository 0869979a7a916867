package dnspeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// Process is a server that runs as a process of its own.
type Process struct {
	Name string
	Addr netip.AddrPort // where it answers
	cmd  *exec.Cmd
	log  *tail
	done chan struct{}
}

// CPU is the processor that servers run on, LoadCPU the one of the generator: different ones where there are two.
func CPU() int { return 0 }

// LoadCPU is the processor of the generator and of all else.
func LoadCPU() int {
	b, err := os.ReadFile("/proc/cpuinfo") // unlike runtime.NumCPU it does not depend on where this process may run
	if err != nil || bytes.Count(b, []byte("\nprocessor")) == 0 {
		return 0
	}
	return 1
}

// tail keeps the last of what a process says.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 1<<16 {
		t.buf.Reset()
	}
	return t.buf.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// Place is where a program runs; the zero one is anywhere.
type Place struct {
	CPUs []int // one thread of Go code for each
	// Shared: servers and generators have the same processors. A generator never sleeps, so none may come before the others.
	Shared bool
}

// Alone is a processor on which nothing else that matters runs.
func Alone(cpu int) Place { return Place{CPUs: []int{cpu}} }

// args is a command line that runs there.
func (p Place) args(args ...string) []string {
	if len(p.CPUs) == 0 {
		return args
	}
	var list []string
	for _, c := range p.CPUs {
		list = append(list, strconv.Itoa(c))
	}
	args = append([]string{"taskset", "-c", strings.Join(list, ",")}, args...)
	if p.Shared && realTime() {
		return append([]string{"chrt", "-o", "0"}, args...) // the priority of this process would be theirs
	}
	return first(1, args...)
}

// Start runs a program in a place.
func Start(ctx context.Context, name string, addr netip.AddrPort, at Place, env []string, args ...string) (*Process, error) {
	if n := len(at.CPUs); n > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(n))
	}
	args = at.args(args...)
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), env...)
	p := &Process{Name: name, Addr: addr, cmd: c, log: &tail{}, done: make(chan struct{})}
	c.Stdout, c.Stderr = p.log, p.log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { _ = c.Wait(); close(p.done) }()
	return p, nil
}

// first is a command line that runs before everything else on the machine, with fixed real-time priority, where that is
// allowed: servers and generators at priority 1, what feeds them at 2. Each then has its processor for itself even while the
// machine does other things, whose share is the twentieth that the kernel keeps for them.
func first(priority int, args ...string) []string {
	if !realTime() {
		return args
	}
	return append([]string{"chrt", "-f", strconv.Itoa(priority)}, args...)
}

var realTime = sync.OnceValue(func() bool { return exec.Command("chrt", "-f", "1", "true").Run() == nil })

// Await waits until the server answers a question rightly.
func (p *Process) Await(ctx context.Context, q Question) error {
	for {
		m := new(dns.Msg).SetQuestion(q.Name, q.Type)
		c := dns.Client{Timeout: 200 * time.Millisecond}
		a, _, err := c.ExchangeContext(ctx, m, p.Addr.String())
		if err == nil && a.Rcode == q.Rcode && len(a.Answer) == q.Answers {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer %s: %w\n%s", p.Name, q.Name, errors.Join(err, ctx.Err()), p.log)
		case <-p.done:
			return fmt.Errorf("%s ended:\n%s", p.Name, p.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// CPUTime is what the process has used so far, in its own code and in the kernel.
func (p *Process) CPUTime() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var ticks time.Duration
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100, nil // USER_HZ
}

// Memory is a line of /proc/PID/status, such as VmRSS or VmHWM, in KiB.
func (p *Process) Memory(line string) (kib int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if n, _ := fmt.Sscanf(l, line+": %d kB", &kib); n == 1 {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("%s: no %s", p.Name, line)
}

// ResetPeak makes VmHWM begin anew.
func (p *Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0)
}

// Pid is the process's.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log is the last of what the process said.
func (p *Process) Log() string { return p.log.String() }

// Pause and Resume stop the process for the time that others are measured.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop kills the process and waits for its end.
func (p *Process) Stop() {
	p.Resume()
	_ = p.cmd.Process.Kill()
	<-p.done
}

// FreePort is an address on loopback that nobody listens on, neither by UDP nor by TCP.
func FreePort() (netip.AddrPort, error) {
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return netip.AddrPort{}, err
		}
		addr := netip.MustParseAddrPort(l.Addr().String())
		u, err := net.ListenPacket("udp", addr.String())
		l.Close()
		if err == nil {
			u.Close()
			return addr, nil
		}
	}
	return netip.AddrPort{}, errors.New("no free port on loopback")
}

// Upstream is a server for the names that are not the cluster's: it knows none. Servers ask it when they start.
func Upstream() (netip.AddrPort, io.Closer, error) {
	return UpstreamFunc(func(dns.Question) []dns.RR { return nil })
}

// UpstreamFunc is a server that knows the names for which f returns records; all others do not exist.
func UpstreamFunc(f func(dns.Question) []dns.RR) (netip.AddrPort, io.Closer, error) {
	addr, err := FreePort()
	if err != nil {
		return netip.AddrPort{}, nil, err
	}
	h := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg).SetReply(q)
		if a.Answer = f(q.Question[0]); len(a.Answer) == 0 {
			a.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(a)
	})
	pc, err := net.ListenPacket("udp", addr.String())
	if err != nil {
		return netip.AddrPort{}, nil, err
	}
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		pc.Close()
		return netip.AddrPort{}, nil, err
	}
	go func() { _ = (&dns.Server{PacketConn: pc, Handler: h}).ActivateAndServe() }()
	go func() { _ = (&dns.Server{Listener: l, Handler: h}).ActivateAndServe() }()
	return addr, closers{pc, l}, nil
}

type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, x := range c {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}
