package dnspeer

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Load is what a generator sends.
type Load struct {
	To        netip.AddrPort
	Questions []Question // Ask of them
	Sockets   int
	Window    int // questions on their way on each socket; 0 = Rate
	Rate      int // questions a second
	For       time.Duration
}

// Seen is what came of it.
type Seen struct {
	Sent, Answered, Lost, Wrong int
	Took                        time.Duration
	P50, P99                    time.Duration // with Rate
	Example                     string        // of a wrong answer
}

// QPS is answers a second.
func (s Seen) QPS() float64 { return float64(s.Answered) / s.Took.Seconds() }

const (
	inFlight  = 32 // datagrams for each system call
	replySize = 1500
	lostAfter = 500 * time.Millisecond
)

// lane is one socket of the generator and the questions on their way on it.
type lane struct {
	fd      int
	base    int // of its questions: the question of ID n is base+n
	next    uint16
	out     int
	heard   time.Time // when an answer came, in a flood; else when the last question was sent
	sentAt  []int64   // by ID, nanoseconds; with Rate
	waiting []bool
}

// generator is a Load under way. It is one goroutine that never sleeps while answers may come.
type generator struct {
	Load
	wire  [][]byte
	lanes []*lane
	in    [inFlight]mmsghdr
	outs  [inFlight]mmsghdr
	inIov [inFlight]unix.Iovec
	oIov  [inFlight]unix.Iovec
	buf   []byte
	polls [64]unix.PollFd
	seen  Seen
	took  []time.Duration
	start time.Time
}

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// Run sends the load and checks every answer's code and number of records.
func (l Load) Run() (Seen, error) {
	wire, err := Wire(l.Questions)
	if err != nil {
		return Seen{}, err
	}
	g := &generator{Load: l, wire: wire, buf: make([]byte, inFlight*replySize)}
	for i := range inFlight {
		g.inIov[i].Base = &g.buf[i*replySize]
		g.inIov[i].SetLen(replySize)
		g.in[i].hdr.Iov, g.outs[i].hdr.Iov = &g.inIov[i], &g.oIov[i]
		g.in[i].hdr.SetIovlen(1)
		g.outs[i].hdr.SetIovlen(1)
	}
	for i := range l.Sockets {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return Seen{}, fmt.Errorf("load: socket: %w", err)
		}
		defer unix.Close(fd)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(l.To.Port()), Addr: l.To.Addr().As4()}); err != nil {
			return Seen{}, fmt.Errorf("load: connect: %w", err)
		}
		g.lanes = append(g.lanes, &lane{fd: fd, base: i * len(wire) / l.Sockets, sentAt: make([]int64, Ask), waiting: make([]bool, Ask)})
	}
	g.start = time.Now()
	if l.Window > 0 {
		g.flood()
	} else {
		g.pace()
	}
	g.seen.Took = time.Since(g.start)
	g.percentiles()
	return g.seen, nil
}

// flood keeps Window questions on their way on every socket. It looks for answers all the time: to wake it up would cost the
// server an interrupt to another processor.
func (g *generator) flood() {
	for _, l := range g.lanes {
		l.heard = g.start
	}
	for now := g.start; now.Sub(g.start) < g.For; now = time.Now() {
		for _, l := range g.lanes {
			if n := g.receive(l, now); n > 0 {
				l.heard = now
			} else if l.out > 0 && now.Sub(l.heard) > lostAfter {
				g.giveUp(l, now)
			}
			for l.out < g.Window {
				if g.send(l, min(inFlight, g.Window-l.out)) == 0 {
					break
				}
			}
		}
	}
}

func (g *generator) giveUp(l *lane, now time.Time) {
	g.seen.Lost += l.out
	clear(l.waiting)
	l.out, l.heard = 0, now
}

