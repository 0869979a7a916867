package nethttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// afterHalf is how long one direction of an upgraded connection may go on when the other has ended.
const afterHalf = 10 * time.Second

// upgrade joins the client's connection and the endpoint's after a 101.
func (e *exchange) upgrade(res *http.Response) {
	back, ok := res.Body.(io.ReadWriteCloser)
	if !ok || !e.socket || !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		res.Body.Close()
		e.answer(http.StatusBadGateway, "the endpoint switched to a protocol that was not asked for")
		return
	}
	defer back.Close()
	conn, buf, err := http.NewResponseController(e.w).Hijack()
	if err != nil {
		e.status = http.StatusInternalServerError
		return
	}
	defer conn.Close()
	if !e.s.upgraded.add(conn) {
		return
	}
	defer e.s.upgraded.remove(conn)
	opaque(conn)
	conn.SetDeadline(time.Time{})
	e.status = http.StatusSwitchingProtocols
	if err := writeSwitching(buf.Writer, res.Header); err != nil {
		return
	}
	join(conn, buf.Reader, back)
}

func writeSwitching(w *bufio.Writer, h http.Header) error {
	out := endToEnd(h, 2)
	out["Connection"], out["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	w.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	if err := out.Write(w); err != nil {
		return err
	}
	w.WriteString("\r\n")
	return w.Flush()
}

// join copies both ways until both directions have ended, or one has and the other does not follow.
func join(client net.Conn, early io.Reader, back io.ReadWriteCloser) {
	ended := make(chan struct{}, 2)
	go func() {
		io.Copy(back, early) // reads on from the connection when the buffer is empty
		closeWrite(back)
		ended <- struct{}{}
	}()
	go func() {
		io.Copy(client, back)
		closeWrite(client)
		ended <- struct{}{}
	}()
	<-ended
	select {
	case <-ended:
	case <-time.After(afterHalf):
	}
	client.Close()
	back.Close()
}

// closeWrite ends one direction, or both where the connection cannot do that.
func closeWrite(c io.Closer) {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		w.CloseWrite()
		return
	}
	c.Close()
}

// upgrades are the connections that net/http does not know any more.
type upgrades struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func (u *upgrades) add(c net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	if u.conns == nil {
		u.conns = map[net.Conn]struct{}{}
	}
	u.conns[c] = struct{}{}
	return true
}

func (u *upgrades) remove(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, c)
}

func (u *upgrades) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for c := range u.conns {
		c.Close()
	}
}
