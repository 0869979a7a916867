package echo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// tcp connects, prints the server's first line, sends a line and prints what comes back; with -hold again and again.
func tcp(ctx context.Context, c *call) error {
	timeout := c.flags.Duration("timeout", 5*time.Second, "for connecting and for each answer")
	hold := c.flags.Duration("hold", 0, "keep the connection so long, sending a line every -interval")
	interval := c.flags.Duration("interval", time.Second, "between lines")
	args, err := c.parse(1, 2)
	if err != nil {
		return err
	}
	d := net.Dialer{Timeout: *timeout}
	conn, err := d.DialContext(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	read := func() (string, error) {
		_ = conn.SetDeadline(time.Now().Add(*timeout))
		return in.ReadString('\n')
	}
	who, err := read()
	if err != nil {
		return fmt.Errorf("read who answers: %w", err)
	}
	fmt.Fprint(c.out, who)
	text := strings.Join(args[1:], "") + "\n"
	lines := 0
	for end := time.Now().Add(*hold); ; {
		if lines++; len(args) > 1 || *hold > 0 {
			if _, err := conn.Write([]byte(text)); err != nil {
				return fmt.Errorf("line %d: %w", lines, err)
			}
			got, err := read()
			if err != nil || got != text {
				return fmt.Errorf("line %d came back as %q: %w", lines, got, errors.Join(err, errNotSame(got != text)))
			}
			if *hold == 0 {
				fmt.Fprint(c.out, got)
			}
		}
		if !time.Now().Before(end) || !pause(ctx, *interval) {
			break
		}
	}
	if *hold > 0 {
		fmt.Fprintf(c.out, "%d lines came back over one connection\n", lines)
	}
	return nil
}

func errNotSame(differs bool) error {
	if differs {
		return errors.New("not what was sent")
	}
	return nil
}

// udp sends datagrams from one port and prints the answers.
func udp(ctx context.Context, c *call) error {
	timeout := c.flags.Duration("timeout", 2*time.Second, "for each answer")
	n := c.flags.Int("n", 1, "how many datagrams")
	interval := c.flags.Duration("interval", 0, "wait between datagrams")
	args, err := c.parse(1, 2)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	text := "hello"
	if len(args) > 1 {
		text = args[1]
	}
	var last error
	failed, buf := 0, make([]byte, 65535)
	for i := range *n {
		if i > 0 && !pause(ctx, *interval) {
			break
		}
		_ = conn.SetDeadline(time.Now().Add(*timeout))
		size, err := 0, error(nil)
		if _, err = conn.Write([]byte(text)); err == nil {
			size, err = conn.Read(buf)
		}
		if err != nil {
			failed, last = failed+1, err
			continue
		}
		fmt.Fprintf(c.out, "%s\n", buf[:size])
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d datagrams without answer, the last: %w", failed, *n, last)
	}
	return nil
}
