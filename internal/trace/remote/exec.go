package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podway/podway/internal/model"
)

// command is what runs in a container.
type command struct {
	pod       model.Name
	container string
	argv      []string
}

// execFunc runs the command until it ends, or ctx does.
type execFunc func(ctx context.Context, c command, stdin io.Reader, stdout, stderr io.Writer) error

// execOver runs commands through the API server: over a WebSocket, and over SPDY when that is not offered.
func execOver(config *rest.Config) execFunc {
	return func(ctx context.Context, c command, stdin io.Reader, stdout, stderr io.Writer) error {
		typed, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		u := typed.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.pod.Namespace).Name(c.pod.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: c.container, Command: c.argv, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
		e, err := executor(config, u)
		if err != nil {
			return err
		}
		return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	}
}

func executor(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
	ws, err := remotecommand.NewWebSocketExecutor(config, "GET", u.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", u)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// streams is a running command as a connection: what is written goes to its stdin, what is read comes from its stdout.
type streams struct {
	io.Reader
	in   *io.PipeWriter
	out  *io.PipeReader
	stop context.CancelFunc
}

func (s *streams) Write(p []byte) (int, error) { return s.in.Write(p) }

// Close ends the command.
func (s *streams) Close() error {
	s.stop()
	return errors.Join(s.in.Close(), s.out.Close())
}

// start runs a command and returns its streams. When the command ends, reading fails with what it said on stderr.
func (c *Cluster) start(ctx context.Context, cmd command) io.ReadWriteCloser {
	ctx, stop := context.WithCancel(ctx)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		var stderr bytes.Buffer
		err := c.exec(ctx, cmd, inR, outW, &stderr)
		if said := strings.TrimSpace(stderr.String()); said != "" {
			err = fmt.Errorf("%s: %s", cmd.pod, lastLine(said))
		} else if err == nil {
			err = fmt.Errorf("%s: the command ended", cmd.pod)
		}
		err = shorter(err)
		_ = outW.CloseWithError(err)
		_ = inR.CloseWithError(err)
	}()
	return &streams{Reader: outR, in: inW, out: outR, stop: stop}
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// AskTimeout bounds one question to a node, the exec's start included.
const AskTimeout = 5 * time.Second

// longest is how much of a container runtime's error is told.
const longest = 160

// shorter keeps the beginning and the end of a long error, where it says what was tried and why it failed.
func shorter(err error) error {
	s := []rune(err.Error())
	if len(s) <= longest {
		return err
	}
	return fmt.Errorf("%s ... %s", string(s[:longest/3]), string(s[len(s)-longest*2/3:]))
}
