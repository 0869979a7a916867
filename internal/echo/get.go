package echo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// get sends requests one after the other and prints the bodies.
func get(ctx context.Context, c *call) error {
	var f httpFlags
	f.add(c.flags)
	n := c.flags.Int("n", 1, "how many requests")
	interval := c.flags.Duration("interval", 0, "wait between requests")
	head := c.flags.Bool("i", false, "print status and headers too")
	args, err := c.parse(1, 1)
	if err != nil {
		return err
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	failed, last := 0, error(nil)
	for i := range *n {
		if i > 0 && !pause(ctx, *interval) {
			break
		}
		r, err := f.request(ctx, args[0])
		if err != nil {
			return err
		}
		if err := getOne(client, r, c.out, *head); err != nil {
			failed, last = failed+1, err
			if *n > 1 {
				fmt.Fprintf(c.err, "request %d: %v\n", i+1, err)
			}
		}
	}
	switch {
	case failed > 0 && *n > 1:
		return fmt.Errorf("%d of %d requests failed, the last: %w", failed, *n, last)
	case failed > 0:
		return last
	}
	return nil
}

func getOne(client *http.Client, r *http.Request, out io.Writer, head bool) error {
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if head {
		fmt.Fprintf(out, "%s %s\n", resp.Proto, resp.Status)
		_ = resp.Header.Write(out)
		fmt.Fprintln(out)
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	if resp.StatusCode >= 400 {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// pause waits, and reports whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// ready switches the readiness of the server on this machine.
func ready(ctx context.Context, c *call) error {
	port := c.flags.String("http", "8080", "the server's HTTP port")
	args, err := c.parse(1, 1)
	if err != nil {
		return err
	}
	if args[0] != "on" && args[0] != "off" {
		return usageError{fmt.Errorf("%q is neither on nor off", args[0])}
	}
	r, err := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1:"+*port+"/readyz/"+args[0], nil)
	if err != nil {
		return err
	}
	return getOne(&http.Client{Timeout: 5 * time.Second}, r, c.out, false)
}
