package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	kindConnect = "connect"
	kindUDP     = "udp"
	kindStream  = "stream"

	streamChunk = 128 << 10
)

// serveClient answers jobs, one JSON value each, in the namespace and the control group that the process was started in.
func serveClient(in io.Reader, out io.Writer) error {
	d, e := json.NewDecoder(in), json.NewEncoder(out)
	for {
		j, err := decode[job](d)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s, err := j.do()
		if err != nil {
			s.Error = err.Error()
		}
		if err := e.Encode(s); err != nil {
			return err
		}
	}
}

// do spends one window. Each worker has a thread of its own and makes blocking system calls, so that the scheduler of Go
// is not what is measured.
func (j job) do() (sample, error) {
	work := map[string]func(to []unix.Sockaddr, until time.Time) tally{kindConnect: connects, kindUDP: roundTrips, kindStream: stream}[j.Kind]
	if work == nil {
		return sample{}, fmt.Errorf("no kind of window %q", j.Kind)
	}
	to, err := sockaddrs(j.To)
	if err != nil {
		return sample{}, err
	}
	tallies := make([]tally, j.Workers)
	start, busy := time.Now(), busyTime()
	var all sync.WaitGroup
	for i := range tallies {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			mine := slices.Concat(to[i%len(to):], to[:i%len(to)])
			tallies[i] = work(mine, start.Add(j.For))
		})
	}
	all.Wait()
	took := time.Since(start)
	s, err := sum(tallies, took)
	if n := s.Rate * took.Seconds(); n > 0 {
		s.CPU = time.Duration(float64(busyTime()-busy) / n)
	}
	return s, err
}

// busyTime is what all processors have worked, to 10 ms: the kernel works for packets in nobody's name.
func busyTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, soft int64
	if _, err := fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+soft) * 10 * time.Millisecond // USER_HZ is 100
}

// tally is what one worker did.
type tally struct {
	done   float64
	took   []time.Duration
	failed int
	err    error
}

func sum(ts []tally, took time.Duration) (s sample, err error) {
	var each []time.Duration
	for _, t := range ts {
		s.Rate += t.done
		s.Failed += t.failed
		each = append(each, t.took...)
		err = errors.Join(err, t.err)
	}
	s.Rate /= took.Seconds()
	slices.Sort(each)
	if n := len(each); n > 0 {
		s.P50, s.P99 = each[n/2], each[min(n-1, n*99/100)]
	}
	return s, err
}

func sockaddrs(list []string) (out []unix.Sockaddr, err error) {
	for _, s := range list {
		a, err := netip.ParseAddrPort(s)
		if err != nil || !a.Addr().Is4() {
			return nil, fmt.Errorf("address %q: %w", s, err)
		}
		out = append(out, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()})
	}
	return out, nil
}

// connects opens one connection after the other and resets each: no side keeps a TIME_WAIT that would make later
// connections to the same backend look old.
func connects(to []unix.Sockaddr, until time.Time) (t tally) {
	for i := 0; time.Now().Before(until); i++ {
		start := time.Now()
		fd, err := dial(to[i%len(to)], unix.SOCK_STREAM)
		if err != nil {
			if t.failed++; t.failed > 100 {
				t.err = err
				return t
			}
			continue
		}
		t.took = append(t.took, time.Since(start))
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // Close resets
		unix.Close(fd)
		t.done++
	}
	return t
}

func dial(to unix.Sockaddr, kind int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	patience := unix.Timeval{Sec: 2}
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience))
	if err == nil {
		err = unix.Connect(fd, to)
	}
	if err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// roundTrips sends a datagram and waits for its echo, over and over on one socket.
func roundTrips(to []unix.Sockaddr, until time.Time) (t tally) {
	fd, err := dial(to[0], unix.SOCK_DGRAM)
	if err != nil {
		return tally{err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 64)
	for time.Now().Before(until) {
		start := time.Now()
		if _, err := unix.Write(fd, b[:32]); err != nil {
			return tally{err: err}
		}
		_, err := unix.Read(fd, b)
		for err == unix.EINTR { // Go's scheduler sends signals
			_, err = unix.Read(fd, b)
		}
		if err != nil { // lost, as datagrams may be; the window is the worse for it
			if t.failed++; t.failed > 2 {
				t.err = fmt.Errorf("no echo: %w", err)
				return t
			}
			continue
		}
		t.took = append(t.took, time.Since(start))
		t.done++
	}
	return t
}

// stream writes on one connection as fast as it goes; done counts MiB.
func stream(to []unix.Sockaddr, until time.Time) (t tally) {
	fd, err := dial(to[0], unix.SOCK_STREAM)
	if err != nil {
		return tally{err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, streamChunk)
	for time.Now().Before(until) {
		n, err := unix.Write(fd, b)
		if err != nil {
			return tally{err: err}
		}
		t.done += float64(n) / (1 << 20)
	}
	return t
}