// pace sends Rate questions a second, one at a time, whatever the server does.
func (g *generator) pace() {
	gap := time.Second / time.Duration(g.Rate)
	for due, i := g.start, 0; ; {
		now := time.Now()
		if now.Sub(g.start) > g.For {
			break
		}
		if !now.Before(due) {
			l := g.lanes[i%len(g.lanes)]
			l.sentAt[l.next], l.heard = now.UnixNano(), now
			g.send(l, 1)
			due, i = due.Add(gap), i+1
			if behind := now.Sub(due); behind > 10*gap { // the machine was elsewhere: questions that were not asked are no load
				due = now
			}
		}
		g.listen(due)
	}
	for wait := time.Now(); time.Since(wait) < lostAfter; {
		g.listen(time.Now().Add(time.Millisecond))
	}
	for _, l := range g.lanes {
		g.seen.Lost += l.out
	}
}

// eager is how long after a question the generator looks for its answer all the time: to be woken up takes a time that is not
// the server's. Then it sleeps, because one that spins is one that the kernel takes the processor from.
const eager = 5 * time.Millisecond

// listen waits for answers until a time and takes them.
func (g *generator) listen(until time.Time) {
	for waiting := true; waiting; {
		waiting = false
		for _, l := range g.lanes {
			if l.out > 0 && time.Since(l.heard) < eager {
				waiting = true
				g.receive(l, time.Now())
			}
		}
		if !time.Now().Before(until) {
			return
		}
	}
	polls := g.polls[:len(g.lanes)]
	for i, l := range g.lanes {
		polls[i] = unix.PollFd{Fd: int32(l.fd), Events: unix.POLLIN}
	}
	t := unix.NsecToTimespec(int64(max(0, time.Until(until))))
	if n, err := unix.Ppoll(polls, &t, nil); err != nil || n == 0 {
		return
	}
	for i, l := range g.lanes {
		if polls[i].Revents != 0 {
			g.receive(l, time.Now())
		}
	}
}

// send sends the next n questions of a lane; it returns how many the kernel took.
func (g *generator) send(l *lane, n int) int {
	for i := range n {
		id := l.next + uint16(i)
		w := g.wire[(l.base+int(id))%Ask]
		binary.BigEndian.PutUint16(w, id)
		g.oIov[i].Base = &w[0]
		g.oIov[i].SetLen(len(w))
	}
	k, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&g.outs[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0
	}
	for range int(k) {
		l.waiting[l.next] = true
		l.next++
	}
	l.out += int(k)
	g.seen.Sent += int(k)
	return int(k)
}

// receive takes the answers that are there.
func (g *generator) receive(l *lane, _ time.Time) int {
	k, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&g.in[0])), inFlight, unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0
	}
	now := int64(0)
	if g.Rate > 0 {
		now = time.Now().UnixNano()
	}
	for i := range int(k) {
		g.check(l, g.buf[i*replySize:i*replySize+int(g.in[i].n)], now)
	}
	return int(k)
}

// check holds one answer against its question.
func (g *generator) check(l *lane, msg []byte, now int64) {
	if len(msg) < 12 {
		return
	}
	id := binary.BigEndian.Uint16(msg)
	if !l.waiting[id] {
		return // given up
	}
	l.waiting[id] = false
	l.out--
	g.seen.Answered++
	if now > 0 {
		g.took = append(g.took, time.Duration(now-l.sentAt[id]))
	}
	q := &g.Questions[(l.base+int(id))%Ask]
	if rcode, answers := int(msg[3]&15), int(binary.BigEndian.Uint16(msg[6:])); rcode != q.Rcode || answers != q.Answers {
		g.seen.Wrong++
		g.seen.Example = fmt.Sprintf("%s type %d: rcode %d with %d records, want %d with %d", q.Name, q.Type, rcode, answers, q.Rcode, q.Answers)
	}
}

func (g *generator) percentiles() {
	if len(g.took) == 0 {
		return
	}
	slices.Sort(g.took)
	g.seen.P50, g.seen.P99 = g.took[len(g.took)/2], g.took[len(g.took)*99/100]
}
