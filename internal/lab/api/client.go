// Package api is what the lab needs of the Kubernetes API and no more: is it ready, which nodes are there, apply these
// objects, are they rolled out. It is plain HTTP and JSON, so that the lab needs no client library.
package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Client talks to one API server as one identity.
type Client struct {
	Server string // URL
	HTTP   *http.Client
}

// Dial opens a connection; where from is the caller's business.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// New makes a client with an identity's certificate and key from a folder of package pki. dial may be nil.
func New(server, pki, identity string, dial Dial) (*Client, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(pki, identity+".crt"), filepath.Join(pki, identity+".key"))
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	t := &http.Transport{
		TLSClientConfig:     &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext:         dial,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 2,
		TLSHandshakeTimeout: 5 * time.Second,
	}
	return &Client{Server: server, HTTP: &http.Client{Transport: t}}, nil
}

// StatusError is an answer of the API server that is no success.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// notFound says whether err is an answer 404.
func notFound(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == http.StatusNotFound
}

// do sends a request and decodes the answer into out, unless out is nil.
func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.Server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("api: %s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("api: %s %s: %w", method, path, &StatusError{resp.StatusCode, message(data)})
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("api: %s %s: %w", method, path, err)
	}
	return nil
}

// message takes the sentence out of a metav1.Status, or returns the body as it is.
func message(data []byte) string {
	var s struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &s) == nil && s.Message != "" {
		return s.Message
	}
	return string(bytes.TrimSpace(data))
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, out)
}

// Ready returns nil when the API server says that it is ready.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", "", nil, nil)
}

// MayRegister returns nil when the API server answers for this node's own object: from then on its kubelet is not sent
// away, and does not fall into its long pauses between attempts.
func (c *Client) MayRegister(ctx context.Context, node string) error {
	err := c.Get(ctx, "/api/v1/nodes/"+node, nil)
	if notFound(err) {
		return nil
	}
	return err
}
